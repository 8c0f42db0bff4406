import { createHash } from 'node:crypto'
import type * as Oidc from 'oidc-provider'
import type { Adapter, AdapterPayload, InteractionResults } from 'oidc-provider'
import type { ResolvedFacadeOptions } from '../options.ts'
import type { Records } from '../records.ts'
import { settled } from './settlement.ts'

const DAY_SECONDS = 86_400

/** Lifetimes in seconds that no option changes. */
export const LIFETIMES = {
  code: 60,
  signIn: 600,
  usedClient: 365 * DAY_SECONDS,
  consent: 90 * DAY_SECONDS,
} as const

/** The parts that the adapters of all kinds of records share. */
export interface AdapterContext {
  readonly records: Records
  readonly options: ResolvedFacadeOptions
  readonly errors: typeof Oidc.errors
  readonly endGrant: (grantId: string) => Promise<unknown>
}

/** The detail of the error if a code or a refresh token was used before. */
export const USED_TWICE: string = 'already used'

/** Clients that have registered, and have not finished a sign-in yet. */
const NEW_CLIENT = 'NewClient'

/** Returns the public name of a grant: the claim `gid` of access tokens. It reveals nothing about the grant. */
export function grantName(grantId: string): string {
  return createHash('sha256').update(`grant:${grantId}`).digest('base64url')
}

/**
 * The storage of `oidc-provider`. Codes are used up in one step, so that of several concurrent requests at most one succeeds. The
 * others revoke the grant. `RefreshRotation` uses up refresh tokens. A token whose grant is deleted is worthless, so that revocation only
 * deletes the grant. Inside `settle`, refresh tokens are stored and codes are used up only when the answer is complete.
 */
export class RecordsAdapter implements Adapter {
  readonly #kind: string
  readonly #context: AdapterContext
  readonly #records: Records

  constructor(kind: string, context: AdapterContext) {
    this.#kind = kind
    this.#context = context
    this.#records = context.records
  }

  async upsert(id: string, payload: AdapterPayload, expiresIn: number | undefined): Promise<void> {
    const { clients, tokens } = this.#context.options
    if (this.#kind === 'Client')
      return await this.#records.set(NEW_CLIENT, id, payload, clients.unusedTtlDays * DAY_SECONDS)
    // Each request needs a sign-in of its own.
    if (this.#kind === 'Session') return
    const seconds = Math.max(1, expiresIn ?? tokens.grantTtlSeconds)
    const store = () => this.#records.set(this.#kind, id, payload, seconds)
    if (this.#kind === 'RefreshToken') return await settled('published', store)
    if (this.#kind !== 'ReplayDetection') return await store()
    if (!(await this.#records.add(this.#kind, id, payload, seconds)))
      throw new this.#context.errors.InvalidDpopProof('DPoP proof JWT Replay detected')
  }

  async find(id: string): Promise<AdapterPayload | undefined> {
    const found = (await this.#records.get(this.#kind, id)) as AdapterPayload | undefined
    if (this.#kind === 'Client')
      return found ?? ((await this.#records.get(NEW_CLIENT, id)) as AdapterPayload | undefined)
    if (found !== undefined && this.#kind === 'Interaction') {
      const result = await this.#records.get('Decision', id)
      return result === undefined ? found : { ...found, result: result as InteractionResults }
    }
    if (found !== undefined && this.#kind === 'Grant') {
      const { iat = 0, exp = 0 } = found
      // The option may have been longer when the grant was made.
      return { ...found, exp: Math.min(exp, iat + this.#context.options.tokens.grantTtlSeconds) }
    }
    if (found === undefined || this.#kind !== 'AuthorizationCode') return found
    const used = await this.#records.get('UsedAuthorizationCode', id)
    return typeof used === 'number' ? { ...found, consumed: used } : found
  }

  async consume(id: string): Promise<void> {
    await settled('used', () => this.#use(id))
  }

  async #use(id: string): Promise<void> {
    const now = Math.floor(Date.now() / 1000)
    if (await this.#records.add(`Used${this.#kind}`, id, now, 2 * LIFETIMES.code)) return
    // A concurrent request has used the code. One of the two may be from a thief (RFC 9700 section 4.14.2).
    const { grantId } = ((await this.#records.get(this.#kind, id)) ?? {}) as AdapterPayload
    if (typeof grantId === 'string') await this.#context.endGrant(grantId)
    throw new this.#context.errors.InvalidGrant(USED_TWICE)
  }

  async destroy(id: string): Promise<void> {
    if (this.#kind === 'Grant') await this.#context.endGrant(id)
    else if (this.#kind === 'Interaction') await settled('used', () => this.#end(id))
    // Without its grant, a refresh token is worthless. With it, a revocation that failed can be repeated.
    else if (this.#kind !== 'RefreshToken') await this.#records.delete(this.#kind, id)
  }

  /** Ends an authorization request. Of several concurrent responses to it, one is sent. */
  async #end(id: string): Promise<void> {
    if ((await this.#records.take(this.#kind, id)) === undefined)
      throw new this.#context.errors.SessionNotFound('authorization request has expired')
  }

  async revokeByGrantId(): Promise<void> {}

  async findByUid(): Promise<undefined> {}

  async findByUserCode(): Promise<undefined> {}
}

/** Keeps a client that has finished a sign-in. */
export async function keepClient(
  { records, options }: Pick<AdapterContext, 'records' | 'options'>,
  clientId: string,
): Promise<void> {
  const added = await records.get(NEW_CLIENT, clientId)
  const client = added ?? (await records.get('Client', clientId))
  if (client === undefined) return
  const seconds = Math.max(LIFETIMES.usedClient, options.tokens.grantTtlSeconds)
  await records.set('Client', clientId, client, seconds)
  if (added !== undefined) await records.delete(NEW_CLIENT, clientId)
}
