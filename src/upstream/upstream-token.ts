import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { entriesUpTo } from '../base/entries-up-to.ts'
import type { KitContext } from '../mcp/router/context.ts'
import { KitToolError } from '../mcp/router/tool-error.ts'
import type { AuthInfo } from '../oauth/auth-info.ts'
import { jwtClaims } from '../oauth/jwt-claims.ts'
import { lastingClaims } from '../oauth/lasting-claims.ts'
import { ownerOf } from '../oauth/owner.ts'
import { UpstreamConsentError } from './errors.ts'
import { resolveUpstreamTokenOptions, type UpstreamTokenOptions } from './options.ts'
import { SealedStore } from './sealed-store.ts'
import { TokenEndpoint, type UpstreamAccessToken } from './token-endpoint.ts'

/** The time before its expiry at which a token is replaced: a tenth of its lifetime, at most 30 s. */
const MAX_MARGIN_SECONDS = 30

/** The maximum time for one command of the shared store. */
const STORE_TIMEOUT_MS = 1_000

/** Tokens for one upstream API, as `upstreamToken` returns them. */
export interface UpstreamTokens {
  /**
   * Returns a token for the upstream API that acts for the user of a request.
   * @param auth the `auth` of the request
   * @throws {UpstreamUnavailableError} if the authorization server is down, slow, or overloaded.
   * @throws {UpstreamConsentError} if the user must sign in again or consent.
   * @throws {KitToolError} if the request has no token.
   */
  for(auth: AuthInfo | undefined): Promise<UpstreamAccessToken>
  /**
   * Returns the header for a request to the upstream API. It fits the option `headers` of `toolsFromOpenApi`.
   * @param authOrContext the `auth` of a request, or the context of a handler. Throws as `for` does.
   */
  headers(
    authOrContext: AuthInfo | Pick<KitContext<any>, 'auth'> | undefined,
  ): Promise<{ authorization: string }>
}

/** A token in memory. */
interface CachedToken extends UpstreamAccessToken {
  /** The time until which it may be used, in seconds since 1970. */
  readonly untilSeconds: number
}

/** An exchange in progress. */
interface PendingExchange {
  readonly subjectToken: string
  readonly result: Promise<UpstreamAccessToken>
}

/**
 * Obtains tokens for an upstream API that act for the user of a request: by token exchange (RFC 8693), or by the on-behalf-of
 * flow of Microsoft Entra ID. The token that the client sent to this server goes to the authorization server only, never to
 * the upstream API.
 *
 * Tokens are cached by user, client, granted scopes, and all other claims that do not change when a token is refreshed, and
 * are never used beyond the expiry of either token. Concurrent requests with equal claims share one exchange.
 * @param options the authorization server, the credentials of this server, and the API.
 * @returns functions that return a token, or a header.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
 * @example
 * ```ts
 * import { KitMcpRouter } from 'mcp-gatekit'
 * import { upstreamToken } from 'mcp-gatekit/upstream'
 *
 * const calendar = upstreamToken({
 *   issuer: 'https://auth.example.com',
 *   clientId: 'mcp-server',
 *   clientSecret: String(process.env.CLIENT_SECRET),
 *   style: 'token-exchange',
 *   audience: 'https://calendar.example.com',
 * })
 *
 * export const router = KitMcpRouter.create().tool(
 *   'list_events',
 *   { description: 'Lists the events of today' },
 *   async (_args, context) => {
 *     const headers = await calendar.headers(context)
 *     const response = await fetch('https://calendar.example.com/events', { headers })
 *     return await response.text()
 *   },
 * )
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc8693
 */
