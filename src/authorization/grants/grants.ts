import { randomUUID } from 'node:crypto'
import type { AdapterPayload } from 'oidc-provider'
import type { Emit } from '../events.ts'
import type { Records } from '../records.ts'
import { grantName, LIFETIMES } from '../server/oidc-adapter.ts'
import { REVOCATION_KINDS } from '../store.ts'
import { GrantIndex } from './grant-index.ts'
import type { TokenRules } from './token-options.ts'

/** The causes of the end of a grant, in the attribute `by` of events. */
export type EndCause = 'allow' | 'application' | 'client' | 'limit' | 'reuse' | 'user'

/** A grant, as lists show it. */
export interface GrantDescription {
  readonly sub: string
  readonly client: { readonly id: string; readonly name: string; readonly host: string }
  readonly scopes: readonly string[]
  readonly resources: readonly string[]
}

/** The description of a grant in the store, under the name of the grant. */
interface GrantSummary extends GrantDescription {
  readonly grantId: string
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly earlier: EarlierRevocations
}

/** The mark of a grant that has ended, in place of its summary. */
interface EndedGrant {
  readonly grantId: string
  readonly sub: string | undefined
  readonly ended: true
}

type Found = GrantSummary | EndedGrant | undefined

/** A grant whose client can still get tokens. */
export interface LiveGrant extends GrantSummary {
  readonly name: string
  /** The last sign-in or refresh in milliseconds since 1970. */
  readonly usedAt: number
}

/** The state of a grant for a gate. It is `unknown` for a grant of version 0.2 that was not refreshed since. */
export type GrantState = 'live' | 'ended' | 'unknown'

/** The time for which requests that began before the end of a grant may take, and clocks may differ. */
const MARGIN_SECONDS = 600

/** The grants of all users: their descriptions, their use, and their end. A grant has the name that access tokens have as `gid`. */
export class Grants {
  readonly revocations: Revocations
  readonly #records: Records
  readonly #tokens: TokenRules
  readonly #emit: Emit
  readonly #index: GrantIndex

