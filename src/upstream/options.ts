import type { ClientAuth } from 'oauth4webapi'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, orEmpty, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'

const checks = optionChecksOf('upstreamToken')

/** The grant by which tokens are obtained: RFC 8693, or Microsoft's on-behalf-of. */
export type UpstreamTokenStyle = 'token-exchange' | 'entra-obo'

/** A store that the nodes of a server share. It receives encrypted tokens under keys that do not name the user. */
export interface UpstreamTokenStore {
  /** Resolves with the value of a key, or with `undefined` if there is none. */
  get(key: string): Promise<string | null | undefined>
  /** Stores a value for `ttlMs` milliseconds. */
  set(key: string, value: string, options: { readonly ttlMs: number }): Promise<unknown>
  /** Removes a value. */
  delete(key: string): Promise<unknown>
}

/** The cache of {@link upstreamToken}. */
export interface UpstreamTokenCacheOptions {
  /** The maximum number of tokens in the memory of this process. Defaults to 1 000. */
  readonly maxEntries?: number | undefined
  /** A store that all nodes share, in addition to the memory of each. There is none by default. */
  readonly store?: UpstreamTokenStore | undefined
  /**
   * The secret that encrypts tokens in `store`, the same on all nodes. Defaults to a key derived from `clientSecret`. It is
   * required if `store` is used with `clientAuthentication`.
   */
  readonly secret?: string | undefined
}

/** Options of {@link upstreamToken}. */
export interface UpstreamTokenOptions {
  /** The authorization server of the upstream API. Its metadata (RFC 8414) names the token endpoint. */
  readonly issuer?: string | undefined
  /** The token endpoint, if it is not to be discovered. Give this or `issuer`. */
  readonly tokenEndpoint?: string | undefined
  /** The client id of this server at the authorization server. */
  readonly clientId: string
  /** The client secret. Errors never contain it. */
  readonly clientSecret?: string | undefined
  /** Another way to authenticate, such as `PrivateKeyJwt(key)` of `oauth4webapi`. Give this or `clientSecret`. */
  readonly clientAuthentication?: ClientAuth | undefined
  /** `token-exchange` for RFC 8693, or `entra-obo` for the on-behalf-of flow of Microsoft Entra ID. */
  readonly style: UpstreamTokenStyle
  /** The `audience` of the tokens (RFC 8693 §2.1). Only for `token-exchange`. */
  readonly audience?: string | readonly string[] | undefined
  /** The `resource` of the tokens (RFC 8707). Only for `token-exchange`. */
  readonly resource?: string | readonly string[] | undefined
  /** The scopes of the tokens. Required for `entra-obo`. */
  readonly scope?: string | readonly string[] | undefined
  /** The cache of tokens. */
  readonly cache?: UpstreamTokenCacheOptions | undefined
  /** The maximum time for one token, including discovery, in milliseconds. Defaults to 5 000 ms. */
  readonly timeoutMs?: number | undefined
  /** Allows http for `issuer` and `tokenEndpoint` on hosts that are not loopback. Defaults to `false`. */
  readonly allowInsecureHttp?: boolean | undefined
}

const absoluteUri = checks.fitting<string>(
  (uri) => URL.canParse(uri) && !uri.includes('#'),
  'must be an absolute URI without a fragment (RFC 8707 section 2)',
)

const CACHE_RULES = {
  maxEntries: optional(checks.wholeNumber(1, 1_000_000), 1_000),
  store: optional(
    checks.withFunctions<UpstreamTokenStore>(
      'must be an object with the functions get, set, and delete',
      ['get', 'set', 'delete'],
      'a store has the functions get, set, and delete',
    ),
  ),
  secret: optional(checks.secret),
} satisfies RulesFor<UpstreamTokenCacheOptions>

const RULES = {
  issuer: optional(checks.issuer),
  tokenEndpoint: optional(checks.url),
  clientId: checks.required(
    checks.text,
    'set it to the client id of this server at the authorization server',
  ),
  clientSecret: optional(checks.secret),
  clientAuthentication: optional(checks.callable<ClientAuth>('use a ClientAuth of oauth4webapi')),
  style: checks.required(
    checks.oneOf(['token-exchange', 'entra-obo']),
    "set it to 'token-exchange' (RFC 8693) or 'entra-obo'",
  ),
  audience: optional(textsOf, []),
  resource: optional(
    (option, value) => textsOf(option, value).map((resource) => absoluteUri(option, resource)),
    [],
  ),
  scope: optional(scopesOf, []),
  cache: orEmpty(checks.members('must be an object such as { maxEntries: 1000 }', CACHE_RULES)),
  timeoutMs: optional(checks.milliseconds('more than 0'), 5_000),
  allowInsecureHttp: optional(checks.checkBoolean, false),
} satisfies RulesFor<UpstreamTokenOptions>

/** `UpstreamTokenOptions`, checked, copied, and with their defaults. */
export interface ResolvedUpstreamTokenOptions extends Omit<ReadBy<typeof RULES>, 'cache' | 'scope'> {
  readonly scopes: readonly string[]
  readonly maxEntries: number
  readonly store: UpstreamTokenStore | undefined
  /** The secret from which the key of the store is derived. */
  readonly storeSecret: string | undefined
}

/** @throws {KitMcpConfigError} if an option is missing, invalid, or unknown. */
export function resolveUpstreamTokenOptions(options: UpstreamTokenOptions): ResolvedUpstreamTokenOptions {
  const { cache, scope, ...read } = checks.readOptions(
    'upstreamToken',
    'must be called with an object with at least { issuer, clientId, clientSecret, style }',
    options,
    RULES,
  )
  const { issuer, tokenEndpoint, clientSecret, clientAuthentication } = read
  const missing = (option: string, fix: string) => checks.missingOption(option, `set it ${fix}`)
  const both = (option: string, other: string) =>
    checks.invalidOption(option, `cannot be given together with ${other}. Remove one of them`)
  if (issuer === undefined && tokenEndpoint === undefined)
    throw missing('issuer', 'to the authorization server of the upstream API, or set tokenEndpoint')
  if (issuer !== undefined && tokenEndpoint !== undefined) throw both('tokenEndpoint', 'issuer')
  if (clientSecret === undefined && clientAuthentication === undefined)
    throw checks.missingOption('clientSecret', 'set it, or set clientAuthentication')
  if (clientSecret !== undefined && clientAuthentication !== undefined)
    throw both('clientAuthentication', 'clientSecret')
  if (read.style === 'entra-obo') {
    if (scope.length === 0) throw missing('scope', "to scopes such as 'https://graph.microsoft.com/.default'")
    for (const name of ['audience', 'resource'] as const)
      if (options[name] !== undefined)
        throw checks.invalidOption(name, "cannot be used with style 'entra-obo', whose scopes name the API")
  }
  const storeSecret = cache.secret ?? clientSecret
  if (cache.store !== undefined && storeSecret === undefined)
    throw missing(
      'cache.secret',
      'to a random string that all nodes share; it encrypts the tokens in cache.store',
    )
  return { ...read, scopes: scope, maxEntries: cache.maxEntries, store: cache.store, storeSecret }
}

function textsOf(option: string, value: unknown): readonly string[] {
  return checks.checkTexts(option, [value].flat())
}

function scopesOf(option: string, scope: unknown): readonly string[] {
  const scopes = typeof scope === 'string' ? scope.split(' ').filter((value) => value !== '') : scope
  return checks.checkScopes(option, scopes)
}
