import { randomUUID } from 'node:crypto'
import { LIFETIMES } from './oidc-adapter.ts'
import type { Records } from './records.ts'
import { REVOCATION_KINDS } from './store.ts'

/** The last time at which all access of a user or of a client was revoked. */
export interface Revocation {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly at: number
}

/**
 * The ids of the revocations of a user and of a client that came before a grant, a consent, or a token. The clocks of nodes differ,
 * so that times do not tell the order. An id is empty if there was none.
 */
export type EarlierRevocations = readonly [user: string, client: string]

/** The revocations of all access of a user or of a client. They are kept for as long as what they revoke. */
export class Revocations {
  readonly #records: Records
  readonly #seconds: number

  constructor(records: Records, grantSeconds: number) {
    this.#records = records
    this.#seconds = Math.max(grantSeconds, LIFETIMES.consent)
  }

  /** Revokes all access of a user or of a client that was granted before. */
  async revoke(whose: keyof typeof REVOCATION_KINDS, id: string): Promise<void> {
    const revocation: Revocation = { id: randomUUID(), at: Date.now() }
    await this.#records.set(REVOCATION_KINDS[whose], id, revocation, this.#seconds)
  }

  /** Returns the last revocation of a user or of a client. */
  async last(whose: keyof typeof REVOCATION_KINDS, id: string): Promise<Revocation | undefined> {
    return (await this.#records.get(REVOCATION_KINDS[whose], id)) as Revocation | undefined
  }

  /** Returns the revocations before a grant, a consent, or a token that is about to be made. */
  async before(sub: string, clientId: string): Promise<EarlierRevocations> {
    const [user, client] = await this.#both(sub, clientId)
    return [user?.id ?? '', client?.id ?? '']
  }

  /** Returns `true` if access was revoked after it was granted. */
  async revokes(sub: string, clientId: string, made: EarlierRevocations | number): Promise<boolean> {
    const [user, client] = await this.#both(sub, clientId)
    return isRevokedBy(user, made, 0) || isRevokedBy(client, made, 1)
  }

  /** Returns the revocations before a time in seconds since 1970, or `undefined` if there was one since. */
  async beforeTime(sub: string, clientId: string, made: number): Promise<EarlierRevocations | undefined> {
    const [user, client] = await this.#both(sub, clientId)
    if (isRevokedBy(user, made, 0) || isRevokedBy(client, made, 1)) return undefined
    return [user?.id ?? '', client?.id ?? '']
  }

  async #both(sub: string, clientId: string): Promise<readonly (Revocation | undefined)[]> {
    return await Promise.all([this.last('user', sub), this.last('client', clientId)])
  }
}

/**
 * Returns `true` if a revocation came after something was made.
 * @param made the revocations before it, or its time in seconds since 1970 if they are not known, as for grants of version 0.2
 * @param position the position of the user or of the client in `made`
 */
export function isRevokedBy(
  revocation: Revocation | undefined,
  made: EarlierRevocations | number,
  position: 0 | 1,
): boolean {
  if (revocation === undefined) return false
  return typeof made === 'number' ? made * 1000 <= revocation.at : made[position] !== revocation.id
}