  constructor(records: Records, tokens: TokenRules, emit: Emit) {
    this.#records = records
    this.#tokens = tokens
    this.#emit = emit
    this.revocations = new Revocations(records, tokens.grantTtlSeconds)
    this.#index = new GrantIndex({
      records,
      seconds: tokens.grantTtlSeconds,
      lastUse: async (name) => (await this.#summary(name)) && (await this.#usedAt(name)),
      end: (name) => this.end(name, 'limit'),
    })
  }

  /**
   * Adds a grant to those of its user and of its client.
   * @param earlier the revocations before the user granted the access
   */
  async add(
    grantId: string,
    description: GrantDescription,
    earlier: EarlierRevocations,
    createdAt: number = Date.now(),
  ): Promise<void> {
    const name = grantName(grantId)
    const summary: GrantSummary = { ...description, grantId, earlier, createdAt }
    const seconds = this.#tokens.grantTtlSeconds
    // A grant that has ended in the meantime stays ended.
    if (!(await this.#records.add('GrantSummary', name, summary, seconds))) return
    // Without a use of its code, a grant is listed for the time of the code.
    await this.#records.add('GrantUse', name, Date.now(), LIFETIMES.signIn + LIFETIMES.code)
    await this.#index.addToClient(description.client.id, name)
    // A grant without a place would not be counted.
    if (!(await this.#index.addToUser(description.sub, name))) await this.end(name, 'limit')
  }

  /** Notes that the client got tokens. Returns `false` if the store does not know the grant. */
  async use(name: string): Promise<boolean> {
    const { accessTtlSeconds, refreshTtlSeconds, refreshIdleSeconds = refreshTtlSeconds } = this.#tokens
    const seconds = Math.max(accessTtlSeconds, Math.min(refreshTtlSeconds, refreshIdleSeconds))
    await this.#records.set('GrantUse', name, Date.now(), seconds)
    return (await this.#records.get('GrantSummary', name)) !== undefined
  }

  /** Returns the state of a grant, with one command of the store. */
  async stateOf(name: string): Promise<GrantState> {
    const found = (await this.#records.get('GrantSummary', name)) as Found
    if (found === undefined) return 'unknown'
    return 'ended' in found ? 'ended' : 'live'
  }

  /** Returns `true` if a grant has ended, also one that a revocation of its user or its client has not reached. */
  async isEnded({ jti, accountId = '', clientId = '', iat = 0 }: AdapterPayload): Promise<boolean> {
    const name = grantName(String(jti))
    const [user, client] = await Promise.all([
      this.revocations.last('user', accountId),
      this.revocations.last('client', clientId),
    ])
    // The last command: a revocation marks each grant before it is complete.
    const found = (await this.#records.get('GrantSummary', name)) as Found
    if (found !== undefined && 'ended' in found) return true
    const made = found?.earlier ?? iat
    return isRevokedBy(user, made, 0) || isRevokedBy(client, made, 1)
  }

  /**
   * Ends a grant: its refresh tokens, its code, and the tokens of the provider at once, and its access tokens when gates ask.
   * If it fails, it can be repeated.
   * @param grantId the id, for grants of version 0.2
   * @returns `true` for the call that ends it.
   */
  async end(name: string, by: EndCause, grantId?: string): Promise<boolean> {
    const found = (await this.#records.get('GrantSummary', name)) as Found
    const id = found?.grantId ?? grantId
    if (id === undefined) return false
    const mark: EndedGrant = { grantId: id, sub: found?.sub, ended: true }
    const keepMark = (seconds: number) => this.#records.set('GrantSummary', name, mark, seconds)
    // A node that refreshes a token at this moment finds the mark. It stays if one of the next commands fails.
    await keepMark(this.#tokens.grantTtlSeconds)
    await this.#records.delete('Upstream', name)
    const grant = (await this.#records.take('Grant', id)) as AdapterPayload | undefined
    await keepMark(this.#tokens.accessTtlSeconds + MARGIN_SECONDS)
    if (grant === undefined) return false
    this.#emit('revoked', { client: grant.clientId, subject: grant.accountId, by })
    return true
  }

  /** Returns the live grants of a user, the last used one first. */
  async ofUser(sub: string): Promise<readonly LiveGrant[]> {
    const names = await this.#index.ofUser(sub)
    const found = await Promise.all(names.map((name) => this.#live(name, sub)))
    return found.filter((grant) => grant !== undefined).sort((one, other) => other.usedAt - one.usedAt)
  }

  /** Ends a grant of a user. Resolves with `false` if the user has none with this name. */
  async endOf(sub: string, name: string, by: EndCause): Promise<boolean> {
    const found = (await this.#records.get('GrantSummary', name)) as Found
    return found?.sub === sub && (await this.end(name, by))
  }

  /** Ends all grants of a user, and all consents and tokens. Resolves with the number of grants. */
  async endAllOfUser(sub: string): Promise<number> {
    await this.revocations.revoke('user', sub)
    return await this.#endAll(await this.#index.ofUser(sub))
  }

  /** Ends all grants of a client, and all consents and tokens. Resolves with the number of grants. */
  async endAllOfClient(clientId: string): Promise<number> {
    await this.revocations.revoke('client', clientId)
    let count = 0
    for await (const names of this.#index.ofClient(clientId)) count += await this.#endAll(names)
    return count
  }

  async #endAll(names: readonly string[]): Promise<number> {
    const ended = await Promise.all(names.map((name) => this.end(name, 'application')))
    return ended.filter((isFirst) => isFirst).length
  }

  async #live(name: string, sub: string): Promise<LiveGrant | undefined> {
    const summary = await this.#summary(name)
    if (summary === undefined || summary.sub !== sub) return undefined
    const [usedAt, grant, isRevoked] = await Promise.all([
      this.#usedAt(name),
      this.#records.get('Grant', summary.grantId),
      this.revocations.revokes(sub, summary.client.id, summary.earlier),
    ])
    // The option may have been longer when the grant was made.
    const isOver = Date.now() >= summary.createdAt + this.#tokens.grantTtlSeconds * 1000
    if (usedAt === undefined || grant === undefined || isRevoked || isOver) return undefined
    return { ...summary, name, usedAt }
  }

  async #summary(name: string): Promise<GrantSummary | undefined> {
    const found = (await this.#records.get('GrantSummary', name)) as Found
    return found === undefined || 'ended' in found ? undefined : found
  }

  async #usedAt(name: string): Promise<number | undefined> {
    const usedAt = await this.#records.get('GrantUse', name)
    return typeof usedAt === 'number' ? usedAt : undefined
  }
}

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
