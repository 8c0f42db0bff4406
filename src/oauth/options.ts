import { LRUCache } from 'lru-cache'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { type DpopMode, type DpopOptions, type ResolvedDpopOptions, resolveDpop } from './dpop/options.ts'
import { type GateValues, gateValuesOf, joinGate } from './gate-values.ts'
import type { RateLimiterLike } from './rate-limiter.ts'
import { type RefusalLimit, RefusalLimiter } from './refusal-limit.ts'

const {
  checkBoolean,
  checkFunction,
  checkHeaderText,
  checkIssuer,
  checkKnownOptions,
  checkPath,
  checkRequiredScopes,
  checkScopes,
  checkUrl,
  checkWholeNumber,
  invalidKind,
  invalidOption,
  missingOption,
} = optionChecksOf('oauth')

/** What a verifier and `onVerified` find of the router: the application's data, and the request. */
export interface VerifyContext<App = unknown> {
  /** What the router's `.context()` returned; `{}` where there is none. */
  readonly context: App
  /** The request being authorized. Its body is not to be read; behind Express there is none. */
  readonly request: Request
}

/** What a verifier is asked. */
export interface VerifyTokenInput<App = unknown> {
  /** The request being authorized. Its body is not to be read; behind Express there is none, and the request is made only when read. */
  readonly request: Request
  /** The token of the `Authorization` header; absent when none was sent. */
  readonly bearerToken: string | undefined
  /** The application's data, and the request; `onVerified` gets the same object. */
  readonly context: VerifyContext<App>
  /**
   * SHA-256 thumbprint (RFC 7638) of the key that this request has proven to hold, where the token came with a good
   * DPoP proof; absent for a Bearer token. A token that is bound to a key is good for nothing without it.
   */
  readonly proofKey?: string | undefined
}

/** What a verifier says of a valid token. Everything but `valid` may be left out; `null` counts as absent. */
export interface VerifiedToken<User = unknown> {
  /** Only `true` accepts the token. */
  readonly valid: boolean
  /** Whom the token stands for: what handlers find at `auth.user`. */
  readonly user?: User | null | undefined
  /** The scopes granted: a list, or one string with spaces between them. Absent means none. */
  readonly scopes?: readonly string[] | string | null | undefined
  /** The OAuth client that the token was issued to. */
  readonly clientId?: string | null | undefined
  /** Seconds since 1970. Past, or no finite number: the token is refused. */
  readonly expiresAt?: number | null | undefined
  /** What the token is for (RFC 8707); compared with the configured `resource`. */
  readonly resource?: string | URL | null | undefined
  /** Anything else, for `auth.extra`. */
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined
  /**
   * The key that the token is bound to (RFC 7800): the `cnf` claim of a JWT, or `cnf` of an introspection response. With
   * `jkt` the token is accepted only with a DPoP proof of that key. A token that is bound in another way is rejected.
   * Members next to `jkt` are ignored unless they are registered confirmation methods, such as `x5t#S256`.
   */
  readonly cnf?: Readonly<Record<string, unknown>> | null | undefined
}

/**
 * Decides whether a token is valid. Returns `undefined` for a token that is missing or not valid;
 * throws `VerifierUnavailableError` when it could not find out.
 */
export type VerifyToken<App = unknown, User = unknown> = (
  input: VerifyTokenInput<App>,
) => Promise<VerifiedToken<User> | undefined> | VerifiedToken<User> | undefined

/** The type of the users that a verifier gives: `UserOf<typeof verifyToken>`. */
export type UserOf<Verify extends VerifyToken<any, any>> =
  NonNullable<Awaited<ReturnType<Verify>>> extends { readonly user?: infer User }
    ? NonNullable<User>
    : unknown

