import { randomInt, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../../base/options/option-rules.ts'
import type {
  Delivery,
  DeliveryStatus,
  EventStore,
  EventStoreLimits,
  LoggedEvent,
  LogPage,
  Position,
  StoredSubscription,
  Subscriber,
  SubscriptionRecord,
} from './store.ts'

const { readOptions, wholeNumber } = optionChecksOf('memoryEventStore')

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
/** The memory of a record and of an event in addition to their text. */
const RECORD_BYTES = 1_024
const EVENT_BYTES = 512
/** The wait after an attempt that rejects. */
const REJECTED_MS = 30_000

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

/** A message that waits for its time, and then for its turn. */
interface Job extends Pick<Delivery, 'id' | 'kind' | 'position' | 'body' | 'addedAtMs'> {
  readonly kept: Kept
  readonly bytes: number
  attempts: number
  timer?: NodeJS.Timeout
}

/** The state of an owner. It is forgotten when it is empty. */
interface Owner {
  readonly name: string
  /** Those that were renewed the longest ago come first. */
  readonly webhooks: Set<Kept>
  readonly readers: Set<Kept>
  /** The events that wait, the oldest first. */
  readonly waiting: Set<Job>
  /** The messages whose time has come. */
  readonly due: Set<Job>
  recordBytes: number
  waitingBytes: number
}

interface EventType {
  /** The last events, without gaps in their positions. */
  readonly entries: (LoggedEvent & { readonly bytes: number })[]
  /** The subscriptions with a webhook. */
  readonly webhooks: Set<Kept>
  bytes: number
  head: Position
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
  readonly #subscriptions = new LRUCache<string, Kept>({
    ttl: 1,
    ttlAutopurge: true,
    dispose: (kept) => this.#forget(kept),
  })
  readonly #types = new Map<string, EventType>()
  readonly #owners = new Map<string, Owner>()
  readonly #listeners = new Set<(name: string | undefined) => void>()
  /** The owners with messages that are due, in the order of their turns. */
  readonly #turns = new Set<Owner>()
  readonly #running = new Set<Promise<void>>()
  #worker: { readonly attempt: Parameters<EventStore['work']>[0]; readonly max: number } | undefined
  #bytes = 0

  constructor(limits: ReadBy<typeof RULES>) {
    this.#limits = limits
  }

  async subscribe(
    record: SubscriptionRecord,
    { ttlMs, max }: Parameters<EventStore['subscribe']>[1],
  ): ReturnType<EventStore['subscribe']> {
    const { id, name } = record
    const bytes = 2 * JSON.stringify(record).length + RECORD_BYTES
    const known = this.#subscriptions.get(id)
    const kept = known ?? this.#added(record, max, bytes)
    if (kept === undefined) return undefined
    this.#count(kept, bytes - kept.bytes)
    Object.assign(kept, { record, expiresAtMs: Date.now() + ttlMs })
    this.#subscriptions.set(id, kept, { ttl: ttlMs })
    const group = groupOf(kept)
    // The newest one comes last.
    group.delete(kept)
    group.add(kept)
    const { webhooks, head } = this.#type(name)
    if (record.webhook !== undefined) webhooks.add(kept)
    return { isNew: known === undefined, subscription: shown(kept), head }
  }

  async get(id: string): Promise<StoredSubscription | undefined> {
    const kept = this.#subscriptions.get(id)
    return kept && shown(kept)
  }

  async *subscribers(
    name: string,
    { owners, hasWebhook, needsArgs }: Parameters<EventStore['subscribers']>[1],
  ): AsyncGenerator<readonly Subscriber[]> {
    const ofOwner = (owner: string): Kept[] => [
      ...(this.#owners.get(owner)?.[hasWebhook ? 'webhooks' : 'readers'] ?? []),
    ]
    const ofType = hasWebhook ? this.#type(name).webhooks : this.#subscriptions.values()
    yield (owners?.flatMap(ofOwner) ?? [...ofType])
      .filter(({ record }) => record.name === name && (record.webhook !== undefined) === hasWebhook)
      .map(({ record: { id, owner, args }, since }) => ({ id, owner, since, ...(needsArgs && { args }) }))
  }

  async end(id: string, terminated?: string): Promise<boolean> {
    const kept = this.#subscriptions.get(id)
    if (kept === undefined) return false
    this.#subscriptions.delete(id)
    if (terminated !== undefined) this.#add(kept, 'terminated', terminated)
    return true
  }

  async append(name: string, { body, channels }: Pick<LoggedEvent, 'body' | 'channels'>): Promise<Position> {
    const type = this.#type(name)
    const bytes = 2 * (body.length + channels.join().length) + EVENT_BYTES
    type.entries.push({ position: ++type.head, body, channels, atMs: Date.now(), bytes })
    type.bytes += bytes
    this.#trim(type)
    for (const listener of this.#listeners) listener(name)
    return type.head
  }

  async read(name: string, after: Position, max: number): Promise<LogPage> {
    const type = this.#type(name)
    this.#trim(type)
    const { entries, head } = type
    const droppedUpTo = head - entries.length
    const first = Math.max(0, after - droppedUpTo)
    return { events: entries.slice(first, first + max), head, droppedUpTo }
  }

  async deliver(
    _name: string,
    { position, body }: Pick<LoggedEvent, 'position' | 'body'>,
    subscribers: readonly Subscriber[],
  ): Promise<readonly string[]> {
    const { maxBytesPerOwner, maxBytes } = this.#limits
    const dropped: string[] = []
    for (const { id, since } of subscribers) {
      const kept = this.#subscriptions.get(id)
      if (kept?.record.webhook === undefined || kept.since !== since || kept.pending.has(position)) continue
      const { owner } = kept
      this.#add(kept, 'event', body, position)
      while (owner.waiting.size > MAX_WAITING || owner.waitingBytes > maxBytesPerOwner)
        dropped.push(...this.#drop(owner))
      while (this.#bytes > maxBytes) {
        const one = this.#drop(this.#largest('waiting'))
        if (one.length === 0) break
        dropped.push(...one)
      }
    }
    return dropped
  }

  work(attempt: Parameters<EventStore['work']>[0], max: number): () => Promise<void> {
    this.#worker = { attempt, max }
    this.#begin()
    return async () => {
      this.#worker = undefined
      await Promise.all(this.#running)
    }
  }

  watch(listener: (name: string | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Returns a new subscription, or undefined without room for it. */
  #added(record: SubscriptionRecord, max: number, bytes: number): Kept | undefined {
    const { maxBytesPerOwner, maxBytes } = this.#limits
    const owner = this.#owners.get(record.owner) ?? newOwner(record.owner)
    const since = this.#type(record.name).head
    const state = { bytes: 0, expiresAtMs: 0, status: {}, pending: new Set<Position>(), hasGap: false }
    const kept: Kept = { record, since, owner, ...state }
    const isFull = groupOf(kept).size >= max || owner.recordBytes + bytes > maxBytesPerOwner
    if (isFull && (record.webhook !== undefined || !this.#endOldest(owner))) return undefined
    while (this.#bytes + bytes > maxBytes) if (!this.#endOldest(this.#largest('readers'))) return undefined
    this.#owners.set(owner.name, owner)
    return kept
  }

  /** Ends the oldest subscription without a webhook of an owner. Returns `false` if there is none. */
  #endOldest(owner: Owner | undefined): boolean {
    const [oldest] = owner?.readers ?? []
    return oldest !== undefined && this.#subscriptions.delete(oldest.record.id)
  }

  #forget(kept: Kept): void {
    groupOf(kept).delete(kept)
    this.#type(kept.record.name).webhooks.delete(kept)
    this.#count(kept, -kept.bytes)
    this.#forgetIfEmpty(kept.owner)
  }

  #count(kept: Kept, bytes: number): void {
    kept.bytes += bytes
    kept.owner.recordBytes += bytes
    this.#bytes += bytes
  }

  #add(kept: Kept, kind: Delivery['kind'], body = '', position: Position = 0): void {
    if (kind === 'gap' && kept.hasGap) return
    kept.hasGap ||= kind === 'gap'
    const bytes = Buffer.byteLength(body)
    const state = { addedAtMs: Date.now(), attempts: 0 }
    const job: Job = { ...state, id: randomUUID(), kept, kind, position, body, bytes }
    if (kind === 'event') {
      kept.pending.add(position)
      kept.owner.waiting.add(job)
      kept.owner.waitingBytes += bytes
      this.#bytes += bytes
    }
    this.#enqueue(job)
  }

  /** Drops the oldest event that waits for an owner. Returns the id of its subscription, if there is one. */
  #drop(owner: Owner | undefined): string[] {
    const [oldest] = owner?.waiting ?? []
    if (oldest === undefined) return []
    this.#settle(oldest)
    this.#add(oldest.kept, 'gap')
    return [oldest.kept.record.id]
  }

  /** Removes a job. */
  #settle(job: Job): void {
    const { owner, pending } = job.kept
    clearTimeout(job.timer)
    owner.due.delete(job)
    if (!owner.waiting.delete(job)) return
    pending.delete(job.position)
    owner.waitingBytes -= job.bytes
    this.#bytes -= job.bytes
    this.#forgetIfEmpty(owner)
  }

  #enqueue(job: Job): void {
    const { owner } = job.kept
    owner.due.add(job)
    this.#turns.add(owner)
    this.#begin()
  }

  /** Begins with what is due. Owners take turns. */
  #begin(): void {
    for (const owner of this.#turns) {
      if (this.#worker === undefined || this.#running.size >= this.#worker.max) return
      this.#turns.delete(owner)
      const [job] = owner.due
      if (job === undefined) continue
      owner.due.delete(job)
      this.#turns.add(owner)
      const running = this.#attempt(job, this.#worker.attempt)
        .catch(() => REJECTED_MS)
        .then((delayMs) => {
          this.#running.delete(running)
          if (delayMs === undefined) this.#settle(job)
          else job.timer = setTimeout(() => this.#enqueue(job), delayMs).unref()
          this.#begin()
        })
      this.#running.add(running)
    }
  }

  /** Returns the time after which the job is attempted again, or undefined if it is done. */
  async #attempt(job: Job, attempt: Parameters<EventStore['work']>[0]): Promise<number | undefined> {
    const { kept, kind } = job
    const now = this.#subscriptions.get(kept.record.id)
    // The last message would end a new subscription at the receiver.
    if (kind === 'terminated' ? now !== undefined : now !== kept) return undefined
    if (kind === 'gap') kept.hasGap = false
    const subscription = shown(kept) as Delivery['subscription']
    const outcome = await attempt({ ...job, subscription, head: this.#type(kept.record.name).head })
    kept.status = outcome.status ?? kept.status
    if (outcome.outcome === 'failed') job.attempts++
    if ('delayMs' in outcome && (kind !== 'event' || kept.owner.waiting.has(job))) return outcome.delayMs
    if (outcome.outcome === 'abandoned' && kind === 'event') this.#add(kept, 'gap')
    return undefined
  }

  #largest(member: 'readers' | 'waiting'): Owner | undefined {
    let largest: Owner | undefined
    for (const owner of this.#owners.values())
      if (owner[member].size > (largest?.[member].size ?? 0)) largest = owner
    return largest
  }

  #type(name: string): EventType {
    const head = Date.now() * 1_000 + randomInt(1_000)
    const type = this.#types.get(name) ?? { entries: [], webhooks: new Set(), bytes: 0, head }
    this.#types.set(name, type)
    return type
  }

  /** Drops the events that are too old, and the oldest ones of a log that is too large. */
  #trim(type: EventType): void {
    const { maxLogBytes, maxLogAgeMs } = this.#limits
    const oldestMs = Date.now() - maxLogAgeMs
    let count = 0
    for (const { atMs, bytes } of type.entries) {
      if (type.bytes <= maxLogBytes && atMs > oldestMs) break
      type.bytes -= bytes
      count++
    }
    type.entries.splice(0, count)
  }

  #forgetIfEmpty({ name, webhooks, readers, waiting }: Owner): void {
    if (webhooks.size + readers.size + waiting.size === 0) this.#owners.delete(name)
  }
}

function newOwner(name: string): Owner {
  const sets = { webhooks: new Set<Kept>(), readers: new Set<Kept>(), waiting: new Set<Job>() }
  return { name, ...sets, due: new Set(), recordBytes: 0, waitingBytes: 0 }
}

function groupOf({ record, owner }: Kept): Set<Kept> {
  return record.webhook === undefined ? owner.readers : owner.webhooks
}

function shown({ record, since, expiresAtMs, status, pending }: Kept): StoredSubscription {
  const firstPending = pending.size === 0 ? undefined : Math.min(...pending)
  return { ...record, since, expiresAtMs, status, ...(firstPending !== undefined && { firstPending }) }
}
