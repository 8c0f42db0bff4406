import { isOptionsObject, optionChecksOf } from '../base/options/option-checks.ts'
import { isText } from '../base/options/option-kit.ts'
import { type OptionRule, optional, type RulesFor } from '../base/options/option-rules.ts'
import { type DpopMode, type DpopOptions, resolveDpop } from './dpop/options.ts'
import { gateValuesOf, type VerifyContext, type VerifyTokenInput } from './gate-values.ts'
import { jwtClaims } from './jwt-claims.ts'
import type { RateLimiterLike } from './limits/rate-limiter.ts'
import { type RefusalLimit, refusalLimiter } from './limits/refusal-limit.ts'
import { traitsOf } from './verifiers/verifier-traits.ts'

const checks = optionChecksOf('oauth')

/** The result of a verifier for a valid token. Every member except `valid` may be omitted; `null` counts as absent. */
export interface VerifiedToken<User = unknown> {
  /** Only `true` accepts the token. */
  readonly valid: boolean
  /** The user that the token was issued for. Handlers get it as `auth.user`. */
  readonly user?: User | null | undefined
  /** The granted scopes: a list, or one string with spaces between them. If absent, no scope is granted. */
  readonly scopes?: readonly string[] | string | null | undefined
  /** The OAuth client that the token was issued to. */
  readonly clientId?: string | null | undefined
  /** The expiry in seconds since 1970. A token is rejected if this is in the past or is not a finite number. */
  readonly expiresAt?: number | null | undefined
  /** The resource that the token was issued for (RFC 8707). It must equal the `resource` of the gate. */
  readonly resource?: string | URL | null | undefined
  /** Further data, which handlers get as `auth.extra`. */
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined
  /**
   * The key that the token is bound to (RFC 7800): the `cnf` claim of a JWT, or `cnf` of an introspection response. With
   * `jkt` the token is accepted only with a DPoP proof of that key, and with `x5t#S256` only if a verifier with
   * `clientCertificate` has compared the certificate. A token that is bound in another way is rejected. Other members are
   * ignored unless they are registered confirmation methods.
   */
  readonly cnf?: Readonly<Record<string, unknown>> | null | undefined
  /**
   * The party that acts for the user: the `act` claim of a JWT, or `act` of an introspection response (RFC 8693 §4.1). Handlers get
   * it as `auth.act`. The token is rejected if it is not an object with a `sub` or a `client_id`, or if one of its members `sub`,
   * `iss`, and `client_id` is not a string of 1 to 1,024 characters.
   */
  readonly act?: Readonly<Record<string, unknown>> | null | undefined
}

/**
 * A function that decides whether a token is valid. It returns `undefined` for a missing or invalid token, and throws
 * `VerifierUnavailableError` if it cannot determine that.
 */
export type VerifyToken<App = unknown, User = unknown> = (
  input: VerifyTokenInput<App>,
) => Promise<VerifiedToken<User> | undefined> | VerifiedToken<User> | undefined

/** The type of a verifier's users: `UserOf<typeof verifyToken>`. */
export type UserOf<Verify extends VerifyToken<any, any>> =
  NonNullable<Awaited<ReturnType<Verify>>> extends { readonly user?: infer User }
    ? NonNullable<User>
    : unknown

/** The argument of `onVerified`. */
export interface OnVerifiedInput<App = unknown, User = unknown> {
  /** The same object that `verifyToken` received. Members that you set on `context.context` are visible to tools. */
  readonly context: VerifyContext<App>
  /** The `user` of the verifier's result. */
  readonly user: User | undefined
  /** The scopes as granted; broader ones are not expanded. */
  readonly scopes: readonly string[]
  /** The request being authorized. Do not read its body; behind Express it has none. */
  readonly request: Request
}

