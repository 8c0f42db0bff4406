import { Deadlines } from '../oauth/deadlines.ts'
import { isLoopbackHostname, isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { isPromiseLike } from '../options/value-kinds.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'
import { type AuthorizationClientsOptions, type ResolvedClients, resolveClients } from './client-options.ts'
import {
  type IdentityAssertionIssuer,
  type IdentityAssertionsOptions,
  resolveIdentityAssertions,
} from './identity-assertion-options.ts'
import { type AuthorizationKeys, createKeys, type ResolvedKeys, resolveKeys } from './keys.ts'
import { type ProviderSettings, type SignInProvider, settingsOf } from './providers.ts'
import { type AuthorizationStore, memoryStore } from './store.ts'

const {
  checkFunction,
  checkIssuer,
  checkKnownMembers,
  checkKnownOptions,
  checkScopes,
  checkText,
  checkTexts,
  checkUrl,
  invalidKind,
  invalidOption,
  missingOption,
} = optionChecksOf('authorizationFacade')

const STRICT = { allowInsecureHttp: 'never' } as const

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

/** The appearance of the consent page. */
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
  /** The place for clients and grants. Defaults to `memoryStore()`, with a warning outside development. */
  readonly store?: AuthorizationStore | undefined
  /** The keys. By default they are created at start, with a warning outside development. */
  readonly keys?: AuthorizationKeys | undefined
  /** The telemetry manager that receives the events `kit.authorization.*`. No events are emitted by default. */
  readonly telemetry?: KitTelemetryManager<any, any, any> | undefined
  /** The appearance of the consent page. */
  readonly page?: AuthorizationPageOptions | undefined
}

const OPTIONS = [
  'url',
  'resource',
  'upstream',
  'scopes',
  'allow',
  'grantScopes',
  'clients',
  'identityAssertions',
  'store',
  'keys',
  'telemetry',
  'page',
] as const

const PAGE_OPTIONS = ['title', 'logo', 'links']
const LINK_OPTIONS = ['text', 'url']

/** The maximum time for one call of `allow` or `grantScopes`. */
const DECISION_TIMEOUT_MS = 10_000

/** `AuthorizationFacadeOptions`, checked, copied, and with their defaults. */
export interface ResolvedFacadeOptions {
  readonly url: string
  readonly resources: readonly string[]
  readonly provider: string
  readonly upstream: ProviderSettings
  readonly scopes: Readonly<Record<string, string>>
  readonly allow: (input: AllowInput) => AllowResult | Promise<AllowResult>
  readonly grantScopes: (input: GrantScopesInput) => readonly string[] | Promise<readonly string[]>
  readonly clients: ResolvedClients
  /** Empty if identity assertions are not accepted. */
  readonly identityAssertions: readonly IdentityAssertionIssuer[]
  readonly store: AuthorizationStore
  readonly keys: ResolvedKeys
  readonly telemetry: KitTelemetryManager<any, any, any> | undefined
  readonly page: ResolvedPage
}

export interface ResolvedPage {
  readonly title: string
  readonly logo: string | undefined
  readonly links: readonly { readonly text: string; readonly url: string }[]
}

/** @throws {KitMcpConfigError} if an option is missing, invalid, or unknown. */
export function resolveFacadeOptions(
  options: AuthorizationFacadeOptions,
  decisionTimeoutMs: number = DECISION_TIMEOUT_MS,
): ResolvedFacadeOptions {
  if (!isOptionsObject(options))
    throw invalidKind(
      'authorizationFacade',
      'must be called with an object with at least { url, resource, upstream, scopes, allow }',
      options,
    )
  checkKnownOptions('authorizationFacade', options, OPTIONS)
  const url = checkFacadeUrl(options.url)
  const upstream = settingsOf(options.upstream)
  if (options.upstream === undefined)
    throw missingOption('upstream', 'set it to oidc(…), entra(…), google(…), github(…), or cognito(…)')
  if (upstream === undefined)
    throw invalidKind(
      'upstream',
      'must be the return value of oidc(), entra(), google(), github(), or cognito()',
      options.upstream,
    )
  const { grantScopes, telemetry } = options
  if (grantScopes !== undefined)
    checkFunction('grantScopes', grantScopes, 'it returns the scopes that a user may have')
  if (telemetry !== undefined && typeof (telemetry as { emit?: unknown } | null)?.emit !== 'function')
    throw invalidKind('telemetry', 'must be the manager that KitTelemetry…build() returned', telemetry)
  const resolved = {
    url,
    resources: checkResources(options.resource),
    provider: options.upstream.name,
    upstream,
    scopes: checkScopeDescriptions(options.scopes),
    allow: checkAllow(options.allow, decisionTimeoutMs),
    grantScopes:
      grantScopes === undefined
        ? ({ requested }: GrantScopesInput) => requested
        : inTime('grantScopes', grantScopes, decisionTimeoutMs),
    clients: resolveClients(options.clients),
    identityAssertions: resolveIdentityAssertions(options.identityAssertions, url),
    page: resolvePage(options.page, url),
    telemetry,
  }
  const store = options.store === undefined ? undefined : checkStore(options.store)
  const keys = options.keys === undefined ? undefined : resolveKeys(options.keys)
  if (!isDevelopment(url)) {
    if (store === undefined)
      warn(
        'keeps clients and grants in memory: a restart ends all sign-ins. Set the option store to redisStore(client).',
      )
    if (keys === undefined)
      warn(
        'has created keys that last as long as this process. Set the option keys to keys that all nodes share.',
      )
  }
  return { ...resolved, store: store ?? memoryStore(), keys: keys ?? createKeys() }
}

