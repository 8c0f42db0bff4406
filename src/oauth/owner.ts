import { createHash } from 'node:crypto'
import { tryOrUndefined } from '../base/try-or-undefined.ts'
import { type AuthInfo, tokenIssuer } from './auth-info.ts'

/** The texts of ids that an application has made of a missing claim, as `String(sub)` does. */
const NO_IDS: ReadonlySet<string> = new Set(['', 'undefined', 'null', 'NaN'])

/**
 * Returns the owner of state that is kept between requests: the user of a token or, for a token without a user, its client,
 * together with the issuer of the token. If the verifier names neither, or a user without `id` and `sub` or with an empty
 * one, the owner is the token itself (its hash). So two users whose tokens lack `sub` never have one owner.
 */
export function ownerOf(auth: AuthInfo | undefined): string {
  if (auth === undefined) return ''
  const { clientId, user, token } = auth
  const identity = user === undefined && clientId !== '' ? JSON.stringify(clientId) : identityOf(user)
  return identity === undefined
    ? createHash('sha256').update(token).digest('base64')
    : `[${JSON.stringify(tokenIssuer(auth) ?? null)},${identity}]`
}

/** Identifies a user, as JSON. The type counts too. Returns undefined for a user whose members cannot be read. */
function identityOf(user: unknown): string | undefined {
  // An identity that was read only in part could be that of another user.
  return tryOrUndefined(() => {
    const { id, sub } = Object(user ?? undefined) as { id?: unknown; sub?: unknown }
    const known = typeof user === 'object' ? (id ?? sub) : user
    const text = String(known)
    // Several users can have such an id if their provider does not name them.
    if (NO_IDS.has(text.trim()) || text.startsWith('[object ')) return undefined
    return `"${typeof known}",${JSON.stringify(text)}`
  })
}