/** OAuth options accepted by `createMcpAdapter`, `withOAuth`, and `mcpAuth`. */
export interface OAuthOptions<App = any, User = any> {
  /** The issuer identifier of the authorization server: an https URL, or an http URL on loopback. */
  readonly issuer: string
  /**
   * Verifies the access token. It is called once per request, also if no token was sent. `jwtVerifier()` without options uses
   * `issuer` and `resource` of these options.
   */
  readonly verifyToken: VerifyToken<App, User>
  /** The path of the metadata document. Defaults to `/.well-known/oauth-protected-resource`. */
  readonly resourceMetadataPath?: string | undefined
  /** The scopes that every request needs. Defaults to none. */
  readonly scopes?: readonly string[] | undefined
  /**
   * The canonical URI of the MCP server (RFC 8707, RFC 9728): a host in lower case, no default port, no dot segments. Set it in
   * production. Defaults to the URL of the request.
   *
   * If one server is several resources, such as tenants by host or path, set a function that returns the resource of a
   * request. For a metadata document, it gets a request for the URL that the document describes. If it returns `undefined`,
   * the URL of the request is used. If it throws or returns an invalid URI, the response is 500.
   */
  readonly resource?: string | ((request: Request) => string | undefined) | undefined
  /** The `realm` of challenges. Defaults to `mcp-server`. */
  readonly realm?: string | undefined
  /**
   * The `authorization_servers` of the metadata document: the complete list, not empty. Defaults to `[issuer]`.
   *
   * If each tenant has its own, set a function that returns the list for a request. It gets a request for the URL that the document
   * describes, as a function for `resource` does. If it returns `undefined`, the list is `[issuer]`. If it throws or returns an
   * invalid list, the response for the document is 500.
   */
  readonly authorizationServers?:
    | readonly string[]
    | ((request: Request) => readonly string[] | undefined)
    | undefined
  /** The `resource_name` of the metadata document. */
  readonly resourceName?: string | undefined
  /** The `resource_documentation` of the metadata document: a URL. */
  readonly resourceDocumentation?: string | undefined
  /** The `scopes_supported` of the metadata document. Defaults to every scope that `scopes` and the router name. */
  readonly scopesSupported?: readonly string[] | undefined
  /** The scopes that each broader scope includes, transitively: `{ 'mcp:write': ['mcp:read'] }`. */
  readonly scopeImplies?: Readonly<Record<string, readonly string[]>> | undefined
  /** Called when the token is accepted, before scopes are checked. If it throws, the response is 500. */
  readonly onVerified?: ((input: OnVerifiedInput<App, User>) => void | Promise<void>) | undefined
  /**
   * `true` if `Forwarded` and `X-Forwarded-*` determine derived URLs. In Express, the setting `trust proxy` decides
   * instead. Defaults to `false`.
   */
  readonly trustProxy?: boolean | undefined
  /**
   * The time after which a verifier counts as unavailable (503), and `.context()` or `onVerified` as failed (500). Defaults
   * to 10 000 ms.
   */
  readonly verifyTimeoutMs?: number | undefined
  /**
   * Allows http for `issuer`, `resource`, and `authorizationServers` on hosts that are not loopback. Defaults to
   * `false`.
   */
  readonly allowInsecureHttp?: boolean | undefined
  /**
   * The `signed_metadata` of the metadata document (RFC 9728 §2.2): a JWT that you sign. Needs a `resource` that is a
   * string.
   */
  readonly signedMetadata?: string | undefined
  /** DPoP (RFC 9449): a mode, or an object with further settings. Defaults to `off`. */
  readonly dpop?: DpopMode | DpopOptions | undefined
  /**
   * The number of refusals (401 and 403) that a client address may cause. Further ones get a 429 with `Retry-After`. A
   * valid token is accepted in any case. `{ points, durationSeconds }` counts in this process; a limiter of
   * `rate-limiter-flexible` can count for several nodes. Defaults to no limit.
   */
  readonly rateLimit?: RefusalLimit | RateLimiterLike | undefined
  /**
   * Returns the IP address of the client that sent a request, for `rateLimit` and for the adapter option `limits`. IPv6
   * addresses are counted by their /64.
   *
   * - If the function returns `undefined`, `rateLimit` does not count the request. `limits` counts all such callers as one.
   * - If it throws or returns anything else that is not an IP address, the default is used. Without a default, all such
   *   requests count as one client.
   *
   * Defaults to `req.ip` of Express, or to the address of the socket if `req.ip` is not an IP address. A request to the
   * web-standard handler has no default: `rateLimit` does not count it, and `limits` counts all such callers as one.
   */
  readonly clientAddress?: ((request: Request) => string | undefined) | undefined
  /**
   * The scopes in the challenge of a 403. `required` names those that the operation needs. `keep-granted` also names those that the
   * token has, as MCP 2025-11-25 recommends for clients that request only the scopes of the challenge. Defaults to `required`.
   */
  readonly stepUp?: 'required' | 'keep-granted' | undefined
  /**
   * The challenge for a request without a token. With `bare`, the `WWW-Authenticate` header has no `error` and no
   * `error_description` (RFC 6750 §3.1); the body does not change. Needed by Codex Desktop (2026-11), which signs in only
   * after such a challenge. Defaults to `error`.
   */
  readonly challengeWithoutToken?: 'error' | 'bare' | undefined
  /**
   * Responds to a refused `tools/call` with 200 and a tool result that contains the challenge, in
   * `_meta["mcp/www_authenticate"]`, instead of 401 or 403. `auto` does so only for a `User-Agent` that contains `openai` or
   * `chatgpt`. The body of a refused request is then read, within `maxBodyBytes` and `bodyTimeoutMs`, because the result
   * needs the id of the call. Needed by ChatGPT (2026-11), which offers a sign-in only after such a result. Defaults to
   * `false`.
   */
  readonly challengeInResult?: boolean | 'auto' | undefined
  /**
   * Lists tools with `_meta.securitySchemes`, which names the scopes of the endpoint and of the tool. Needs a `KitMcpRouter`.
   * Read by ChatGPT (2026-11). Defaults to the value of `anonymous`.
   */
  readonly securitySchemes?: boolean | undefined
  /**
   * Serves requests without an `Authorization` header if they discover the server (`initialize`, `ping`, `server/discover`,
   * lists) or use an operation with `public: true`. All other requests need a token, and a token that is sent is always
   * verified. Needs an adapter: `mcpAuth(oauthOptions)` does not know the operations. Defaults to `false`.
   */
  readonly anonymous?: boolean | undefined
}

