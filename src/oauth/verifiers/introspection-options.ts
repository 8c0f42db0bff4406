import type { X509Certificate } from 'node:crypto'
import type { IntrospectionResponse } from 'oauth4webapi'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor, unchecked } from '../../base/options/option-rules.ts'
import { acceptedAudiences, checkAudiences, resourcesAmong } from './audience.ts'
import { tokenRules } from './token-claims.ts'

const checks = optionChecksOf('introspectionVerifier')
const { invalidKind, invalidOption, issuer, missingOption, oneOf, readOptions, required, url, wholeNumber } =
  checks

/** The user that `introspectionVerifier` returns without `mapUser`. */
export interface IntrospectionUser {
  /** The member `sub`, or else `username`, or else `client_id`. */
  readonly id: string | undefined
  /** The whole introspection response of the authorization server. */
  readonly claims: IntrospectionResponse
}

/** The way in which client credentials are sent (RFC 6749 §2.3.1): in the `Authorization` header, or in the body. */
export type IntrospectionAuthentication = 'client_secret_basic' | 'client_secret_post'

/** Options of {@link introspectionVerifier}. */
export interface IntrospectionVerifierOptions<User = IntrospectionUser> {
  /** The introspection endpoint of the authorization server: an https URL, or an http URL on loopback. */
  readonly endpoint: string
  /** The client id of this server at the authorization server. */
  readonly clientId: string
  /** The client secret. Errors never contain it. */
  readonly clientSecret: string
  /** The way in which client id and secret are sent (RFC 6749 §2.3.1). Defaults to `client_secret_basic`. */
  readonly clientAuthentication?: IntrospectionAuthentication | undefined
  /**
   * The accepted audiences: `aud` of the response must be, or contain, one of them (RFC 8707). `false` disables the check,
   * for authorization servers that never send `aud`. This option or `resource` is required.
   */
  readonly audience?: string | readonly string[] | false | undefined
  /** Another name for `audience`, for a single resource indicator (RFC 8707). */
  readonly resource?: string | undefined
  /**
   * The accepted spellings of an audience that is only an origin. With `optional`, `https://host` and `https://host/` count as
   * the same audience (RFC 3986 §6.2.3). Needed by claude.ai (2026-11), which requests tokens with the slash. Defaults to
   * `exact`.
   */
  readonly audienceSlash?: 'exact' | 'optional' | undefined
  /** The expected `iss`. Not checked by default, because few servers send it. */
  readonly issuer?: string | undefined
  /** Members of the response that must be present. `null` and the empty string count as absent. */
  readonly requiredClaims?: readonly string[] | undefined
  /** Returns the user for a response. Defaults to `{ id: sub ?? username ?? client_id, claims }`. */
  readonly mapUser?: ((claims: IntrospectionResponse) => User | Promise<User>) | undefined
  /**
   * Returns the scopes of a token for its response and the scopes in it, for identity providers that issue roles or groups
   * instead of scopes. The result replaces the scopes. If the function throws or returns anything but an array of strings,
   * the token is rejected.
   */
  readonly mapScopes?:
    | ((claims: IntrospectionResponse, scopes: readonly string[]) => readonly string[])
    | undefined
  /**
   * The source of the client's certificate, for certificate-bound tokens (RFC 8705 §3): `tls` for the TLS connection of
   * Node.js, or a function for a proxy that terminates TLS. The function returns an `X509Certificate`, DER, or PEM. A token
   * with `cnf["x5t#S256"]` is then accepted with its certificate only. By default, such tokens are rejected.
   */
  readonly clientCertificate?:
    | 'tls'
    | ((request: Request) => X509Certificate | Buffer | string | undefined)
    | undefined
  /** The maximum time for one introspection request, including its response. Defaults to 5 000 ms. */
  readonly timeoutMs?: number | undefined
  /** Allows http for `endpoint` and `issuer` on hosts that are not loopback. Defaults to `false`. */
  readonly allowInsecureHttp?: boolean | undefined
  /**
   * Accepts without a warning that `issuer` or `audience` differs from `issuer` or `resource` of the gate that uses the verifier.
   * Defaults to `false`: the difference is usually a typing error, and one warning is written when the gate is made.
   */
  readonly allowMismatch?: boolean | undefined
}

function credential(option: string, value: unknown): string {
  if (value === undefined || value === null || value === '')
    throw missingOption(option, 'set it, because introspection endpoints require client authentication')
  if (typeof value !== 'string') throw invalidKind(option, 'must be a string', value)
  return value
}

const RULES = {
  endpoint: required(
    url,
    `set it to the introspection endpoint, such as 'https://auth.example.com/introspect'`,
  ),
  clientId: credential,
  clientSecret: credential,
  clientAuthentication: optional(oneOf(['client_secret_basic', 'client_secret_post']), 'client_secret_basic'),
  audience: unchecked<IntrospectionVerifierOptions['audience']>(),
  issuer: optional(issuer),
  timeoutMs: optional(wholeNumber(1), 5_000),
  ...tokenRules<IntrospectionResponse>(checks, 'a response'),
} satisfies RulesFor<IntrospectionVerifierOptions>

/** `IntrospectionVerifierOptions`, checked, copied, and with their defaults. */
export type ResolvedIntrospectionOptions = ReturnType<typeof resolveIntrospectionOptions>

/** @throws {KitMcpConfigError} if an option is invalid. */
export function resolveIntrospectionOptions(options: IntrospectionVerifierOptions<any>) {
  const read = readOptions(
    'introspectionVerifier',
    'must be called with an object with at least { endpoint, clientId, clientSecret, audience }',
    options,
    RULES,
  )
  const given = audiencesOf(read)
  const audiences = given && acceptedAudiences(given, read.audienceSlash)
  return { ...read, audiences, resources: resourcesAmong(audiences || []) }
}

function audiencesOf({
  audience,
  resource,
}: Pick<IntrospectionVerifierOptions, 'audience' | 'resource'>): readonly string[] | false {
  if (audience !== false) return checkAudiences(checks, { audience, resource })
  const problem = 'cannot be given together with audience: false, which disables the check of aud'
  if (resource !== undefined) throw invalidOption('resource', problem)
  return false
}
