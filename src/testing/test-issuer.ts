import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { type JSONWebKeySet, type JWK, SignJWT } from 'jose'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'

const { checkKnownOptions, checkString, checkTexts, invalidKind, invalidOption } =
  optionChecksOf('createTestIssuer')

/** What `createTestIssuer()` takes. */
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
  /** The `iss` of its tokens. */
  readonly issuer: string
  /** Whom its tokens are for, where a token does not say otherwise. */
  readonly audience: string
  /** The public key, as a JWK Set. */
  readonly jwks: JSONWebKeySet
  /** What `jwtVerifier` takes to accept its tokens, without a network: `jwtVerifier(issuer.verifierOptions)`. */
  readonly verifierOptions: {
    readonly issuer: string
    readonly audience: string
    readonly publicKey: JSONWebKeySet
  }
  /** A signed access token (RFC 9068, ES256). @throws {KitMcpConfigError}, by rejecting, for an unknown option */
  issueToken(options?: TestTokenOptions): Promise<string>
}

const ISSUER_OPTIONS = ['issuer', 'audience'] as const
const TOKEN_OPTIONS = ['sub', 'scopes', 'audience', 'clientId', 'expiresIn', 'claims'] as const

/**
 * Makes an issuer with a key of its own, for tests of servers behind `jwtVerifier`.
 *
 * @throws {KitMcpConfigError} for a wrong option; `issueToken` rejects with it
 *
 * @example
 * const issuer = createTestIssuer({ audience: 'https://notes.test/mcp' })
 * const verifyToken = jwtVerifier(issuer.verifierOptions)
 * const token = await issuer.issueToken({ sub: 'ada', scopes: ['mcp:read'] })
 */
export function createTestIssuer(options: TestIssuerOptions = {}): TestIssuer {
  if (!isOptionsObject(options))
    throw invalidKind('createTestIssuer', 'takes options such as { issuer, audience }', options)
  checkKnownOptions('createTestIssuer', options, ISSUER_OPTIONS)
  for (const option of ISSUER_OPTIONS) if (options[option] !== undefined) checkString(option, options[option])
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
      checkToken(token)
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

function checkToken(token: TestTokenOptions): void {
  if (!isOptionsObject(token)) throw invalidKind('issueToken', 'takes options such as { sub, scopes }', token)
  checkKnownOptions('issueToken', token, TOKEN_OPTIONS)
  const { sub, scopes, audience, clientId, expiresIn, claims } = token
  if (sub !== undefined) checkString('sub', sub)
  if (scopes !== undefined) checkTexts('scopes', scopes)
  if (audience !== undefined) checkTexts('audience', typeof audience === 'string' ? [audience] : audience)
  if (clientId !== undefined) checkString('clientId', clientId)
  if (expiresIn !== undefined && !Number.isFinite(expiresIn))
    throw invalidOption('expiresIn', 'must be a number of seconds', expiresIn)
  if (claims !== undefined && !isOptionsObject(claims))
    throw invalidKind('claims', 'must be an object of claims by name', claims)
}