type Given = Readonly<Record<string, unknown>>

const RULES = {
  issuer: checks.required(
    checks.issuer,
    `set it to the address of the authorization server, such as 'https://auth.example.com'`,
  ),
  verifyToken: checks.callable<VerifyToken>(
    'set it to a verifier, such as jwtVerifier({ issuer, audience })',
  ),
  resourceMetadataPath: optional(checks.checkPath, '/.well-known/oauth-protected-resource'),
  scopes: optional(checks.checkRequiredScopes, []),
  resource: optional(orOfRequest(checks.checkResource)),
  realm: optional(checks.headerText, 'mcp-server'),
  authorizationServers: optional(
    orOfRequest(
      checks.items(
        'must be a non-empty array of URLs, or a function',
        checks.issuer,
        1,
        'omit it to use [issuer]',
      ),
    ),
  ),
  resourceName: optional(
    checks.fitting<string>(
      (name) => isText(name) && !/\p{Cc}/u.test(name),
      'must be a non-empty string without control characters',
    ),
  ),
  resourceDocumentation: optional((option, value) => checks.url(option, value, { allowInsecureHttp: true })),
  scopesSupported: optional(checks.checkScopes),
  scopeImplies: optional(checkScopeImplies, {}),
  onVerified: optional(
    checks.callable<(input: OnVerifiedInput) => void | Promise<void>>(
      'set it to a function that runs after verification',
    ),
  ),
  trustProxy: optional(checks.checkBoolean, false),
  verifyTimeoutMs: optional(checks.wholeNumber(1), 10_000),
  allowInsecureHttp: optional(checks.checkBoolean, false),
  signedMetadata: optional(checkSignedMetadata),
  dpop: optional((_option, value) => resolveDpop(value)),
  rateLimit: optional((_option, value) => refusalLimiter(value)),
  clientAddress: optional(checks.clientAddress),
  stepUp: optional(checks.oneOf(['required', 'keep-granted']), 'required'),
  challengeWithoutToken: optional(checks.oneOf(['error', 'bare']), 'error'),
  challengeInResult: optional(
    checks.fitting<boolean | 'auto'>(
      (value) => typeof value === 'boolean' || value === 'auto',
      `must be true, false, or 'auto'`,
    ),
    false,
  ),
  securitySchemes: optional(checks.checkBoolean),
  anonymous: optional(checks.checkBoolean, false),
} satisfies RulesFor<OAuthOptions>

