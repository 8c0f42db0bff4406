import type { ClientAuth } from 'oauth4webapi'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'

const {
  checkBoolean,
  checkFunction,
  checkIssuer,
  checkKnownMembers,
  checkKnownOptions,
  checkMs,
  checkOneOf,
  checkScopes,
  checkSecret,
  checkText,
  checkTexts,
  checkUrl,
  checkWholeNumber,
  invalidKind,
  invalidOption,
  missingOption,
} = optionChecksOf('upstreamToken')

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

const OPTIONS = [
  'issuer',
  'tokenEndpoint',
  'clientId',
  'clientSecret',
  'clientAuthentication',
  'style',
  'audience',
  'resource',
  'scope',
  'cache',
  'timeoutMs',
  'allowInsecureHttp',
] as const

const CACHE_OPTIONS = ['maxEntries', 'store', 'secret'] as const

const MAX_ENTRIES = 1_000_000

/** `UpstreamTokenOptions`, checked, copied, and with their defaults. */
export interface ResolvedUpstreamTokenOptions {
  readonly issuer: string | undefined
  readonly tokenEndpoint: string | undefined
  readonly clientId: string
  readonly clientSecret: string | undefined
  readonly clientAuthentication: ClientAuth | undefined
  readonly style: UpstreamTokenStyle
  readonly audience: readonly string[]
  readonly resource: readonly string[]
  readonly scopes: readonly string[]
  readonly maxEntries: number
  readonly store: UpstreamTokenStore | undefined
  /** The secret from which the key of the store is derived. */
  readonly storeSecret: string | undefined
  readonly timeoutMs: number
  readonly allowInsecureHttp: boolean
}

/** @throws {KitMcpConfigError} if an option is missing, invalid, or unknown. */
export function resolveUpstreamTokenOptions(options: UpstreamTokenOptions): ResolvedUpstreamTokenOptions {
  if (!isOptionsObject(options)) {
    throw invalidKind(
      'upstreamToken',
      'must be called with an object with at least { issuer, clientId, clientSecret, style }',
      options,
    )
  }
  checkKnownOptions('upstreamToken', options, OPTIONS)
  const { issuer, tokenEndpoint, clientId, clientSecret, clientAuthentication, cache = {} } = options
  const allowInsecureHttp =
    options.allowInsecureHttp === undefined
      ? false
      : checkBoolean('allowInsecureHttp', options.allowInsecureHttp)
  if (issuer === undefined && tokenEndpoint === undefined) {
    throw missingOption(
      'issuer',
      'set it to the authorization server of the upstream API, or set tokenEndpoint',
    )
  }
  if (issuer !== undefined && tokenEndpoint !== undefined)
    throw invalidOption('tokenEndpoint', 'cannot be given together with issuer. Remove one of them')
  if (issuer !== undefined) checkIssuer('issuer', issuer, { allowInsecureHttp })
  if (tokenEndpoint !== undefined) checkUrl('tokenEndpoint', tokenEndpoint, { allowInsecureHttp })
  if (clientId === undefined || clientId === null)
    throw missingOption('clientId', 'set it to the client id of this server at the authorization server')
  checkText('clientId', clientId)
  if (clientSecret === undefined && clientAuthentication === undefined)
    throw missingOption('clientSecret', 'set it, or set clientAuthentication')
  if (clientSecret !== undefined && clientAuthentication !== undefined)
    throw invalidOption(
      'clientAuthentication',
      'cannot be given together with clientSecret. Remove one of them',
    )
  if (clientSecret !== undefined) checkSecret('clientSecret', clientSecret)
  if (clientAuthentication !== undefined)
    checkFunction('clientAuthentication', clientAuthentication, 'use a ClientAuth of oauth4webapi')
  if (options.style === undefined)
    throw missingOption('style', "set it to 'token-exchange' (RFC 8693) or 'entra-obo'")
  const style = checkOneOf('style', options.style, ['token-exchange', 'entra-obo'])
  const audience = options.audience === undefined ? [] : checkTexts('audience', [options.audience].flat())
  const resource = options.resource === undefined ? [] : checkTexts('resource', [options.resource].flat())
  for (const value of resource)
    if (!URL.canParse(value) || value.includes('#'))
      throw invalidOption(
        'resource',
        'must be an absolute URI without a fragment (RFC 8707 section 2)',
        value,
      )
  const scopes = options.scope === undefined ? [] : scopesOf(options.scope)
  if (style === 'entra-obo') {
    if (scopes.length === 0)
      throw missingOption('scope', "set it to scopes such as 'https://graph.microsoft.com/.default'")
    for (const name of ['audience', 'resource'] as const)
      if (options[name] !== undefined)
        throw invalidOption(name, "cannot be used with style 'entra-obo', whose scopes name the API")
  }
  return {
    issuer,
    tokenEndpoint,
    clientId,
    clientSecret,
    clientAuthentication,
    style,
    audience,
    resource,
    scopes,
    ...resolveCache(cache, clientSecret),
    // `AbortSignal.timeout` takes whole numbers only.
    timeoutMs:
      options.timeoutMs === undefined
        ? 5_000
        : Math.ceil(checkMs('timeoutMs', options.timeoutMs, 'more than 0')),
    allowInsecureHttp,
  }
}

function scopesOf(scope: unknown): readonly string[] {
  return checkScopes(
    'scope',
    typeof scope === 'string' ? scope.split(' ').filter((value) => value !== '') : scope,
  )
}

function resolveCache(
  cache: UpstreamTokenCacheOptions,
  clientSecret: string | undefined,
): Pick<ResolvedUpstreamTokenOptions, 'maxEntries' | 'store' | 'storeSecret'> {
  if (!isOptionsObject(cache))
    throw invalidKind('cache', 'must be an object such as { maxEntries: 1000 }', cache)
  checkKnownMembers('cache', cache, CACHE_OPTIONS)
  const { maxEntries = 1_000, store, secret } = cache
  if (checkWholeNumber('cache.maxEntries', maxEntries, 1) > MAX_ENTRIES)
    throw invalidOption('cache.maxEntries', `must be at most ${MAX_ENTRIES}`, maxEntries)
  if (secret !== undefined) checkSecret('cache.secret', secret)
  if (store !== undefined) {
    if (!isOptionsObject(store))
      throw invalidKind('cache.store', 'must be an object with the functions get, set, and delete', store)
    for (const name of ['get', 'set', 'delete'] as const)
      checkFunction(`cache.store.${name}`, store[name], 'a store has the functions get, set, and delete')
    if (secret === undefined && clientSecret === undefined) {
      throw missingOption(
        'cache.secret',
        'set it to a random string that all nodes share; it encrypts the tokens in cache.store',
      )
    }
  }
  return { maxEntries, store, storeSecret: secret ?? clientSecret }
}