/** What `onVerified` is told. */
export interface OnVerifiedInput<App = unknown, User = unknown> {
  /** The object `verifyToken` got: setting `context.context.user` makes it visible to tools. */
  readonly context: VerifyContext<App>
  /** What the verifier gave as `user`. */
  readonly user: User | undefined
  /** The scopes as granted; broader ones are not expanded. */
  readonly scopes: readonly string[]
  /** The request being authorized. Its body is not to be read; behind Express there is none. */
  readonly request: Request
}

/** Options of the gate. The four of the specification first. */
export interface OAuthOptions<App = any, User = any> {
  /** Address of the authorization server. https, or http on loopback. */
  readonly issuer: string
  /** Verifies a Bearer token. Called once per request, also when none was sent. */
  readonly verifyToken: VerifyToken<App, User>
  /** Path of the metadata document. Default `/.well-known/oauth-protected-resource`. */
  readonly resourceMetadataPath?: string | undefined
  /** Scopes that every request needs. Default none. */
  readonly scopes?: readonly string[] | undefined
  /**
   * Canonical URI of the MCP server (RFC 8707, RFC 9728). Default: the request's own URL. Set it in production.
   * Where one server is several resources (tenants by host or path), a function that says which one a request is
   * for; asked for a metadata document, it gets a request for the URL that the document is about. `undefined`:
   * the request's own URL. Where it throws, or gives what could not be configured, the answer is 500.
   */
  readonly resource?: string | ((request: Request) => string | undefined) | undefined
  /** The challenge's realm. Default `mcp-server`. */
  readonly realm?: string | undefined
  /** The complete list for the metadata document, non-empty. Default `[issuer]`. */
  readonly authorizationServers?: readonly string[] | undefined
  /** `resource_name` of the metadata document. */
  readonly resourceName?: string | undefined
  /** `resource_documentation` of the metadata document: a URL. */
  readonly resourceDocumentation?: string | undefined
  /** `scopes_supported` of the metadata document. Default: every scope named by `scopes` and by the router. */
  readonly scopesSupported?: readonly string[] | undefined
  /** Hierarchy: a broader scope satisfies the narrower ones it names, transitively. */
  readonly scopeImplies?: Readonly<Record<string, readonly string[]>> | undefined
  /** Runs once the token is accepted, before scopes are judged. When it throws, the answer is 500. */
  readonly onVerified?: ((input: OnVerifiedInput<App, User>) => void | Promise<void>) | undefined
  /**
   * Whether `Forwarded` and `X-Forwarded-*` may shape derived URLs. Default false.
   * In Express its own `trust proxy` setting decides instead.
   */
  readonly trustProxy?: boolean | undefined
  /** Milliseconds after which a verifier counts as unavailable (503), and `.context()` or `onVerified` as failed (500). Default 10 000. */
  readonly verifyTimeoutMs?: number | undefined
  /** Allows http for `issuer`, `resource` and `authorizationServers` on hosts that are not loopback. Default false. */
  readonly allowInsecureHttp?: boolean | undefined
  /** `signed_metadata` of the metadata document (RFC 9728 §2.2): a JWT, made elsewhere. Needs a `resource` that is a string. */
  readonly signedMetadata?: string | undefined
  /** DPoP (RFC 9449): a mode, or an object with further settings. Default `off`. */
  readonly dpop?: DpopMode | DpopOptions | undefined
  /**
   * How many refusals (401 and 403) a client address may cause; further ones are 429 with `Retry-After`. A good token
   * is never refused for them. Default: any number. A limiter of `rate-limiter-flexible` is taken as it is, so that
   * several nodes can share one; `{ points, durationSeconds }` counts in this process.
   */
  readonly rateLimit?: RefusalLimit | RateLimiterLike | undefined
  /**
   * IP address of the client that sent a request, for `rateLimit`. IPv6 addresses are counted by their /64. Default:
   * `req.ip` of Express, or the address of the socket if `req.ip` is not an IP address; a request to the web-standard
   * handler has none, and is not limited. If the function returns `undefined`, the request is not limited. If it throws
   * or returns anything else that is not an IP address, the default counts; without a default, all such requests count
   * as one client.
   */
  readonly clientAddress?: ((request: Request) => string | undefined) | undefined
}