/** `OAuthOptions`, checked, copied, and with their defaults. */
export type ResolvedOAuthOptions = ReturnType<typeof resolveOAuthOptions>

/**
 * Checks the options of `withOAuth()`, `oauth`, and `mcpAuth()`.
 * @throws {KitMcpConfigError} if an option is invalid.
 */
export function resolveOAuthOptions(options: unknown) {
  const expected = 'must be an object with OAuth options, at least { issuer, verifyToken }'
  const { issuer, resource, rateLimit, ...others } = checks.readOptions('oauth', expected, options, RULES)
  const fixed = typeof resource === 'string' ? resource : undefined
  const { authorizationServers: servers = Object.freeze([issuer]) } = others
  const listed = typeof servers === 'function' ? undefined : servers
  const resolved = Object.freeze({
    ...others,
    /** The values that the verifier may use in place of its own. */
    gateValues: gateValuesOf(options as object, { issuer, authorizationServers: listed, resource: fixed }),
    resource: fixed,
    /** Returns the resource of a request, checked, if one gate protects several. */
    resourceOf: typeof resource === 'function' ? resource : undefined,
    /** The servers of the metadata document. `[issuer]` if they depend on the request. */
    authorizationServers: listed ?? Object.freeze([issuer]),
    /** Returns the servers for a request, checked, if they depend on it. */
    authorizationServersOf: typeof servers === 'function' ? servers : undefined,
    limiter: rateLimit,
  })
  traitsOf(resolved.verifyToken).join?.(resolved.gateValues)
  return resolved
}

/** The rule of an option that may also be a function of the request, whose results are checked as well. */
function orOfRequest<Value>(
  rule: OptionRule<Value>,
): OptionRule<Value | ((request: Request) => Value | undefined)> {
  return (option, value, given) => {
    if (typeof value !== 'function') return rule(option, value, given)
    return (request) => {
      const result: unknown = value(request)
      // A promise is not a result. Its rejection must not become an unhandled one.
      if (result instanceof Promise) result.catch(() => undefined)
      return result === undefined ? undefined : rule(option, result, given)
    }
  }
}

function checkSignedMetadata(option: string, value: unknown, { resource }: Given): string {
  const claims = jwtClaims(value)
  const expected = 'must be a JWT with the claims iss and resource, where resource equals the option resource'
  if (typeof resource !== 'string' || typeof claims?.iss !== 'string' || claims.resource !== resource)
    throw checks.invalidKind(option, expected, value, 'sign it as described in RFC 9728 section 2.2')
  return value as string
}

function checkScopeImplies(option: string, value: unknown): Readonly<Record<string, readonly string[]>> {
  const expected = `must map a scope to the scopes it implies, as in { 'mcp:write': ['mcp:read'] }`
  if (!isOptionsObject(value)) throw checks.invalidKind(option, expected, value)
  checks.checkScopes(option, Object.keys(value))
  const copy = Object.entries(value).map(
    ([scope, implied]) => [scope, checks.checkScopes(option, implied)] as const,
  )
  return Object.freeze(Object.fromEntries(copy))
}
