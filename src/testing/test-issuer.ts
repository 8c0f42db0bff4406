import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { type JSONWebKeySet, type JWK, SignJWT } from 'jose'

export interface TestIssuerOptions {
  /** The `iss` of its tokens. Default `https://issuer.test`. Nothing is ever fetched from it. */
  readonly issuer?: string | undefined
  /** Whom its tokens are for, where a token does not say otherwise. Default `https://mcp.test/mcp`. */
  readonly audience?: string | undefined
}

/** What a token says. Every member is optional. */
export interface TestTokenOptions {
  /** Default `test-user`. */
  readonly sub?: string | undefined
  /** Put into `scope`, joined by spaces. Default none. */
  readonly scopes?: readonly string[] | undefined
  /** Default the issuer's. */
  readonly audience?: string | readonly string[] | undefined
  /** Put into `client_id`. Default `test-client`. */
  readonly clientId?: string | undefined
  /** Seconds from now until it expires; negative for a token that has. Default 300. */
  readonly expiresIn?: number | undefined
  /** Further claims, over those above. One that is `undefined` takes a claim away. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined
}

/** An authorization server's signing part, without a server. */
export interface TestIssuer {
  readonly issuer: string
  readonly audience: string
  /** The public key, as a JWK Set. */
  readonly jwks: JSONWebKeySet
  /** What `jwtVerifier` takes to accept its tokens, without a network: `jwtVerifier(issuer.verifierOptions)`. */
  readonly verifierOptions: {
    readonly issuer: string
    readonly audience: string
    readonly publicKey: JSONWebKeySet
  }
  /** A signed access token (RFC 9068, ES256). */
  issueToken(options?: TestTokenOptions): Promise<string>
}

/**
 * Makes an issuer with a key of its own, for tests of servers behind `jwtVerifier`.
 *
 * @example
 * const issuer = createTestIssuer({ audience: 'https://notes.test/mcp' })
 * const verifyToken = jwtVerifier(issuer.verifierOptions)
 * const token = await issuer.issueToken({ sub: 'ada', scopes: ['mcp:read'] })
 */
export function createTestIssuer(options: TestIssuerOptions = {}): TestIssuer {
  const { issuer = 'https://issuer.test', audience = 'https://mcp.test/mcp' } = options
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const kid = randomUUID()
  const key = { ...(publicKey.export({ format: 'jwk' }) as JWK), kid, alg: 'ES256', use: 'sig' }
  const jwks = { keys: [key] }
  return {
    issuer,
    audience,
    jwks,
    verifierOptions: { issuer, audience, publicKey: jwks },
    async issueToken(token = {}) {
      const { sub = 'test-user', scopes, clientId = 'test-client', expiresIn = 300 } = token
      const iat = Math.floor(Date.now() / 1000)
      const claims: Record<string, unknown> = {
        iss: issuer,
        aud: token.audience ?? audience,
        sub,
        client_id: clientId,
        iat,
        exp: iat + expiresIn,
        jti: randomUUID(),
        ...(scopes === undefined ? {} : { scope: scopes.join(' ') }),
        ...token.claims,
      }
      for (const name of Object.keys(claims)) if (claims[name] === undefined) delete claims[name]
      return await new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid })
        .sign(privateKey)
    },
  }
}