/** `OAuthOptions`, checked, copied and with their defaults. */
export interface ResolvedOAuthOptions {
  /** The values that the verifier may use in place of its own. */
  readonly gateValues: GateValues
  readonly verifyToken: VerifyToken
  readonly onVerified: ((input: OnVerifiedInput) => void | Promise<void>) | undefined
  readonly resourceMetadataPath: string
  readonly scopes: readonly string[]
  readonly resource: string | undefined
  /** Says which resource a request is for, checked; where one gate guards several. */
  readonly resourceOf: ((request: Request) => string | undefined) | undefined
  readonly realm: string
  readonly authorizationServers: readonly string[]
  readonly resourceName: string | undefined
  readonly resourceDocumentation: string | undefined
  readonly scopesSupported: readonly string[] | undefined
  readonly scopeImplies: Readonly<Record<string, readonly string[]>>
  readonly trustProxy: boolean
  readonly verifyTimeoutMs: number
  readonly signedMetadata: string | undefined
  readonly dpop: ResolvedDpopOptions | undefined
  readonly limiter: RefusalLimiter | undefined
  readonly clientAddress: ((request: Request) => string | undefined) | undefined
}

const KNOWN_OPTIONS = [
  'issuer',
  'verifyToken',
  'resourceMetadataPath',
  'scopes',
  'resource',
  'realm',
  'authorizationServers',
  'resourceName',
  'resourceDocumentation',
  'scopesSupported',
  'scopeImplies',
  'onVerified',
  'trustProxy',
  'verifyTimeoutMs',
  'allowInsecureHttp',
  'signedMetadata',
  'dpop',
  'rateLimit',
  'clientAddress',
] as const

/** Checks what `withOAuth()`, `oauth` and `mcpAuth()` take. @throws {KitMcpConfigError} naming the option. */
export function resolveOAuthOptions(options: unknown): ResolvedOAuthOptions {
  if (!isOptionsObject(options)) {
    throw invalidKind(
      'oauth',
      'must be an object with OAuth options, at least { issuer, verifyToken }',
      options,
    )
  }
  const given: Partial<Record<keyof OAuthOptions, unknown>> = options
  checkKnownOptions('oauth', given, KNOWN_OPTIONS)
  checkFunction(
    'verifyToken',
    given.verifyToken,
    'give a verifier, such as jwtVerifier({ issuer, audience }): without one nothing can be let in',
  )
  const allowInsecureHttp =
    optional(given.allowInsecureHttp, (value) => checkBoolean('allowInsecureHttp', value)) ?? false
  const url = (option: string, value: unknown): string => {
    checkUrl(option, value, { allowInsecureHttp })
    return value as string
  }
  if (given.issuer === undefined || given.issuer === null) {
    throw missingOption(
      'issuer',
      `give the address of the authorization server, such as 'https://auth.example.com'`,
    )
  }
  const issuer = checkIssuer('issuer', given.issuer, { allowInsecureHttp })
  if (given.onVerified !== undefined)
    checkFunction('onVerified', given.onVerified, 'it runs after verification')
  const scopes = optional(given.scopes, (value) => checkRequiredScopes('scopes', value)) ?? []
  const { resource, resourceOf } = checkResource(given.resource, url)
  const resolved = Object.freeze({
    gateValues: gateValuesOf(given, issuer, resource),
    verifyToken: given.verifyToken as VerifyToken,
    onVerified: given.onVerified as ResolvedOAuthOptions['onVerified'],
    resourceMetadataPath:
      optional(given.resourceMetadataPath, (value) => checkPath('resourceMetadataPath', value)) ??
      '/.well-known/oauth-protected-resource',
    scopes,
    resource,
    resourceOf,
    realm: optional(given.realm, (value) => checkHeaderText('realm', value)) ?? 'mcp-server',
    authorizationServers:
      optional(given.authorizationServers, (value) => {
        if (!Array.isArray(value) || value.length === 0) {
          throw invalidKind(
            'authorizationServers',
            'must be a non-empty array of URLs',
            value,
            'leave it out for [issuer]',
          )
        }
        return Object.freeze(
          value.map((entry) => checkIssuer('authorizationServers', entry, { allowInsecureHttp })),
        )
      }) ?? Object.freeze([issuer]),
    resourceName: optional(given.resourceName, (value) => {
      if (typeof value !== 'string' || value === '' || /\p{Cc}/u.test(value))
        throw invalidOption('resourceName', 'must be a non-empty string without control characters', value)
      return value
    }),
    resourceDocumentation: optional(given.resourceDocumentation, (value) => {
      checkUrl('resourceDocumentation', value, { allowInsecureHttp: true })
      return value as string
    }),
    scopesSupported: optional(given.scopesSupported, (value) => checkScopes('scopesSupported', value)),
    scopeImplies: optional(given.scopeImplies, checkScopeImplies) ?? {},
    trustProxy: optional(given.trustProxy, (value) => checkBoolean('trustProxy', value)) ?? false,
    verifyTimeoutMs:
      optional(given.verifyTimeoutMs, (value) => checkWholeNumber('verifyTimeoutMs', value, 1)) ?? 10_000,
    signedMetadata: optional(given.signedMetadata, (value) => checkSignedMetadata(value, given.resource)),
    dpop: optional(given.dpop, resolveDpop),
    limiter: optional(given.rateLimit, RefusalLimiter.from),
    clientAddress: optional(given.clientAddress, (value) => {
      checkFunction('clientAddress', value, 'it says which IP address a request came from')
      return value as ResolvedOAuthOptions['clientAddress']
    }),
  })
  joinGate(resolved.verifyToken, resolved.gateValues)
  return resolved
}

