import { isLoopbackHostname, isOptionsObject, optionChecksOf } from '../base/options/option-checks.ts'
import { also, optional, orEmpty, type RulesFor } from '../base/options/option-rules.ts'
import { isPromiseLike } from '../base/options/value-kinds.ts'
import { within } from '../base/within.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'
import { type AuthorizationClientsOptions, clientsRule } from './clients/client-options.ts'
import { type IdentityAssertionsOptions, identityAssertionsRule } from './grants/identity-assertions.ts'
import { type AuthorizationTokensOptions, tokensRule } from './grants/token-options.ts'
import { type AuthorizationKeys, createKeys, keysRule } from './keys.ts'
import { type ProviderSettings, type SignInProvider, settingsOf } from './providers.ts'
import { type AuthorizationStore, memoryStore } from './store.ts'

const checks = optionChecksOf('authorizationFacade')

/**
 * The claims of a user: those of the ID token of an OpenID provider, of the user API of GitHub, or of an identity assertion.
 */
export type SignInClaims = Readonly<Record<string, unknown>> & { readonly sub: string }

/** The argument of `allow`. */
export interface AllowInput {
  /** The claims of the user, as the provider has confirmed them. */
  readonly claims: SignInClaims
  /**
   * The name of the provider, such as `github`. For an identity assertion, it is the issuer, unless the issuer is the one of
   * the option `upstream`.
   */
  readonly provider: string
}

/** The result of `allow`. Everything but `true` denies the sign-in. `deny` is the reason that the client shows. */
export type AllowResult = boolean | { readonly deny: string }

/** The argument of `grantScopes`. */
export interface GrantScopesInput {
  /** The claims of the user. */
  readonly claims: SignInClaims
  /** The name of the provider, as for `allow`. */
  readonly provider: string
  /** The scopes that the client requests and this server knows. */
  readonly requested: readonly string[]
}

type Allow = (input: AllowInput) => AllowResult | Promise<AllowResult>
type GrantScopes = (input: GrantScopesInput) => readonly string[] | Promise<readonly string[]>

/** The end of access. */
export interface AuthorizationGrantsOptions {
  /**
   * The time within which access tokens of a grant that has ended are refused, from 1 to 600 s. The store gets at most one
   * command for each grant in this time. Defaults to 5 s.
   */
  readonly accessSeconds?: number | undefined
}

/** The appearance of the pages. */
export interface AuthorizationPageOptions {
  /** The name of the service. Defaults to the host of `url`. */
  readonly title?: string | undefined
  /** The https URL of an image. */
  readonly logo?: string | undefined
  /** Links at the end of the page, such as a privacy policy. */
  readonly links?: readonly { readonly text: string; readonly url: string }[] | undefined
}

/** Options of {@link authorizationFacade}. */
export interface AuthorizationFacadeOptions {
  /** The issuer: the origin of this server, or a path of it, without a slash at the end. https, except for loopback hosts. */
  readonly url: string
  /** The URL of the MCP server, or of several ones. */
  readonly resource: string | readonly string[]
  /** The provider at which users sign in. */
  readonly upstream: SignInProvider
  /** The scopes, with the descriptions that the consent page shows. */
  readonly scopes: Readonly<Record<string, string>>
  /**
   * Decides who may sign in. `'everyone'` allows every account of the provider. It is called again when a token is refreshed,
   * with the claims of the sign-in. It must decide within 10 s.
   */
  readonly allow: 'everyone' | ((input: AllowInput) => AllowResult | Promise<AllowResult>)
  /**
   * Returns those of the requested scopes that a user may have, within 10 s. It is called again when a token is refreshed, and
   * removes the scopes that it no longer returns. Defaults to all of them.
   */
  readonly grantScopes?:
    | ((input: GrantScopesInput) => readonly string[] | Promise<readonly string[]>)
    | undefined
  /** The accepted clients. */
  readonly clients?: AuthorizationClientsOptions | undefined
  /**
   * The identity assertions (ID-JAG) that clients may exchange for tokens, without a sign-in in a browser. None are accepted by
   * default.
   */
  readonly identityAssertions?: IdentityAssertionsOptions | undefined
  /** The lifetimes of tokens, and the use of refresh tokens that were replaced. */
  readonly tokens?: AuthorizationTokensOptions | undefined
  /** The end of access. */
  readonly grants?: AuthorizationGrantsOptions | undefined
  /** The place for clients and grants. Defaults to `memoryStore()`, with a warning outside development. */
  readonly store?: AuthorizationStore | undefined
  /** The keys. By default they are created at start, with a warning outside development. */
  readonly keys?: AuthorizationKeys | undefined
  /** The telemetry manager that receives the events `kit.authorization.*`. No events are emitted by default. */
  readonly telemetry?: KitTelemetryManager<any, any, any> | undefined
  /**
   * Returns the IP address of the client that sent a request, for `clients.maxRegistrationsPerMinute` and for the gate: `oauth`
   * has the same function. See `clientAddress` of the OAuth options. Defaults to `req.ip` of Express, or to the address of the
   * socket.
   */
  readonly clientAddress?: ((request: Request) => string | undefined) | undefined
  /** The appearance of the pages. */
  readonly page?: AuthorizationPageOptions | undefined
}

