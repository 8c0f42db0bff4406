import { randomUUID } from 'node:crypto'
import { optionChecksOf } from '../../options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../../options/option-rules.ts'
import { type EventStoreLimits, LIMIT_RULES } from './event-store-limits.ts'
import { MemoryEventLog } from './memory-event-log.ts'
import {
  bytesOf,
  type Delivery,
  groupOf,
  hostOf,
  type Kept,
  NO_ROOM,
  type Owner,
  shown,
  takenOf,
} from './memory-event-records.ts'
import type {
  DeliveryOutcome,
  EventStore,
  LoggedEvent,
  LogPage,
  NewEvent,
  Position,
  StoredSubscription,
  SubscriptionRecord,
  TakenDelivery,
} from './store.ts'

const { readOptions, wholeNumber } = optionChecksOf('memoryEventStore')

/** Options of {@link memoryEventStore}. */
export interface MemoryEventStoreOptions extends EventStoreLimits {
  /**
   * The maximum size of the subscriptions and deliveries of all owners together, in bytes. What has no room is refused or dropped, as
   * for one owner. Defaults to 67 108 864 (64 MiB).
   */
  readonly maxBytes?: number | undefined
}

const RULES = {
  ...LIMIT_RULES,
  maxBytes: optional(wholeNumber(1), 64 * 1024 * 1024),
} satisfies RulesFor<MemoryEventStoreOptions>

/** The maximum number of URLs that an owner has verified. */
const MAX_VERIFIED = 100
const SWEEP_MS = 10_000
/** The time after which deliveries that were left for later are due. */
const BUSY_MS = 250

/**
 * Creates a store in the memory of this process. It is the default, and it is for servers with one process: a restart loses all
 * subscriptions, the log, and the deliveries that wait. Clients then subscribe again, and learn with `truncated` that they may have
 * missed events.
 * @param options the limits of the store.
 * @returns a store for the adapter option `events.store`.
 * @throws {KitMcpConfigError} if an option is invalid or unknown.
 * @example
 * ```ts
 * import { createMcpAdapter, KitMcpRouter, memoryEventStore } from 'mcp-gatekit'
 * import { z } from 'zod'
 *
 * const router = KitMcpRouter.create().event('tick', { description: 'A minute has passed', payload: z.object({}) })
 * const adapter = createMcpAdapter({ router, events: { store: memoryEventStore({ maxLogAgeMs: 600_000 }) } })
 * ```
 * @see docs/guides/events.md
 */
export function memoryEventStore(options: MemoryEventStoreOptions = {}): EventStore {
  const expected = 'must be called with an object such as { maxLogAgeMs: 3600000 }'
  return new MemoryEventStore(readOptions('memoryEventStore', expected, options, RULES))
}

class MemoryEventStore implements EventStore {
  readonly #limits: ReadBy<typeof RULES>
  readonly #epoch = randomUUID().slice(0, 8)
  readonly #subscriptions = new Map<string, Kept>()
  readonly #byName = new Map<string, Set<Kept>>()
  /** In the order in which they get deliveries. */
  readonly #owners = new Map<string, Owner>()
  /** One for each event type of the router. */
  readonly #logs = new Map<string, MemoryEventLog>()
  readonly #listeners = new Set<(name: string | undefined) => void>()
  #head: Position = 0
  /** The bytes of all owners. */
  #bytes = 0
  #sweeping: NodeJS.Timeout | undefined

  constructor(limits: ReadBy<typeof RULES>) {
    this.#limits = limits
  }