function checkResource(
  given: unknown,
  url: (option: string, value: unknown) => string,
): Pick<ResolvedOAuthOptions, 'resource' | 'resourceOf'> {
  if (typeof given !== 'function') {
    return { resource: optional(given, (value) => url('resource', value)), resourceOf: undefined }
  }
  const known = new LRUCache<string, true>({ max: 1_000 })
  const resourceOf = (request: Request): string | undefined => {
    const resource: unknown = given(request)
    if (resource === undefined || known.has(resource as string)) return resource as string | undefined
    // One that gives a promise is wrong, whatever becomes of the promise.
    if (resource instanceof Promise) resource.catch(() => undefined)
    known.set(url('resource', resource), true)
    return resource as string
  }
  return { resource: undefined, resourceOf }
}

/** A compact JWT whose claims are about this resource. Its signature is for clients to check. */
function checkSignedMetadata(value: unknown, resource: unknown): string {
  const claims = claimsOf(value)
  if (typeof resource !== 'string' || typeof claims?.iss !== 'string' || claims.resource !== resource) {
    throw invalidKind(
      'signedMetadata',
      'must be a JWT with the claims iss and resource, the latter equal to the option resource',
      value,
      'RFC 9728 §2.2',
    )
  }
  return value as string
}

function claimsOf(jwt: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof jwt !== 'string' || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(jwt)) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(jwt.split('.')[1] as string, 'base64url').toString('utf8'))
    return isOptionsObject(claims) ? (claims as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function optional<T>(value: unknown, check: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : check(value)
}

function checkScopeImplies(value: unknown): Readonly<Record<string, readonly string[]>> {
  if (!isOptionsObject(value)) {
    throw invalidKind(
      'scopeImplies',
      `must map a scope to the scopes it implies, as in { 'mcp:write': ['mcp:read'] }`,
      value,
    )
  }
  checkScopes('scopeImplies', Object.keys(value))
  const copy = Object.entries(value).map(
    ([scope, implied]) => [scope, checkScopes('scopeImplies', implied)] as const,
  )
  return Object.freeze(Object.fromEntries(copy))
}