/** The maximum time for one call of `allow` or `grantScopes`. */
const DECISION_TIMEOUT_MS = 10_000

const GRANT_RULES = {
  accessSeconds: optional(checks.wholeNumber(1, 600), 5),
} satisfies RulesFor<AuthorizationGrantsOptions>

const LINK_RULES = { text: checks.text, url: checks.httpsUrl }

const PAGE_RULES = {
  title: optional(checks.text),
  logo: optional(checks.httpsUrl),
  links: optional(
    checks.items(
      'must be an array of { text, url }',
      checks.members('must contain objects with { text, url }', LINK_RULES),
    ),
    [],
  ),
} satisfies RulesFor<AuthorizationPageOptions>

const STORE_RULE = checks.withFunctions<AuthorizationStore>(
  'must be memoryStore() or redisStore(client)',
  ['get', 'set', 'add', 'take', 'delete'],
  'use memoryStore() or redisStore(client)',
)

const RULES = {
  url: checks.required(
    also(checks.httpsIssuer, checkNormalized),
    "set it to the origin of this server, such as 'https://mcp.example.com'",
  ),
  resource: checks.required(
    resourcesOf,
    "set it to the URL of the MCP server, such as 'https://mcp.example.com/mcp'",
  ),
  upstream: checks.required((option, value): ProviderSettings => {
    const settings = settingsOf(value)
    if (settings !== undefined) return settings
    const expected = 'must be the return value of oidc(), entra(), google(), github(), or cognito()'
    throw checks.invalidKind(option, expected, value)
  }, 'set it to oidc(…), entra(…), google(…), github(…), or cognito(…)'),
  scopes: checks.required(
    scopeDescriptionsOf,
    "set it to the scopes with a description each: { 'mcp:read': 'Read your notes' }",
  ),
  allow(option: string, value: unknown): Allow {
    if (value === 'everyone') return () => true
    if (typeof value === 'string')
      throw checks.invalidOption(option, "must be a function or 'everyone'", value)
    const fix = "it decides who may sign in; 'everyone' allows every account of the provider"
    checks.checkFunction(option, value, fix)
    return value as Allow
  },
  grantScopes: optional(
    checks.callable<GrantScopes>('it returns the scopes that a user may have'),
    ({ requested }: GrantScopesInput) => requested,
  ),
  clients: orEmpty(clientsRule),
  identityAssertions: optional(identityAssertionsRule, { issuers: [] }),
  tokens: orEmpty(tokensRule),
  grants: orEmpty(checks.members('must be an object such as { accessSeconds: 5 }', GRANT_RULES)),
  store: optional(STORE_RULE),
  keys: optional(keysRule),
  telemetry: optional(
    checks.fittingKind<KitTelemetryManager<any, any, any>>(
      (manager) => typeof manager?.emit === 'function',
      'must be the manager that KitTelemetry…build() returned',
    ),
  ),
  clientAddress: optional(checks.clientAddress),
  page: orEmpty(checks.members("must be an object such as { title: 'Notes' }", PAGE_RULES)),
} satisfies RulesFor<AuthorizationFacadeOptions>

