import type * as Oidc from 'oidc-provider'
import type { RefreshToken } from 'oidc-provider'
import { type ServerParts, scopesOf } from '../context.ts'
import { grantName, USED_TWICE } from '../server/oidc-adapter.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'

type Context = Oidc.KoaContextWithOIDC

/** The kind of the records of used refresh tokens. */
const USED = 'UsedRefreshToken'

/** The record of a refresh token that was used. 0.2 has stored a number instead. */
interface Use {
  /** The time of the first use in milliseconds since 1970. */
  readonly at: number
  /** The refresh token that replaces it. */
  readonly successor: string
}

/**
 * Replaces refresh tokens when they are used. A client that lost the response, or whose processes refresh at the same time, gets
 * the same successor again, until the successor was used or the grace is over. Later uses may be from a thief (RFC 9700
 * section 4.14.2).
 *
 * Of several nodes that use a token at the same time, the one whose record is stored first names the successor. A successor is
 * stored before it is named, so that a request that fails between both can be repeated.
 */
export class RefreshRotation {
  readonly #errors: typeof Oidc.errors
  readonly #parts: ServerParts
  /** The successors of tokens that were used before, by request. */
  readonly #named = new WeakMap<Context, RefreshToken>()

  constructor(errors: typeof Oidc.errors, parts: ServerParts) {
    this.#errors = errors
    this.#parts = parts
  }

  /**
   * Removes `offline_access` from the scopes of a refresh. Clients repeat it from their authorization request, and the library
   * would reject it, because it is not part of the token.
   */
  begin({ oidc: { params } }: Context): void {
    if (params?.grant_type !== 'refresh_token') return
    const others = scopesOf(params.scope).filter((scope) => scope !== 'offline_access')
    if (others.length > 0) params.scope = others.join(' ')
  }

  /** Judges the use of a refresh token, after the library has checked the client, the token, its grant, and the user. */
  async judge(ctx: Context): Promise<void> {
    const { RefreshToken: token } = ctx.oidc.entities
    const use = token && (await this.#parts.records.get(USED, token.jti))
    if (use !== undefined) this.#named.set(ctx, await this.#successorIn(ctx, use))
  }

  /**
   * Finishes the response to a code or a refresh token, which has passed all other checks: puts the refresh token with its lifetime into
   * it, notes the use of the grant, and refuses the request if the grant has ended in the meantime. That is the last step, so that no
   * refresh succeeds after a revocation.
   * @throws `InvalidGrant` if the grant has ended.
   */
  async finish(ctx: Context): Promise<void> {
    const { RefreshToken: used, Grant: grant } = ctx.oidc.entities
    if (grant === undefined) return
    if (used !== undefined) {
      const isRefresh = ctx.oidc.params?.grant_type === 'refresh_token'
      const token = isRefresh ? (this.#named.get(ctx) ?? (await this.#replace(ctx, used))) : used
      Object.assign(ctx.body as object, {
        refresh_token: token.jti,
        refresh_token_expires_in: Math.max(0, Math.min(token.remainingTTL, grant.remainingTTL)),
      })
    }
    const { jti, accountId, clientId, iat } = grant as Oidc.Grant & { readonly iat: number }
    const { grants } = this.#parts
    // If the store fails, the request is answered: it has used up its token, so that a response of 503 would end the sign-in.
    await grants.use(grantName(jti)).catch(() => undefined)
    if (!(await grants.isEnded({ jti, accountId, clientId, iat }).catch(() => false))) return
    await grants.end(grantName(jti), 'application', jti).catch(() => undefined)
    throw new this.#errors.InvalidGrant('the grant has ended')
  }

  async #replace(ctx: Context, token: RefreshToken): Promise<RefreshToken> {
    const { records } = this.#parts
    const own = { jti: undefined, iat: undefined, exp: undefined, client: ctx.oidc.client }
    const successor = new ctx.oidc.provider.RefreshToken({ ...token, ...own } as never)
    await successor.save()
    const use: Use = { at: Date.now(), successor: successor.jti }
    // The record lives as long as the token was issued for, so that it outlives the token.
    if (await records.add(USED, token.jti, use, lifetimeOf(token))) return successor
    // This one was never sent. If it cannot be removed, it expires.
    await records.delete('RefreshToken', successor.jti).catch(() => undefined)
    const earlier = await records.get(USED, token.jti)
    if (earlier === undefined && this.#parts.options.tokens.refreshGraceSeconds > 0)
      throw new TemporarilyUnavailableError('The refresh token is in use')
    return await this.#successorIn(ctx, earlier)
  }

  /**
   * Returns the successor of a token that was used before.
   * @throws {InvalidGrant} if the token must not be used any more.
   */
  async #successorIn(ctx: Context, use: unknown): Promise<RefreshToken> {
    const { records, options } = this.#parts
    const { refreshGraceSeconds, reuse } = options.tokens
    const { at = 0, successor } = Object(use) as Partial<Use>
    const isReuse =
      refreshGraceSeconds === 0 ||
      successor === undefined ||
      (await records.get(USED, successor)) !== undefined
    if (!isReuse && Date.now() < at + refreshGraceSeconds * 1000) {
      const found = await ctx.oidc.provider.RefreshToken.find(successor)
      if (found === undefined) throw new this.#errors.InvalidGrant('refresh token is expired')
      return found
    }
    if (!isReuse || reuse === 'revoke') {
      const grant = ctx.oidc.entities.Grant as Oidc.Grant
      await grant.destroy()
      ctx.oidc.provider.emit('grant.revoked', ctx, grant.jti)
    }
    throw new this.#errors.InvalidGrant(isReuse ? USED_TWICE : 'the successor was not used in time')
  }
}

/** Returns the seconds for which a stored token was issued. */
function lifetimeOf({ exp = 0, iat = 0 }: RefreshToken): number {
  return Math.max(1, exp - iat)
}