function isDevelopment(url: string): boolean {
  return process.env.NODE_ENV === 'development' || isLoopbackHostname(new URL(url).hostname)
}

function warn(problem: string): void {
  process.emitWarning(`authorizationFacade ${problem}`, { type: 'KitMcpWarning' })
}

function checkFacadeUrl(value: unknown): string {
  if (value === undefined)
    throw missingOption('url', "set it to the origin of this server, such as 'https://mcp.example.com'")
  const url = checkIssuer('url', value, STRICT)
  if (url.endsWith('/'))
    throw invalidOption('url', 'must not end with a slash', url, 'Remove the slash at the end.')
  if (new URL(url).href.replace(/\/$/, '') !== url)
    throw invalidOption(
      'url',
      'must be a normalized URL',
      url,
      'Write the host in lower case and omit the default port.',
    )
  return url
}

function checkResources(value: unknown): readonly string[] {
  if (value === undefined)
    throw missingOption(
      'resource',
      "set it to the URL of the MCP server, such as 'https://mcp.example.com/mcp'",
    )
  const resources = typeof value === 'string' ? [value] : checkTexts('resource', value)
  if (resources.length === 0)
    throw invalidKind('resource', 'must be a URL or a non-empty array of URLs', value)
  for (const resource of resources) checkUrl('resource', resource, STRICT)
  if (new Set(resources.map((resource) => new URL(resource).href)).size < resources.length)
    throw invalidKind('resource', 'must not contain a URL twice', value)
  return resources
}

function checkScopeDescriptions(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined)
    throw missingOption(
      'scopes',
      "set it to the scopes with a description each: { 'mcp:read': 'Read your notes' }",
    )
  if (!isOptionsObject(value) || Object.keys(value).length === 0)
    throw invalidKind(
      'scopes',
      "must map scopes to descriptions, as in { 'mcp:read': 'Read your notes' }",
      value,
    )
  checkScopes('scopes', Object.keys(value))
  for (const [scope, description] of Object.entries(value)) {
    checkText(`scopes['${scope}']`, description)
    if (scope === 'openid' || scope === 'offline_access')
      throw invalidOption(
        'scopes',
        `must not contain '${scope}'`,
        undefined,
        'Clients may always request it.',
      )
  }
  return Object.freeze({ ...(value as Record<string, string>) })
}

function checkAllow(
  value: AuthorizationFacadeOptions['allow'],
  timeoutMs: number,
): ResolvedFacadeOptions['allow'] {
  if (value === 'everyone') return () => true
  if (typeof value === 'string') throw invalidOption('allow', "must be a function or 'everyone'", value)
  checkFunction('allow', value, "it decides who may sign in; 'everyone' allows every account of the provider")
  return inTime('allow', value, timeoutMs)
}

/** Bounds the time of a function of the application. The result rejects if it does not settle in time. */
function inTime<Input, Result>(
  name: string,
  decide: (input: Input) => Result | Promise<Result>,
  timeoutMs: number,
): (input: Input) => Promise<Result> {
  const deadlines = new Deadlines(timeoutMs, (message) => new Error(message))
  return async (input) => {
    const decided = decide(input)
    return isPromiseLike(decided) ? ((await deadlines.within(decided, name)) as Result) : (decided as Result)
  }
}

function checkStore(value: AuthorizationStore): AuthorizationStore {
  if (!isOptionsObject(value))
    throw invalidKind('store', 'must be memoryStore() or redisStore(client)', value)
  for (const name of ['get', 'set', 'add', 'take', 'delete'] as const)
    checkFunction(`store.${name}`, value[name], 'use memoryStore() or redisStore(client)')
  return value
}

function resolvePage(value: AuthorizationPageOptions | undefined = {}, url: string): ResolvedPage {
  if (!isOptionsObject(value))
    throw invalidKind('page', "must be an object such as { title: 'Notes' }", value)
  checkKnownMembers('page', value, PAGE_OPTIONS)
  const { title, logo, links = [] } = value
  if (title !== undefined) checkText('page.title', title)
  if (logo !== undefined) checkUrl('page.logo', logo, STRICT)
  if (!Array.isArray(links)) throw invalidKind('page.links', 'must be an array of { text, url }', links)
  for (const link of links as { readonly text: unknown; readonly url: unknown }[]) {
    if (!isOptionsObject(link))
      throw invalidKind('page.links', 'must contain objects with { text, url }', link)
    checkKnownMembers('page.links', link, LINK_OPTIONS)
    checkText('page.links.text', link.text)
    checkUrl('page.links.url', link.url, STRICT)
  }
  return {
    title: title ?? new URL(url).host,
    logo,
    links: links.map(({ text, url: target }) => ({ text, url: target })),
  }
}
