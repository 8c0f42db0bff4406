import { randomUUID } from 'node:crypto'
import type { AdapterPayload } from 'oidc-provider'
import type { Emit } from '../events.ts'
import type { AuthorizationKeys } from '../keys.ts'
import { Records } from '../records.ts'
import { grantName, LIFETIMES } from '../server/oidc-adapter.ts'
import { type AuthorizationStore, REVOCATION_KINDS } from '../store.ts'
import { GrantIndex } from './grant-index.ts'
import { LONGEST_TOKENS, type TokenRules } from './token-options.ts'

/** The causes of the end of a grant, in the attribute `by` of events. */
export type EndCause = 'allow' | 'application' | 'client' | 'limit' | 'reuse' | 'user'

/** The access of a client to the account of a user. */
export interface ConnectedGrant {
  /** The claim `gid` of its access tokens. */
  readonly id: string
  /** The client. It chose its name itself, unless it is in `clients.static`. */
  readonly client: {
    readonly id: string
    readonly name: string
    /** The host of its metadata document, or of its redirect URI. */
    readonly host: string
  }
  readonly scopes: readonly string[]
  readonly resources: readonly string[]
  /** The time of the sign-in, such as `2026-11-23T10:00:00.000Z`. */
  readonly createdAt: string
  /** The time of the last sign-in or refresh. */
  readonly lastUsedAt: string
}

/** The description of a grant in the store, under the name of the grant. */
interface GrantSummary extends Pick<ConnectedGrant, 'client' | 'scopes' | 'resources'> {
  readonly sub: string
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

/** The last revocation of all access of a user or of a client. */
interface Revocation {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly at: number
}

type LastRevocations = readonly [user: Revocation | undefined, client: Revocation | undefined]

/**
 * The ids of the revocations of a user and of a client that came before a grant, a consent, or a token. The clocks of nodes differ,
 * so that times do not tell the order. An id is empty if there was none.
 */
export type EarlierRevocations = readonly [user: string, client: string]

/** The time for which requests that began before the end of a grant may take, and clocks may differ. */
const MARGIN_SECONDS = 600

/** The grants of all users: their descriptions, their use, and their end. A grant has the name that access tokens have as `gid`. */
export class Grants {
  readonly #records: Records
  readonly #tokens: TokenRules
  readonly #emit: Emit
  readonly #index: GrantIndex

  constructor(records: Records, tokens: TokenRules, emit: Emit) {
    this.#records = records
    this.#tokens = tokens
    this.#emit = emit
    this.#index = new GrantIndex({
      records,
      seconds: tokens.grantTtlSeconds,
      lastUse: async (name) => (await this.#summary(name)) && (await this.#usedAt(name)),
      end: (name) => this.end(name, 'limit'),
    })
  }

