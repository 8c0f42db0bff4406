import { createHash, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { optionChecksOf } from '../../options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../../options/option-rules.ts'
import { MemoryEventLog } from './memory-event-log.ts'
import { type Job, MemoryJobs } from './memory-jobs.ts'
import type {
  Delivery,
  DeliveryStatus,
  EventStore,
  LoggedEvent,
  LogPage,
  Position,
  StoredSubscription,
  Subscriber,
  SubscriptionRecord,
} from './store.ts'

const { readOptions, wholeNumber } = optionChecksOf('memoryEventStore')

/** The limits of a store of events. */
export interface EventStoreLimits {
  /**
   * The maximum size of the log of one event type, in bytes. The oldest events are dropped, and a client that has not read them gets
   * `truncated`. Defaults to 8 388 608 (8 MiB).
   */
  readonly maxLogBytes?: number | undefined
  /** The time for which the log keeps an event, in milliseconds. Defaults to 3 600 000 ms (one hour). */
  readonly maxLogAgeMs?: number | undefined
  /**
   * The maximum size of the events that wait for the webhooks of one owner, in bytes. There are at most 1,000 of them. Beyond it,
   * the oldest one is dropped, and its webhook gets a `gap` message. In memory, the subscriptions of an owner have the same bound.
   * Defaults to 8 388 608 (8 MiB).
   */
  readonly maxBytesPerOwner?: number | undefined
}

/** Options of {@link memoryEventStore}. */
export interface MemoryEventStoreOptions extends EventStoreLimits {
  /**
   * The maximum size of the subscriptions and waiting events of all owners together, in bytes. Beyond it, the oldest subscription
   * without a webhook, or the oldest waiting event, of the owner with the most is dropped. Defaults to 67 108 864 (64 MiB).
   */
  readonly maxBytes?: number | undefined
}

const RULES = {
  maxLogBytes: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxLogAgeMs: optional(wholeNumber(1_000), 3_600_000),
  maxBytesPerOwner: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxBytes: optional(wholeNumber(1), 64 * 1024 * 1024),
} satisfies RulesFor<MemoryEventStoreOptions>

/** The maximum number of events that wait for the webhooks of one owner. */
const MAX_WAITING = 1_000
const MAX_VERIFIED = 10_000
const SWEEP_MS = 10_000
const RECORD_BYTES = 1_024

interface Kept {
  record: SubscriptionRecord
  bytes: number
  expiresAtMs: number
  status: DeliveryStatus
  readonly since: Position
  readonly owner: Owner
  /** The positions of the events that wait. */
  readonly pending: Set<Position>
  hasGap: boolean
}

interface MemoryJob extends Job {
  /** Identifies it in all its attempts. */
  readonly id: string
  readonly kept: Kept
  readonly kind: Delivery['kind']
  readonly position: Position
  readonly body: string
  readonly bytes: number
}

/** The state of an owner. It is forgotten when it is empty. */
interface Owner {
  readonly name: string
  /** By id, the one that was renewed the longest ago first. */
  readonly webhooks: Map<string, Kept>
  readonly readers: Map<string, Kept>
  /** The events that wait, the oldest first. */
  readonly waiting: Set<MemoryJob>
  readerBytes: number
  recordBytes: number
  waitingBytes: number
}

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
  readonly #subscriptions = new Map<string, Kept>()
  /** By the name of the event type. */
  readonly #types = new Map<string, { readonly log: MemoryEventLog; readonly all: Set<Kept> }>()
  readonly #owners = new Map<string, Owner>()
  readonly #verified = new LRUCache<string, true>({ max: MAX_VERIFIED })
  readonly #listeners = new Set<(name: string | undefined) => void>()
  readonly #jobs = new MemoryJobs<MemoryJob>()
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
    const bytes = 2 * JSON.stringify(record).length + RECORD_BYTES
    const known = this.#live(id)
    const kept = known ?? this.#added(record, max, bytes)
    if (kept === undefined) return undefined
    this.#count(kept, bytes - kept.bytes)
    Object.assign(kept, { record, expiresAtMs: Date.now() + ttlMs })
    const group = groupOf(kept)
    // The newest one comes last.
    group.delete(id)
    group.set(id, kept)
    return { isNew: known === undefined, subscription: shown(kept), log: this.#type(name).log.state }
  }

  async get(id: string): Promise<StoredSubscription | undefined> {
    const kept = this.#live(id)
    return kept && shown(kept)
  }

  async *subscribers(
    name: string,
    { owners, hasWebhook, needsArgs }: Parameters<EventStore['subscribers']>[1],
  ): AsyncGenerator<readonly Subscriber[]> {
    const groups = owners?.map((owner) =>
      this.#owners.get(owner)?.[hasWebhook ? 'webhooks' : 'readers'].values(),
    )
    const all = groups?.flatMap((group) => [...(group ?? [])]) ?? [...this.#type(name).all]
    const now = Date.now()
    yield all
      .filter(({ record, expiresAtMs }) => {
        const isOfKind = (record.webhook !== undefined) === hasWebhook
        return record.name === name && isOfKind && expiresAtMs > now
      })
      .map(({ record: { id, owner, args }, since }) => ({ id, owner, since, ...(needsArgs && { args }) }))
  }

  async end(id: string, terminated?: string): Promise<boolean> {
    const kept = this.#live(id)
    if (kept === undefined) return false
    this.#remove(kept)
    if (terminated !== undefined) this.#add(kept, 'terminated', 0, terminated)
    return true
  }

  async append(name: string, body: string, channels: readonly string[]): Promise<Position> {
    const position = this.#type(name).log.append(body, channels)
    for (const listener of this.#listeners) listener(name)
    return position
  }

  async read(
    name: string,
    channels: readonly string[],
    options: Parameters<EventStore['read']>[2],
  ): Promise<LogPage> {
    return this.#type(name).log.read(channels, options)
  }

  async deliver(
    _name: string,
    { position, body }: Pick<LoggedEvent, 'position' | 'body'>,
    subscribers: readonly Subscriber[],
  ): Promise<readonly string[]> {
    const dropped: string[] = []
    for (const { id, since } of subscribers) {
      const kept = this.#live(id)
      if (kept?.record.webhook === undefined || kept.since !== since || kept.pending.has(position)) continue
      const { owner } = kept
      this.#add(kept, 'event', position, body)
      while (owner.waiting.size > MAX_WAITING || owner.waitingBytes > this.#limits.maxBytesPerOwner)
        dropped.push(this.#drop(owner))
      while (this.#bytes > this.#limits.maxBytes) {
        const largest = this.#largest('waitingBytes')
        if (largest === undefined) break
        dropped.push(this.#drop(largest))
      }
    }
    return dropped
  }

  work(attempt: Parameters<EventStore['work']>[0], max: number): () => Promise<void> {
    return this.#jobs.work((job) => this.#attempt(job, attempt), max)
  }

  async setVerified(owner: string, url: string, ttlMs: number): Promise<void> {
    this.#verified.set(verifiedKey(owner, url), true, { ttl: ttlMs })
  }

  async isVerified(owner: string, url: string): Promise<boolean> {
    return this.#verified.has(verifiedKey(owner, url))
  }

  watch(listener: (name: string | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Returns a new subscription, or undefined without room for it. */
  #added(record: SubscriptionRecord, max: number, bytes: number): Kept | undefined {
    const { id, name, owner: ownerName, webhook } = record
    const owner = this.#owner(ownerName)
    const group = webhook === undefined ? owner.readers : owner.webhooks
    for (const other of group.size >= max ? [...group.keys()] : []) this.#live(other)
    const [oldest] = group.values()
    const isFull = group.size >= max || owner.recordBytes + bytes > this.#limits.maxBytesPerOwner
    const hasRoom = !isFull || (webhook === undefined && oldest !== undefined)
    if (isFull && hasRoom) this.#remove(oldest as Kept)
    while (hasRoom && this.#bytes + bytes > this.#limits.maxBytes) {
      const [longest] = this.#largest('readerBytes')?.readers.values() ?? []
      if (longest === undefined) break
      this.#remove(longest)
    }
    if (!hasRoom || this.#bytes + bytes > this.#limits.maxBytes) {
      this.#forgetIfEmpty(owner)
      return undefined
    }
    this.#sweeping ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
    const { log, all } = this.#type(name)
    const pending = new Set<Position>()
    const { head: since } = log.state
    const kept = { record, bytes: 0, expiresAtMs: 0, status: {}, since, owner, pending, hasGap: false }
    this.#owners.set(ownerName, owner)
    this.#subscriptions.set(id, kept)
    all.add(kept)
    return kept
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
    this.#type(record.name).all.delete(kept)
    groupOf(kept).delete(record.id)
    this.#count(kept, -kept.bytes)
    this.#forgetIfEmpty(owner)
  }

  #count(kept: Kept, bytes: number): void {
    kept.bytes += bytes
    if (kept.record.webhook === undefined) kept.owner.readerBytes += bytes
    kept.owner.recordBytes += bytes
    this.#bytes += bytes
  }

  #wait(owner: Owner, bytes: number): void {
    owner.waitingBytes += bytes
    this.#bytes += bytes
  }

  #add(kept: Kept, kind: Delivery['kind'], position: Position, body: string): void {
    const { owner, pending } = kept
    const bytes = Buffer.byteLength(body)
    const state = { owner: owner.name, addedAtMs: Date.now(), attempts: 0, postponed: 0 }
    const job: MemoryJob = { ...state, id: randomUUID(), kept, kind, position, body, bytes }
    if (kind === 'event') {
      pending.add(position)
      owner.waiting.add(job)
      this.#wait(owner, bytes)
    }
    this.#jobs.add(job)
  }

  #addGap(kept: Kept): void {
    if (!kept.hasGap) this.#add(kept, 'gap', 0, '')
    kept.hasGap = true
  }

  /** Drops the oldest event that waits for an owner. Returns the id of its subscription. */
  #drop(owner: Owner): string {
    const [oldest] = owner.waiting as Iterable<MemoryJob>
    const { kept } = oldest as MemoryJob
    this.#done(oldest as MemoryJob)
    this.#addGap(kept)
    return kept.record.id
  }

  #done(job: MemoryJob): void {
    const { kept, position, bytes } = job
    this.#jobs.remove(job)
    if (!kept.owner.waiting.delete(job)) return
    kept.pending.delete(position)
    this.#wait(kept.owner, -bytes)
    this.#forgetIfEmpty(kept.owner)
  }

  async #attempt(job: MemoryJob, attempt: Parameters<EventStore['work']>[0]): Promise<number | undefined> {
    const { kept, kind } = job
    const now = this.#live(kept.record.id)
    // The last message would end a new subscription at the receiver.
    if (kind === 'terminated' ? now !== undefined : now !== kept) {
      this.#done(job)
      return undefined
    }
    if (kind === 'gap') kept.hasGap = false
    const { log } = this.#type(kept.record.name)
    const subscription = shown(kept) as Delivery['subscription']
    const outcome = await attempt({ ...job, subscription, log: log.state })
    kept.status = outcome.status ?? kept.status
    if (outcome.outcome === 'failed') job.attempts++
    if (outcome.outcome === 'postponed') job.postponed++
    if ('delayMs' in outcome && (kind !== 'event' || kept.owner.waiting.has(job))) return outcome.delayMs
    this.#done(job)
    if (outcome.outcome === 'abandoned' && kind === 'event') this.#addGap(kept)
    return undefined
  }

  #largest(member: 'readerBytes' | 'waitingBytes'): Owner | undefined {
    let largest: Owner | undefined
    for (const owner of this.#owners.values()) if (owner[member] > (largest?.[member] ?? 0)) largest = owner
    return largest
  }

  #type(name: string): { readonly log: MemoryEventLog; readonly all: Set<Kept> } {
    const type = this.#types.get(name) ?? { log: new MemoryEventLog(this.#limits), all: new Set<Kept>() }
    this.#types.set(name, type)
    return type
  }

  #owner(name: string): Owner {
    const maps = { webhooks: new Map(), readers: new Map(), waiting: new Set<MemoryJob>() }
    return this.#owners.get(name) ?? { name, ...maps, readerBytes: 0, recordBytes: 0, waitingBytes: 0 }
  }

  #sweep(): void {
    for (const id of this.#subscriptions.keys()) this.#live(id)
    for (const { log } of this.#types.values()) log.trim()
    if (this.#subscriptions.size > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }

  #forgetIfEmpty({ name, webhooks, readers, waiting }: Owner): void {
    if (webhooks.size + readers.size + waiting.size === 0) this.#owners.delete(name)
  }
}

function groupOf({ owner, record }: Kept): Map<string, Kept> {
  return record.webhook === undefined ? owner.readers : owner.webhooks
}

function shown({ record, since, expiresAtMs, status, pending }: Kept): StoredSubscription {
  const firstPending = pending.size === 0 ? undefined : Math.min(...pending)
  return { ...record, since, expiresAtMs, status, ...(firstPending !== undefined && { firstPending }) }
}

function verifiedKey(owner: string, url: string): string {
  return createHash('sha256').update(`${owner} ${url}`).digest('base64url')
}