/** `AuthorizationFacadeOptions`, checked, copied, and with their defaults. */
export type ResolvedFacadeOptions = ReturnType<typeof resolveFacadeOptions>

/** @throws {KitMcpConfigError} if an option is missing, invalid, or unknown. */
export function resolveFacadeOptions(
  options: AuthorizationFacadeOptions,
  decisionTimeoutMs: number = DECISION_TIMEOUT_MS,
) {
  const expected = 'must be called with an object with at least { url, resource, upstream, scopes, allow }'
  const given = checks.readOptions('authorizationFacade', expected, options, RULES)
  const { resource, allow, grantScopes, clients, identityAssertions, page, store, keys, ...read } = given
  const { host, hostname } = new URL(read.url)
  if (process.env.NODE_ENV !== 'development' && !isLoopbackHostname(hostname)) {
    if (store === undefined) warn(IN_MEMORY)
    if (keys === undefined) warn(OWN_KEYS)
  }
  return {
    ...read,
    resources: resource,
    provider: read.upstream.name,
    allow: inTime('allow', allow, decisionTimeoutMs),
    grantScopes: inTime('grantScopes', grantScopes, decisionTimeoutMs),
    clients: { ...clients, allow: inTime('clients.allow', clients.allow, decisionTimeoutMs) },
    identityAssertions: identityAssertions.issuers,
    store: store ?? memoryStore(),
    keys: keys ?? createKeys(),
    page: { ...page, title: page.title ?? host },
  }
}

const IN_MEMORY =
  'keeps clients and grants in memory: a restart ends all sign-ins. Set the option store to redisStore(client).'
const OWN_KEYS =
  'has created keys that last as long as this process. Set the option keys to keys that all nodes share.'

function warn(problem: string): void {
  process.emitWarning(`authorizationFacade ${problem}`, { type: 'KitMcpWarning' })
}

const NORMALIZE = 'Write the host in lower case and omit the default port.'

function checkNormalized(option: string, url: string): void {
  if (url.endsWith('/'))
    throw checks.invalidOption(option, 'must not end with a slash', url, 'Remove the slash at the end.')
  if (new URL(url).href.replace(/\/$/, '') !== url)
    throw checks.invalidOption(option, 'must be a normalized URL', url, NORMALIZE)
}

function resourcesOf(option: string, value: unknown): readonly string[] {
  const resources = typeof value === 'string' ? [value] : checks.checkTexts(option, value)
  if (resources.length === 0)
    throw checks.invalidKind(option, 'must be a URL or a non-empty array of URLs', value)
  const urls = resources.map(
    (resource) => new URL(checks.checkResource(option, resource, { allowInsecureHttp: 'never' })).href,
  )
  if (new Set(urls).size < urls.length)
    throw checks.invalidKind(option, 'must not contain a URL twice', value)
  return resources
}

function scopeDescriptionsOf(option: string, value: unknown): Readonly<Record<string, string>> {
  const expected = "must map scopes to descriptions, as in { 'mcp:read': 'Read your notes' }"
  if (!isOptionsObject(value) || Object.keys(value).length === 0)
    throw checks.invalidKind(option, expected, value)
  checks.checkScopes(option, Object.keys(value))
  const fix = 'Clients may always request it.'
  for (const [scope, description] of Object.entries(value)) {
    checks.text(`${option}['${scope}']`, description)
    if (scope === 'openid' || scope === 'offline_access')
      throw checks.invalidOption(option, `must not contain '${scope}'`, scope, fix)
  }
  return Object.freeze({ ...(value as Record<string, string>) })
}

/** Bounds the time of a function of the application. The result rejects if it does not settle in time. */
function inTime<Input, Result>(
  name: string,
  decide: (input: Input) => Result | Promise<Result>,
  timeoutMs: number,
): (input: Input) => Promise<Result> {
  const late = () => new Error(`${name} did not settle within ${timeoutMs} ms`)
  return async (input) => {
    const decided = decide(input)
    return isPromiseLike(decided) ? await within(decided, timeoutMs, late) : decided
  }
}
