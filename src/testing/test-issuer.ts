import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { type JSONWebKeySet, type JWK, SignJWT } from 'jose'
import { definedMembers } from '../base/options/defined-members.ts'
import { isOptionsObject, optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'

const { checkString, checkTexts, fitting, fittingKind, readOptions } = optionChecksOf('createTestIssuer')

/** Options of {@link createTestIssuer}. */
export interface TestIssuerOptions {
  /** The `iss` claim of the tokens. It is never fetched. Defaults to `https://issuer.test`. */
  readonly issuer?: string | undefined
  /** The `aud` claim of tokens without their own. Defaults to `https://mcp.test/mcp`. */
  readonly audience?: string | undefined
}

/** Options of a test token. */
export interface TestTokenOptions {
  /** The `sub` claim. Defaults to `test-user`. */
  readonly sub?: string | undefined
  /** The scopes for the `scope` claim. By default, the token has no scopes. */
  readonly scopes?: readonly string[] | undefined
  /** The `aud` claim. Defaults to the audience of the issuer. */
  readonly audience?: string | readonly string[] | undefined
  /** The `client_id` claim. Defaults to `test-client`. */
  readonly clientId?: string | undefined
  /** The time until the token expires, in seconds. Negative for an expired token. Defaults to 300 s. */
  readonly expiresIn?: number | undefined
  /** Further claims. They override the claims above. A claim that is `undefined` is removed. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined
}

/** An issuer of signed tokens for tests. It does not start a server. */
export interface TestIssuer {
  /** The `iss` claim of the tokens. */
  readonly issuer: string
  /** The `aud` claim of tokens without their own. */
  readonly audience: string
  /** The public key, as a JWK Set. */
  readonly jwks: JSONWebKeySet
  /** The options with which `jwtVerifier` accepts the tokens without a network: `jwtVerifier(issuer.verifierOptions)`. */
  readonly verifierOptions: {
    readonly issuer: string
    readonly audience: string
    readonly publicKey: JSONWebKeySet
  }
  /**
   * Returns a signed access token (RFC 9068, ES256).
   * @param options the claims.
   * @returns the token in compact form.
   * @throws {KitMcpConfigError} (the promise rejects) if an option is invalid or unknown.
   */
  issueToken(options?: TestTokenOptions): Promise<string>
}

const ISSUER_RULES = {
  issuer: optional(checkString, 'https://issuer.test'),
  audience: optional(checkString, 'https://mcp.test/mcp'),
} satisfies RulesFor<TestIssuerOptions>

const TOKEN_RULES = {
  sub: optional(checkString, 'test-user'),
  scopes: optional(checkTexts),
  audience: optional((option, value) => (typeof value === 'string' ? [value] : checkTexts(option, value))),
  clientId: optional(checkString, 'test-client'),
  expiresIn: optional(fitting<number>(Number.isFinite, 'must be a number of seconds'), 300),
  claims: optional(fittingKind<object>(isOptionsObject, 'must be an object of claims by name')),
} satisfies RulesFor<TestTokenOptions>

/**
 * Creates an issuer with a new key, for tests of servers that use `jwtVerifier`.
 * @param options the issuer and the audience of its tokens.
 * @returns the issuer, which signs tokens in this process.
 * @throws {KitMcpConfigError} if an option is invalid or unknown.
 * @example
 * ```ts
 * import { jwtVerifier } from 'mcp-gatekit'
 * import { createTestIssuer } from 'mcp-gatekit/testing'
 *
 * const issuer = createTestIssuer({ audience: 'https://notes.test/mcp' })
 * export const verifyToken = jwtVerifier(issuer.verifierOptions)
 * export const token = await issuer.issueToken({ sub: 'ada', scopes: ['mcp:read'] })
 * ```
 * @see docs/guides/testing.md
 * @see https://www.rfc-editor.org/rfc/rfc9068
 */
export function createTestIssuer(options: TestIssuerOptions = {}): TestIssuer {
  const expected = 'must be called with options such as { issuer, audience }'
  const { issuer, audience } = readOptions('createTestIssuer', expected, options, ISSUER_RULES)
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
      const expected = 'must be called with options such as { sub, scopes }'
      const { sub, scopes, clientId, expiresIn } = readOptions('issueToken', expected, token, TOKEN_RULES)
      const iat = Math.floor(Date.now() / 1000)
      const claims = definedMembers<Record<string, unknown>>({
        iss: issuer,
        aud: token.audience ?? audience,
        sub,
        client_id: clientId,
        iat,
        exp: iat + expiresIn,
        jti: randomUUID(),
        scope: scopes?.join(' '),
        ...token.claims,
      })
      return await new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid })
        .sign(privateKey)
    },
  }
}