  async subscribe(
    record: SubscriptionRecord,
    { ttlMs, max }: { readonly ttlMs: number; readonly max: number },
  ): ReturnType<EventStore['subscribe']> {
    const { id, name } = record
    const expiresAtMs = Date.now() + ttlMs
    const known = this.#live(id)
    const kept = known ?? this.#newSubscription(record, max)
    const owner = kept === NO_ROOM ? this.#owner(record.owner) : kept.owner
    const bytes = bytesOf(JSON.stringify(record))
    const more = bytes - kept.bytes
    if (kept === NO_ROOM || !this.#hasRoom(owner, more)) {
      this.#forgetIfEmpty(owner)
      return { outcome: 'owner-full' }
    }
    this.#use(owner, more)
    Object.assign(kept, { record, bytes, expiresAtMs })
    const group = groupOf(owner, record)
    // The newest one comes last.
    group.delete(id)
    group.set(id, kept)
    this.#subscriptions.set(id, kept)
    this.#byName.set(name, (this.#byName.get(name) ?? new Set()).add(kept))
    this.#sweeping ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
    if (known === undefined) return { outcome: 'added', subscription: shown(kept), head: this.#head }
    for (const delivery of owner.deliveries.values())
      if (delivery.kept === kept && delivery.lease === undefined) delivery.dueAtMs = 0
    if (kept.pending.size > 0) this.#notify(name)
    return { outcome: 'renewed', subscription: shown(kept), head: this.#head }
  }

  async get(id: string): Promise<StoredSubscription | undefined> {
    const kept = this.#live(id)
    return kept && shown(kept)
  }

  async list(
    name: string,
    { owners, after = 0 }: { readonly owners?: readonly string[]; readonly after?: Position } = {},
  ): ReturnType<EventStore['list']> {
    const all =
      owners === undefined
        ? [...(this.#byName.get(name) ?? [])]
        : owners.flatMap((owner) => {
            const { webhooks, others } = this.#owners.get(owner) ?? {}
            return [...(webhooks?.values() ?? []), ...(others?.values() ?? [])]
          })
    const now = Date.now()
    const isListed = (kept: Kept): boolean =>
      kept.record.name === name && kept.since > after && kept.expiresAtMs > now
    return { subscriptions: all.filter(isListed).map(shown), head: this.#head }
  }

  async end(id: string, terminated?: string): Promise<boolean> {
    const kept = this.#live(id)
    if (kept === undefined) return false
    this.#remove(kept)
    if (terminated !== undefined && kept.record.webhook !== undefined) {
      const owner = this.#owner(kept.owner.name)
      this.#add({ ...kept, owner }, { kind: 'terminated', position: 0, body: terminated })
      this.#notify(kept.record.name)
    }
    return true
  }

  async append(event: NewEvent): ReturnType<EventStore['append']> {
    const { name, body } = event
    const position = ++this.#head
    const log = this.#logs.get(name) ?? new MemoryEventLog(this.#limits)
    this.#logs.set(name, log)
    log.append(position, event)
    const dropped = this.#deliver({ position, body }, event.deliveries)
    this.#notify(name)
    return { position, dropped }
  }

  async extend(
    name: string,
    positions: readonly Position[],
    { channels, deliveries }: Pick<NewEvent, 'channels' | 'deliveries'>,
  ): ReturnType<EventStore['extend']> {
    const events = this.#logs.get(name)?.extend(positions, channels) ?? []
    const dropped = new Set(events.flatMap((event) => this.#deliver(event, deliveries)))
    this.#notify(name)
    return { dropped: [...dropped] }
  }

  async read(
    name: string,
    channels: readonly string[],
    options: Parameters<EventStore['read']>[2],
  ): Promise<LogPage> {
    const page = this.#logs.get(name)?.read(channels, options)
    return { events: [], hasMore: false, droppedUpTo: 0, ...page, head: this.#head }
  }

  async epoch(): Promise<string> {
    return this.#epoch
  }

  async take({ leaseMs, max, busy }: Parameters<EventStore['take']>[0]): ReturnType<EventStore['take']> {
    const now = Date.now()
    const taken: TakenDelivery[] = []
    let nextAtMs = Number.POSITIVE_INFINITY
    const share = Math.max(1, Math.ceil(max / 4))
    const [hosts, owners] = [new Set(busy?.hosts), new Set(busy?.owners)]
    for (const owner of [...this.#owners.values()]) {
      let count = 0
      for (const delivery of owner.deliveries.values()) {
        const isBusy = owners.has(owner.name) || hosts.has(hostOf(delivery.kept))
        if (isBusy && delivery.dueAtMs <= now) {
          nextAtMs = Math.min(nextAtMs, now + BUSY_MS)
          continue
        }
        if (delivery.dueAtMs <= now && count < share && taken.length < max) {
          delivery.lease = randomUUID()
          delivery.dueAtMs = now + leaseMs
          taken.push(takenOf(delivery, delivery.lease))
          count++
        }
        nextAtMs = Math.min(nextAtMs, delivery.dueAtMs)
      }
      if (count === 0) continue
      // The others come first the next time.
      this.#owners.delete(owner.name)
      this.#owners.set(owner.name, owner)
    }
    return { deliveries: taken, nextInMs: Math.max(0, nextAtMs - now) }
  }

  async settle(
    { id, lease }: Pick<TakenDelivery, 'id' | 'lease'>,
    outcome: DeliveryOutcome,
  ): Promise<boolean> {
    const ownerName = id.slice(0, id.lastIndexOf(' '))
    const delivery = this.#owners.get(ownerName)?.deliveries.get(id)
    if (delivery === undefined || delivery.lease !== lease) return false
    const { kept } = delivery
    delivery.lease = undefined
    if (outcome.outcome === 'failed' || outcome.outcome === 'postponed') {
      delivery.dueAtMs = Date.now() + outcome.delayMs
      if (outcome.outcome === 'failed') delivery.attempts++
    } else this.#drop(delivery)
    if (outcome.outcome === 'abandoned' && delivery.kind === 'event') this.#addGap(kept)
    if (outcome.outcome === 'delivered') kept.status = { lastDeliveryAtMs: Date.now() }
    else if (outcome.outcome !== 'postponed' && outcome.error !== undefined)
      kept.status = { failedSinceMs: Date.now(), ...kept.status, lastError: outcome.error }
    return true
  }

  async setVerified(owner: string, url: string, ttlMs: number): Promise<void> {
    const kept = this.#owner(owner)
    const { verified } = kept
    this.#unverify(kept, url)
    const [oldest] = verified.keys()
    if (verified.size >= MAX_VERIFIED && oldest !== undefined) this.#unverify(kept, oldest)
    // Without room, the URL is verified again the next time.
    if (this.#hasRoom(kept, bytesOf(url))) {
      this.#use(kept, bytesOf(url))
      verified.set(url, Date.now() + ttlMs)
    }
    this.#sweeping ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
  }

  async isVerified(owner: string, url: string): Promise<boolean> {
    return (this.#owners.get(owner)?.verified.get(url) ?? 0) > Date.now()
  }

  watch(listener: (name: string | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #unverify(owner: Owner, url: string): void {
    if (owner.verified.delete(url)) this.#use(owner, -bytesOf(url))
  }

  #hasRoom(owner: Owner, bytes: number): boolean {
    const { maxBytes, maxBytesPerOwner } = this.#limits
    // A smaller record always fits.
    return bytes <= 0 || (owner.bytes + bytes <= maxBytesPerOwner && this.#bytes + bytes <= maxBytes)
  }

  #use(owner: Owner, bytes: number): void {
    owner.bytes += bytes
    this.#bytes += bytes
  }

  #notify(name: string): void {
    for (const listener of this.#listeners) listener(name)
  }

  #owner(name: string): Owner {
    const owner = this.#owners.get(name) ?? {
      name,
      webhooks: new Map(),
      others: new Map(),
      deliveries: new Map(),
      verified: new Map(),
      bytes: 0,
    }
    this.#owners.set(name, owner)
    return owner
  }

  #newSubscription(record: SubscriptionRecord, max: number): Kept {
    // Its last message would end the new subscription at the receiver.
    for (const delivery of this.#owners.get(record.owner)?.deliveries.values() ?? [])
      if (delivery.kind === 'terminated' && delivery.kept.record.id === record.id) this.#drop(delivery)
    const group = groupOf(this.#owner(record.owner), record)
    if (group.size >= max) for (const id of [...group.keys()]) this.#live(id)
    if (group.size >= max && record.webhook !== undefined) return NO_ROOM
    const [oldest] = group.values()
    if (group.size >= max && oldest !== undefined) this.#remove(oldest)
    return {
      record,
      bytes: 0,
      expiresAtMs: 0,
      status: {},
      since: ++this.#head,
      owner: this.#owner(record.owner),
      pending: new Map(),
      hasGap: false,
    }
  }

  #live(id: string): Kept | undefined {
    const kept = this.#subscriptions.get(id)
    if (kept === undefined || kept.expiresAtMs > Date.now()) return kept
    this.#remove(kept)
    return undefined
  }

  #remove(kept: Kept): void {
    const { record, owner } = kept
    this.#subscriptions.delete(record.id)
    this.#byName.get(record.name)?.delete(kept)
    groupOf(owner, record).delete(record.id)
    this.#use(owner, -kept.bytes)
    for (const delivery of owner.deliveries.values()) if (delivery.kept === kept) this.#drop(delivery)
    this.#forgetIfEmpty(owner)
  }

  /** Adds the deliveries of an event. Returns the ids of the subscriptions whose owner has no room. */
  #deliver(event: Pick<LoggedEvent, 'position' | 'body'>, ids: readonly string[]): string[] {
    const dropped: string[] = []
    for (const id of ids) {
      const kept = this.#live(id)
      if (kept?.record.webhook === undefined || kept.pending.has(event.position)) continue
      const { owner } = kept
      if (this.#hasRoom(owner, bytesOf(event.body))) {
        const { position, body } = event
        kept.pending.set(position, this.#add(kept, { kind: 'event', position, body }))
        continue
      }
      dropped.push(id)
      this.#addGap(kept)
    }
    return dropped
  }

  #addGap(kept: Kept): void {
    if (!kept.hasGap) this.#add(kept, { kind: 'gap', position: this.#head, body: '' })
    kept.hasGap = true
  }

  #add(kept: Kept, message: Pick<Delivery, 'kind' | 'position' | 'body'>): Delivery {
    const { owner } = kept
    const delivery: Delivery = {
      ...message,
      id: `${owner.name} ${randomUUID()}`,
      kept,
      bytes: bytesOf(message.body),
      attempts: 0,
      addedAtMs: Date.now(),
      dueAtMs: 0,
      lease: undefined,
    }
    owner.deliveries.set(delivery.id, delivery)
    this.#use(owner, delivery.bytes)
    return delivery
  }

  #drop(delivery: Delivery): void {
    const { kept, id, bytes, position, kind } = delivery
    const { owner } = kept
    if (!owner.deliveries.delete(id)) return
    this.#use(owner, -bytes)
    if (kind === 'event') kept.pending.delete(position)
    else if (kind === 'gap') kept.hasGap = false
    this.#forgetIfEmpty(owner)
  }

  #sweep(): void {
    for (const id of this.#subscriptions.keys()) this.#live(id)
    for (const log of this.#logs.values()) log.trim()
    for (const owner of this.#owners.values()) {
      for (const [url, untilMs] of owner.verified) if (untilMs <= Date.now()) this.#unverify(owner, url)
      this.#forgetIfEmpty(owner)
    }
    if (this.#owners.size > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }

  #forgetIfEmpty({ name, webhooks, others, deliveries, verified }: Owner): void {
    if (webhooks.size + others.size + deliveries.size + verified.size === 0) this.#owners.delete(name)
  }
}