export function upstreamToken(options: UpstreamTokenOptions): UpstreamTokens {
  const resolved = resolveUpstreamTokenOptions(options)
  const { maxEntries, store, storeSecret } = resolved
  const endpoint = new TokenEndpoint(resolved)
  const cached = new LRUCache<string, CachedToken>(entriesUpTo(maxEntries))
  const pending = new Map<string, PendingExchange>()
  const shared =
    store === undefined || storeSecret === undefined
      ? undefined
      : new SealedStore(store, storeSecret, STORE_TIMEOUT_MS)
  const target = [
    resolved.issuer ?? resolved.tokenEndpoint,
    resolved.clientId,
    resolved.style,
    resolved.audience,
    resolved.resource,
    resolved.scopes,
  ]

  async function tokenFor(auth: AuthInfo | undefined): Promise<UpstreamAccessToken> {
    const subjectToken: unknown = auth?.token
    if (auth === undefined || auth === null || typeof subjectToken !== 'string' || subjectToken === '')
      throw new KitToolError('This tool requires a signed-in user.')
    const identity = identityOf(auth, subjectToken, target)
    const found = cached.get(identity)
    if (found !== undefined && isCurrent(found, auth)) return publicPart(found)
    const current = pending.get(identity)
    if (current === undefined) return await start(identity, auth, subjectToken)
    try {
      return await current.result
    } catch (error) {
      // The exchange of an older token says nothing about this one.
      if (current.subjectToken === subjectToken || !UpstreamConsentError.is(error)) throw error
      return await start(identity, auth, subjectToken)
    }
  }

  function start(identity: string, auth: AuthInfo, subjectToken: string): Promise<UpstreamAccessToken> {
    const result = obtain(identity, auth, subjectToken).finally(() => {
      if (pending.get(identity)?.result === result) pending.delete(identity)
    })
    pending.set(identity, { subjectToken, result })
    return result
  }

  async function obtain(
    identity: string,
    auth: AuthInfo,
    subjectToken: string,
  ): Promise<UpstreamAccessToken> {
    const stored = await shared?.get(identity)
    if (stored !== undefined) {
      const kept = keptUntil(stored, auth)
      if (kept !== undefined && isCurrent(kept, auth)) {
        cached.set(identity, kept)
        return stored
      }
    }
    const issued = await endpoint.exchange(subjectToken)
    const kept = keptUntil(issued, auth)
    if (kept === undefined) cached.delete(identity)
    else {
      cached.set(identity, kept)
      await shared?.set(identity, issued, kept.untilSeconds)
    }
    return issued
  }

  return upstreamTokens(tokenFor)
}

/** Returns the tokens of a function that finds the token for a request. */
export function upstreamTokens(tokenFor: UpstreamTokens['for']): UpstreamTokens {
  return {
    for: tokenFor,
    async headers(authOrContext) {
      const { token, auth } = Object(authOrContext) as Partial<AuthInfo> & Partial<Pick<KitContext, 'auth'>>
      const found = await tokenFor(typeof token === 'string' ? (authOrContext as AuthInfo) : auth)
      return { authorization: `Bearer ${found.token}` }
    },
  }
}

/**
 * Identifies the requests that may share a token. A token with fewer scopes, or of another organization, actor, or strength
 * of sign-in, must not get what was issued for another one. The claims of an opaque token are not known.
 */
function identityOf(auth: AuthInfo, subjectToken: string, target: readonly unknown[]): string {
  const claims = jwtClaims(subjectToken)
  const granted = claims === undefined ? subjectToken : lastingClaims(claims, true)
  const members = [ownerOf(auth), auth.clientId, [...auth.scopes].sort(), claims !== undefined, granted]
  return createHash('sha256')
    .update(JSON.stringify([...members, ...target]))
    .digest('base64url')
}

/** Returns the token with the time until which it is kept; `undefined` if it cannot be kept. */
function keptUntil(issued: UpstreamAccessToken, auth: AuthInfo): CachedToken | undefined {
  const { expiresAt } = issued
  const nowSeconds = Date.now() / 1000
  if (expiresAt === undefined || expiresAt <= nowSeconds) return undefined
  const margin = Math.min(MAX_MARGIN_SECONDS, (expiresAt - nowSeconds) / 10)
  const untilSeconds = Math.min(expiresAt - margin, auth.expiresAt ?? Number.POSITIVE_INFINITY)
  return untilSeconds <= nowSeconds ? undefined : { ...issued, untilSeconds }
}

function isCurrent({ untilSeconds }: CachedToken, auth: AuthInfo): boolean {
  return Date.now() / 1000 < Math.min(untilSeconds, auth.expiresAt ?? Number.POSITIVE_INFINITY)
}

function publicPart({ token, expiresAt }: CachedToken): UpstreamAccessToken {
  return { token, expiresAt }
}
