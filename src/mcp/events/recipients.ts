import { createHash } from 'node:crypto'
import { AuthInfo } from '../../oauth/auth-info.ts'
import { ownerOf } from '../../oauth/owner.ts'
import { optionChecksOf } from '../../options/option-checks.ts'
import { isRecord } from '../../options/value-kinds.ts'

const { invalidKind, unusableOption } = optionChecksOf('emit')

/**
 * A user who receives an event: the id or subject (`sub`) of the user of a token from `oauth.issuer`, the same with another issuer,
 * or the `auth` of a request of the user.
 */
export type EventRecipient =
  | string
  | number
  | { readonly sub: string | number; readonly issuer?: string | undefined }
  | AuthInfo<any>

/** Returns the name of an owner in the store, as `callerKey` does. */
function ownerKey(owner: string): string {
  return `user:${createHash('sha256').update(owner).digest('base64url')}`
}

/**
 * Returns the owners that `to` names.
 * @param issuers the issuers of a user whose issuer is not given, as tokens name them. Undefined if OAuth is disabled.
 * @throws {KitMcpConfigError} if a recipient is invalid, or OAuth is disabled.
 */
export function ownersOf(to: unknown, issuers: readonly string[] | undefined): readonly string[] {
  const recipients: readonly unknown[] = Array.isArray(to) ? to : [to]
  if (issuers === undefined)
    throw unusableOption('to', 'needs OAuth, because only tokens name users', 'Set oauth, or omit to.')
  return [...new Set(recipients.flatMap((recipient) => ownersOfOne(recipient, issuers)))]
}

function ownersOfOne(recipient: unknown, issuers: readonly string[]): readonly string[] {
  if (recipient instanceof AuthInfo) return [ownerKey(ownerOf(recipient))]
  const { sub, issuer }: Record<string, unknown> = isRecord(recipient) ? recipient : { sub: recipient }
  const isUser = (typeof sub === 'string' && sub.trim() !== '') || Number.isFinite(sub)
  if (!isUser || (issuer !== undefined && typeof issuer !== 'string'))
    throw invalidKind(
      'to',
      `must be the id of a user, { sub, issuer }, context.auth, or a list of them`,
      recipient,
    )
  const own = issuer === undefined ? issuers : [`iss:${issuer}`]
  // As `ownerOf` writes them.
  return own.map((one) => ownerKey(JSON.stringify([one, typeof sub, String(sub)])))
}
