import { createHash } from 'node:crypto'
import { clientKey } from '../../../base/http/client-address.ts'
import { type AuthInfo, tokenIssuer } from '../../../oauth/auth-info.ts'
import { RequestContext } from '../../../oauth/inputs.ts'
import { ownerOf } from '../../../oauth/owner.ts'
import type { LimitedBy } from '../../router/limits.ts'
import type { Exchange } from '../../wire/exchange.ts'

/** A caller, as limits count it. */
export interface CallerKey {
  /** Has at most 60 characters. Names of users and clients are hashed. Keys of different kinds never collide. */
  readonly key: string
  /** `true` for a key that anyone can have many of without signing in. */
  readonly isAddress: boolean
  /** The callers that are counted like this one, as in the errors of limits. */
  readonly scope: string
}

/** Returns the caller of a request. A request without a token is counted by address. */
export function callerKey(exchange: Exchange, by: LimitedBy): CallerKey {
  const { auth } = exchange
  if (auth === undefined || by === 'address') return addressKey(exchange)
  const client = by === 'client' ? clientOf(auth) : undefined
  return client === undefined
    ? { key: userKey(ownerOf(auth)), isAddress: false, scope: 'each user' }
    : { key: `client:${hashOf(client)}`, isAddress: false, scope: 'each client' }
}

/** Returns the key of a user. @param owner as `ownerOf` returns it */
export function userKey(owner: string): string {
  return `user:${hashOf(owner)}`
}

/** Identifies the client of a token. Returns undefined if the verifier did not name it. */
function clientOf(auth: AuthInfo): string | undefined {
  return auth.clientId === '' ? undefined : JSON.stringify([tokenIssuer(auth) ?? null, auth.clientId])
}

/** Callers without a known address count as one caller. */
function addressKey({ gate, context }: Exchange): CallerKey {
  const request = RequestContext.requestOf(context)
  const key = request && (gate === undefined ? clientKey(request.clientAddress) : gate.clientKey(request))
  return key === undefined
    ? { key: 'address:unknown', isAddress: true, scope: 'all callers without a known address' }
    : { key: `address:${key}`, isAddress: true, scope: 'each address' }
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
