import type { IntrospectionResponse } from 'oauth4webapi'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { checkAudiences, resourcesAmong } from './audience.ts'

const checks = optionChecksOf('introspectionVerifier')
const {
  checkBoolean,
  checkFunction,
  checkIssuer,
  checkKnownOptions,
  checkOneOf,
  checkTexts,
  checkUrl,
  checkWholeNumber,
  invalidKind,
  invalidOption,
  missingOption,
} = checks

/** The user when no `mapUser` is given. */
export interface IntrospectionUser {
  /** `sub`, else `username`, else `client_id`. */
  readonly id: string | undefined
  /** The whole answer of the authorization server. */
  readonly claims: IntrospectionResponse
}

/** How the client sends its credentials (RFC 6749 §2.3.1): in the `Authorization` header, or in the body. */
export type IntrospectionAuthentication = 'client_secret_basic' | 'client_secret_post'

/** What `introspectionVerifier()` takes. */
export interface IntrospectionVerifierOptions<User = IntrospectionUser> {
  /** The authorization server's introspection endpoint. https, or http on loopback. */
  readonly endpoint: string
  /** What this server is registered as at the authorization server. */
  readonly clientId: string
  /** Its secret there. It appears in no error. */
  readonly clientSecret: string
  /** How the two are sent (RFC 6749 §2.3.1). Default `client_secret_basic`. */
  readonly clientAuthentication?: IntrospectionAuthentication | undefined
  /**
   * What `aud` must hold one of. This or `resource` is required: a token for somebody else is refused (RFC 8707).
   * `false` does not look at `aud`, for authorization servers that never send it.
   */
  readonly audience?: string | readonly string[] | false | undefined
  /** The same as `audience`, for a resource indicator of RFC 8707. */
  readonly resource?: string | undefined
  /** What `iss` must be. Default: not looked at, as few servers send it. */
  readonly issuer?: string | undefined
  /** Members of the answer that must be present. */
  readonly requiredClaims?: readonly string[] | undefined
  /** Makes the user from the answer. Default `{ id: sub ?? username ?? client_id, claims }`. */
  readonly mapUser?: ((claims: IntrospectionResponse) => User | Promise<User>) | undefined
  /** Milliseconds for one question, answer included. Default 5 000. */
  readonly timeoutMs?: number | undefined
  /** Allows http for `endpoint` and `issuer` on hosts that are not loopback. Default false. */
  readonly allowInsecureHttp?: boolean | undefined
}

const KNOWN_OPTIONS = [
  'endpoint',
  'clientId',
  'clientSecret',
  'clientAuthentication',
  'audience',
  'resource',
  'issuer',
  'requiredClaims',
  'mapUser',
  'timeoutMs',
  'allowInsecureHttp',
] as const

/** `IntrospectionVerifierOptions`, checked, copied and with their defaults. */
export interface ResolvedIntrospectionOptions<User> {
  readonly endpoint: string
  readonly clientId: string
  readonly clientSecret: string
  readonly clientAuthentication: IntrospectionAuthentication
  /** False: `aud` is not looked at. */
  readonly audiences: readonly string[] | false
  /** Those of the audiences that are resources. */
  readonly resources: readonly string[]
  readonly issuer: string | undefined
  readonly requiredClaims: readonly string[]
  readonly mapUser: ((claims: IntrospectionResponse) => User | Promise<User>) | undefined
  readonly timeoutMs: number
}

/** @throws {KitMcpConfigError} naming the option that is wrong. */
export function resolveIntrospectionOptions<User>(
  options: IntrospectionVerifierOptions<User>,
): ResolvedIntrospectionOptions<User> {
  if (!isOptionsObject(options)) {
    throw invalidKind(
      'introspectionVerifier',
      'takes an object with at least { endpoint, clientId, clientSecret, audience }',
      options,
    )
  }
  checkKnownOptions('introspectionVerifier', options, KNOWN_OPTIONS)
  const allowInsecureHttp =
    options.allowInsecureHttp === undefined
      ? false
      : checkBoolean('allowInsecureHttp', options.allowInsecureHttp)
  if (options.endpoint === undefined || options.endpoint === null) {
    throw missingOption(
      'endpoint',
      `give the introspection endpoint, such as 'https://auth.example.com/introspect'`,
    )
  }
  checkUrl('endpoint', options.endpoint, { allowInsecureHttp })
  if (options.issuer !== undefined) checkIssuer('issuer', options.issuer, { allowInsecureHttp })
  if (options.mapUser !== undefined)
    checkFunction('mapUser', options.mapUser, 'it makes the user from the answer')
  const audiences = audiencesOf(options)
  return {
    endpoint: options.endpoint,
    clientId: checkCredential('clientId', options.clientId),
    clientSecret: checkCredential('clientSecret', options.clientSecret),
    clientAuthentication: checkAuthentication(options.clientAuthentication ?? 'client_secret_basic'),
    audiences,
    resources: resourcesAmong(audiences || []),
    issuer: options.issuer,
    requiredClaims:
      options.requiredClaims === undefined ? [] : checkTexts('requiredClaims', options.requiredClaims),
    mapUser: options.mapUser,
    timeoutMs: options.timeoutMs === undefined ? 5_000 : checkWholeNumber('timeoutMs', options.timeoutMs, 1),
  }
}

function audiencesOf({
  audience,
  resource,
}: Pick<IntrospectionVerifierOptions, 'audience' | 'resource'>): readonly string[] | false {
  if (audience !== false) return checkAudiences(checks, { audience, resource })
  if (resource !== undefined) {
    throw invalidOption(
      'resource',
      'cannot be given together with audience: false: either aud is looked at or not',
    )
  }
  return false
}

function checkCredential(option: 'clientId' | 'clientSecret', value: unknown): string {
  if (value === undefined || value === null || value === '') {
    throw missingOption(option, 'the authorization server tells nobody about tokens who does not sign in')
  }
  if (typeof value !== 'string') throw invalidKind(option, 'must be a string', value)
  return value
}

function checkAuthentication(value: unknown): IntrospectionAuthentication {
  return checkOneOf('clientAuthentication', value, ['client_secret_basic', 'client_secret_post'])
}
