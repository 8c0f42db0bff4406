import {
  checkBoolean,
  checkFunction,
  checkHeaderText,
  checkKnownOptions,
  checkPath,
  checkRequiredScopes,
  checkScopes,
  checkUrl,
  checkWholeNumber,
  invalidOption,
  isOptionsObject,
  missingOption,
} from './option-checks.ts'

/** What a verifier and `onVerified` find of the router: the application's data, and the request. */
export interface VerifyContext<App = unknown> {
  /** What the router's `.context()` returned; `{}` where there is none. */
  readonly context: App
  readonly request: Request
}

/** What a verifier is asked. */
export interface VerifyTokenInput<App = unknown> {
  /** The request being authorized, without its body. Behind Express it is made only when read. */
  readonly request: Request
  /** The token of the `Authorization` header; absent when none was sent. */
  readonly bearerToken: string | undefined
  readonly context: VerifyContext<App>
}

/** What a verifier says of a valid token. Everything but `valid` may be left out; `null` counts as absent. */
export interface VerifiedToken<User = unknown> {
  readonly valid: boolean
  readonly user?: User | null | undefined
  /** The scopes granted: a list, or one string with spaces between them. Absent means none. */
  readonly scopes?: readonly string[] | string | null | undefined
  readonly clientId?: string | null | undefined
  /** Seconds since 1970. Past, or no finite number: the token is refused. */
  readonly expiresAt?: number | null | undefined
  /** What the token is for (RFC 8707); compared with the configured `resource`. */
  readonly resource?: string | URL | null | undefined
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined
}

/**
 * Decides whether a token is valid. Returns `undefined` for a token that is missing or not valid;
 * throws `VerifierUnavailableError` when it could not find out.
 */
export type VerifyToken<App = unknown, User = unknown> = (
  input: VerifyTokenInput<App>,
) => Promise<VerifiedToken<User> | undefined> | VerifiedToken<User> | undefined

/** What `onVerified` is told. */
export interface VerifiedInput<App = unknown, User = unknown> {
  /** The object `verifyToken` got: setting `context.context.user` makes it visible to tools. */
  readonly context: VerifyContext<App>
  readonly user: User | undefined
  readonly scopes: readonly string[]
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
  /** Canonical URI of the MCP server (RFC 8707, RFC 9728). Default: the request's own URL. Set it in production. */
  readonly resource?: string | undefined
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
  readonly onVerified?: ((input: VerifiedInput<App, User>) => void | Promise<void>) | undefined
  /**
   * Whether `Forwarded` and `X-Forwarded-*` may shape derived URLs. Default false.
   * In Express its own `trust proxy` setting decides instead.
   */
  readonly trustProxy?: boolean | undefined
  /** Milliseconds after which a verifier counts as unavailable (503). Default 10 000. */
  readonly verifyTimeoutMs?: number | undefined
  /** Allows http for `issuer`, `resource` and `authorizationServers` on hosts that are not loopback. Default false. */
  readonly allowInsecureHttp?: boolean | undefined
}

/** `OAuthOptions`, checked, copied and with their defaults. */
export interface ResolvedOAuthOptions {
  readonly verifyToken: VerifyToken
  readonly onVerified: ((input: VerifiedInput) => void | Promise<void>) | undefined
  readonly resourceMetadataPath: string
  readonly scopes: readonly string[]
  readonly resource: string | undefined
  readonly realm: string
  readonly authorizationServers: readonly string[]
  readonly resourceName: string | undefined
  readonly resourceDocumentation: string | undefined
  readonly scopesSupported: readonly string[] | undefined
  readonly scopeImplies: Readonly<Record<string, readonly string[]>>
  readonly trustProxy: boolean
  readonly verifyTimeoutMs: number
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
] as const

/** Checks what `withOAuth()`, `oauth` and `mcpAuth()` take. @throws {KitMcpConfigError} naming the option. */
export function resolveOAuthOptions(options: unknown): ResolvedOAuthOptions {
  if (!isOptionsObject(options)) {
    throw invalidOption('oauth', 'must be an object with OAuth options, at least { issuer, verifyToken }')
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
  const issuer = url('issuer', given.issuer)
  if (given.onVerified !== undefined)
    checkFunction('onVerified', given.onVerified, 'it runs after verification')
  const scopes = optional(given.scopes, (value) => checkRequiredScopes('scopes', value)) ?? []
  return Object.freeze({
    verifyToken: given.verifyToken as VerifyToken,
    onVerified: given.onVerified as ResolvedOAuthOptions['onVerified'],
    resourceMetadataPath:
      optional(given.resourceMetadataPath, (value) => checkPath('resourceMetadataPath', value)) ??
      '/.well-known/oauth-protected-resource',
    scopes,
    resource: optional(given.resource, (value) => url('resource', value)),
    realm: optional(given.realm, (value) => checkHeaderText('realm', value)) ?? 'mcp-server',
    authorizationServers:
      optional(given.authorizationServers, (value) => {
        if (!Array.isArray(value) || value.length === 0) {
          throw invalidOption(
            'authorizationServers',
            'must be a non-empty array of URLs; leave it out for [issuer]',
          )
        }
        return Object.freeze(value.map((entry) => url('authorizationServers', entry)))
      }) ?? Object.freeze([issuer]),
    resourceName: optional(given.resourceName, (value) => {
      if (typeof value !== 'string' || value === '' || /\p{Cc}/u.test(value))
        throw invalidOption('resourceName', 'must be a non-empty string without control characters')
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
  })
}

function optional<T>(value: unknown, check: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : check(value)
}

function checkScopeImplies(value: unknown): Readonly<Record<string, readonly string[]>> {
  if (!isOptionsObject(value)) {
    throw invalidOption(
      'scopeImplies',
      `must map a scope to the scopes it implies: { 'mcp:write': ['mcp:read'] }`,
    )
  }
  checkScopes('scopeImplies', Object.keys(value))
  const copy = Object.entries(value).map(
    ([scope, implied]) => [scope, checkScopes('scopeImplies', implied)] as const,
  )
  return Object.freeze(Object.fromEntries(copy))
}