  /** Adds a grant that was made now to those of its user and of its client. */
  async add(given: Omit<GrantSummary, 'createdAt'>): Promise<void> {
    const name = grantName(given.grantId)
    const summary: GrantSummary = { ...given, createdAt: Date.now() }
    // A grant that has ended in the meantime stays ended.
    if (!(await this.#records.add('GrantSummary', name, summary, this.#tokens.grantTtlSeconds))) return
    // Without a use of its code, a grant is listed for the time of the code.
    await this.#records.add('GrantUse', name, Date.now(), LIFETIMES.signIn + LIFETIMES.code)
    await this.#index.addToClient(summary.client.id, name)
    // A grant without a place would not be counted.
    if (!(await this.#index.addToUser(summary.sub, name))) await this.end(name, 'limit')
  }

  /** Notes that the client got tokens. */
  async use(name: string): Promise<void> {
    const { accessTtlSeconds, refreshTtlSeconds, refreshIdleSeconds = refreshTtlSeconds } = this.#tokens
    const seconds = Math.max(accessTtlSeconds, Math.min(refreshTtlSeconds, refreshIdleSeconds))
    await this.#records.set('GrantUse', name, Date.now(), seconds)
  }

  /** Returns `true` if a grant has ended, and `undefined` if the store does not know it. Sends one command. */
  async hasEnded(name: string): Promise<boolean | undefined> {
    const found = await this.#find(name)
    return found && 'ended' in found
  }

  /** Returns `true` if a grant has ended, also one that a revocation of its user or its client has not reached. */
  async isEnded({ jti, accountId = '', clientId = '', iat = 0 }: AdapterPayload): Promise<boolean> {
    const last = await this.#lastRevocations(accountId, clientId)
    // The last command: a revocation marks each grant before it is complete.
    const found = await this.#find(grantName(String(jti)))
    return (found !== undefined && 'ended' in found) || isRevokedBy(last, found?.earlier ?? iat)
  }

  /**
   * Ends a grant: its refresh tokens, its code, and the tokens of the provider at once, and its access tokens when gates ask.
   * If it fails, it can be repeated.
   * @param grantId the id, for grants that the store does not describe
   * @returns `true` for the call that ends it.
   */
  async end(name: string, by: EndCause, grantId?: string): Promise<boolean> {
    const found = await this.#find(name)
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
  async ofUser(sub: string): Promise<ConnectedGrant[]> {
    const names = await this.#index.ofUser(sub)
    const found = await Promise.all(names.map((name) => this.#live(name, sub)))
    return found
      .filter((grant) => grant !== undefined)
      .sort((one, other) => Date.parse(other.lastUsedAt) - Date.parse(one.lastUsedAt))
  }

  /** Ends a grant of a user. Resolves with `false` if the user has none with this name. */
  async endOf(sub: string, name: string, by: EndCause): Promise<boolean> {
    return (await this.#find(name))?.sub === sub && (await this.end(name, by))
  }

  /** Ends all grants of a user, and all consents and tokens. Resolves with the number of grants. */
  async endAllOfUser(sub: string): Promise<number> {
    await this.#revoke(REVOCATION_KINDS.user, sub)
    return await this.#endAll(await this.#index.ofUser(sub))
  }

  /** Returns the number of grants that are listed for a client. Some of them may have ended. */
  async countOfClient(clientId: string): Promise<number> {
    let count = 0
    for await (const names of this.#index.ofClient(clientId)) count += names.length
    return count
  }

  /** Ends all grants of a client, and all consents and tokens. Resolves with the number of grants. */
  async endAllOfClient(clientId: string): Promise<number> {
    await this.#revoke(REVOCATION_KINDS.client, clientId)
    let count = 0
    for await (const names of this.#index.ofClient(clientId)) count += await this.#endAll(names)
    return count
  }

  /** Returns the revocations before a consent or a token that is about to be made. */
  async revocationsBefore(sub: string, clientId: string): Promise<EarlierRevocations> {
    const [user, client] = await this.#lastRevocations(sub, clientId)
    return [user?.id ?? '', client?.id ?? '']
  }

  /**
   * Returns `true` if all access of a user or of a client was revoked after something was made.
   * @param made the revocations before it, or its time in seconds since 1970 if they are not known
   */
  async isRevoked(sub: string, clientId: string, made: EarlierRevocations | number): Promise<boolean> {
    return isRevokedBy(await this.#lastRevocations(sub, clientId), made)
  }

  async #lastRevocations(sub: string, clientId: string): Promise<LastRevocations> {
    const last = await Promise.all([
      this.#records.get(REVOCATION_KINDS.user, sub),
      this.#records.get(REVOCATION_KINDS.client, clientId),
    ])
    return last as [Revocation | undefined, Revocation | undefined]
  }

  /** Revokes all access that was granted before. A revocation is kept for as long as what it revokes. */
  async #revoke(kind: string, id: string): Promise<void> {
    const revocation: Revocation = { id: randomUUID(), at: Date.now() }
    const seconds = Math.max(this.#tokens.grantTtlSeconds, LIFETIMES.consent)
    await this.#records.set(kind, id, revocation, seconds)
  }

  async #endAll(names: readonly string[]): Promise<number> {
    const ended = await Promise.all(names.map((name) => this.end(name, 'application')))
    return ended.filter((isFirst) => isFirst).length
  }

  async #live(name: string, sub: string): Promise<ConnectedGrant | undefined> {
    const summary = await this.#summary(name)
    if (summary === undefined || summary.sub !== sub) return undefined
    const { client, scopes, resources, createdAt } = summary
    const [usedAt, grant, isRevoked] = await Promise.all([
      this.#usedAt(name),
      this.#records.get('Grant', summary.grantId),
      this.isRevoked(sub, client.id, summary.earlier),
    ])
    // The option may have been longer when the grant was made.
    const isOver = Date.now() >= createdAt + this.#tokens.grantTtlSeconds * 1000
    if (usedAt === undefined || grant === undefined || isRevoked || isOver) return undefined
    const [created, used] = [createdAt, usedAt].map((ms) => new Date(ms).toISOString())
    return { id: name, client, scopes, resources, createdAt: String(created), lastUsedAt: String(used) }
  }

  async #find(name: string): Promise<Found> {
    return (await this.#records.get('GrantSummary', name)) as Found
  }

  async #summary(name: string): Promise<GrantSummary | undefined> {
    const found = await this.#find(name)
    return found === undefined || 'ended' in found ? undefined : found
  }

  async #usedAt(name: string): Promise<number | undefined> {
    const usedAt = await this.#records.get('GrantUse', name)
    return typeof usedAt === 'number' ? usedAt : undefined
  }
}

/**
 * Returns the grants in the store of a facade, for a program that does not know its other options. What ends a grant is kept for
 * as long as any facade needs it.
 * @param onRead is called for each record that the store returns
 */
export function grantsIn(
  store: AuthorizationStore,
  keys: AuthorizationKeys,
  onRead: (isReadable: boolean) => void,
): Grants {
  return new Grants(new Records(store, keys.encryption, onRead), LONGEST_TOKENS, () => undefined)
}

/** Returns `true` if one of two revocations came after something was made. */
function isRevokedBy(last: LastRevocations, made: EarlierRevocations | number): boolean {
  return last.some((revocation, position) => {
    if (revocation === undefined) return false
    return typeof made === 'number' ? made * 1000 <= revocation.at : made[position] !== revocation.id
  })
}
