import { randomInt, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import type {
  Delivery,
  DeliveryStatus,
  EventStore,
  EventStoreLimits,
  LoggedEvent,
  Position,
  StoredSubscription,
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

/** 24 days. Timers are not longer. */
const MAX_LOG_AGE_MS = 24 * 86_400_000

const RULES = {
  maxLogBytes: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxLogAgeMs: optional(wholeNumber(1_000, MAX_LOG_AGE_MS), 3_600_000),
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
  readonly log: LRUCache<Position, LoggedEvent>
  /** The subscriptions with a webhook. */
  readonly webhooks: Set<Kept>
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
  const limits = readOptions('memoryEventStore', expected, options, RULES)
  const { maxLogBytes, maxLogAgeMs, maxBytesPerOwner, maxBytes } = limits
  const subscriptions = new LRUCache<string, Kept>({
    ttl: 1,
    ttlAutopurge: true,
    dispose(kept) {
      groupOf(kept).delete(kept)
      typeOf(kept.record.name).webhooks.delete(kept)
      count(kept.owner, 'recordBytes', -kept.bytes)
    },
  })
  const types = new Map<string, EventType>()
  const owners = new Map<string, Owner>()
  const listeners = new Set<(name: string | undefined) => void>()
  /** The owners with messages that are due, in the order of their turns. */
  const turns = new Set<Owner>()
  const running = new Set<Promise<void>>()
  let worker: { readonly attempt: Parameters<EventStore['work']>[0]; readonly max: number } | undefined
  let allBytes = 0

  function count(owner: Owner, what: 'recordBytes' | 'waitingBytes', bytes: number): void {
    owner[what] += bytes
    allBytes += bytes
    if (owner.webhooks.size + owner.readers.size + owner.waiting.size === 0) owners.delete(owner.name)
  }

  function typeOf(name: string): EventType {
    const known = types.get(name)
    if (known !== undefined) return known
    const log = new LRUCache<Position, LoggedEvent>({
      maxSize: maxLogBytes,
      sizeCalculation: ({ body, channels }) => 2 * (body.length + channels.join().length) + EVENT_BYTES,
      ttl: maxLogAgeMs,
      ttlAutopurge: true,
    })
    const type = { log, webhooks: new Set<Kept>(), head: Date.now() * 1_000 + randomInt(1_000) }
    types.set(name, type)
    return type
  }

  /** Returns a new subscription, or undefined without room for it. */
  function added(record: SubscriptionRecord, max: number, bytes: number): Kept | undefined {
    const owner = owners.get(record.owner) ?? newOwner(record.owner)
    const state = { bytes: 0, expiresAtMs: 0, status: {}, pending: new Set<Position>(), hasGap: false }
    const kept: Kept = { record, since: typeOf(record.name).head, owner, ...state }
    const isFull = groupOf(kept).size >= max || owner.recordBytes + bytes > maxBytesPerOwner
    if (isFull && (record.webhook !== undefined || !endOldest(owner))) return undefined
    while (allBytes + bytes > maxBytes) if (!endOldest(largest('readers'))) return undefined
    owners.set(owner.name, owner)
    return kept
  }

  /** Ends the oldest subscription without a webhook of an owner. Returns `false` if there is none. */
  function endOldest(owner: Owner | undefined): boolean {
    const [oldest] = owner?.readers ?? []
    return oldest !== undefined && subscriptions.delete(oldest.record.id)
  }

  function largest(member: 'readers' | 'waiting'): Owner | undefined {
    let found: Owner | undefined
    for (const owner of owners.values()) if (owner[member].size > (found?.[member].size ?? 0)) found = owner
    return found
  }

  function add(kept: Kept, kind: Delivery['kind'], body = '', position: Position = 0): void {
    if (kind === 'gap' && kept.hasGap) return
    kept.hasGap ||= kind === 'gap'
    const bytes = Buffer.byteLength(body)
    const state = { addedAtMs: Date.now(), attempts: 0 }
    const job: Job = { ...state, id: randomUUID(), kept, kind, position, body, bytes }
    if (kind === 'event') {
      kept.pending.add(position)
      kept.owner.waiting.add(job)
      count(kept.owner, 'waitingBytes', bytes)
    }
    enqueue(job)
  }

  /** Drops the oldest event that waits for an owner. Returns the id of its subscription, if there is one. */
  function drop(owner: Owner | undefined): string[] {
    const [oldest] = owner?.waiting ?? []
    if (oldest === undefined) return []
    settle(oldest)
    add(oldest.kept, 'gap')
    return [oldest.kept.record.id]
  }

  /** Removes a job. */
  function settle(job: Job): void {
    const { owner, pending } = job.kept
    clearTimeout(job.timer)
    owner.due.delete(job)
    if (!owner.waiting.delete(job)) return
    pending.delete(job.position)
    count(owner, 'waitingBytes', -job.bytes)
  }

  function enqueue(job: Job): void {
    const { owner } = job.kept
    owner.due.add(job)
    turns.add(owner)
    begin()
  }

  /** Begins with what is due. Owners take turns. */
  function begin(): void {
    for (const owner of turns) {
      if (worker === undefined || running.size >= worker.max) return
      turns.delete(owner)
      const [job] = owner.due
      if (job === undefined) continue
      owner.due.delete(job)
      turns.add(owner)
      const run = attempted(job, worker.attempt)
        .catch(() => REJECTED_MS)
        .then((delayMs) => {
          running.delete(run)
          if (delayMs === undefined) settle(job)
          else job.timer = setTimeout(() => enqueue(job), delayMs).unref()
          begin()
        })
      running.add(run)
    }
  }

  /** Returns the time after which the job is attempted again, or undefined if it is done. */
  async function attempted(
    job: Job,
    attempt: Parameters<EventStore['work']>[0],
  ): Promise<number | undefined> {
    const { kept, kind } = job
    // What waits for a subscription that has ended is dropped.
    if (subscriptions.get(kept.record.id) !== kept) return undefined
    if (kind === 'gap') kept.hasGap = false
    const subscription = shown(kept) as Delivery['subscription']
    const outcome = await attempt({ ...job, subscription, head: typeOf(kept.record.name).head })
    kept.status = outcome.status ?? kept.status
    if (outcome.outcome === 'failed') job.attempts++
    // Another gap that waits tells of the same loss.
    const isMoot = kind === 'event' ? !kept.owner.waiting.has(job) : kind === 'gap' && kept.hasGap
    if ('delayMs' in outcome && !isMoot) {
      kept.hasGap ||= kind === 'gap'
      return outcome.delayMs
    }
    if (outcome.outcome === 'abandoned' && kind === 'event') add(kept, 'gap')
    return undefined
  }

  return {
    async subscribe(record, { ttlMs, max }) {
      const bytes = 2 * JSON.stringify(record).length + RECORD_BYTES
      const known = subscriptions.get(record.id)
      const kept = known ?? added(record, max, bytes)
      if (kept === undefined) return undefined
      const group = groupOf(kept)
      // The newest one comes last.
      group.delete(kept)
      group.add(kept)
      count(kept.owner, 'recordBytes', bytes - kept.bytes)
      Object.assign(kept, { record, bytes, expiresAtMs: Date.now() + ttlMs })
      subscriptions.set(record.id, kept, { ttl: ttlMs })
      const { webhooks, head } = typeOf(record.name)
      if (record.webhook !== undefined) webhooks.add(kept)
      return { isNew: known === undefined, subscription: shown(kept), head }
    },

    async get(id) {
      const kept = subscriptions.get(id)
      return kept && shown(kept)
    },

    async *subscribers(name, { owners: named, hasWebhook, needsArgs }) {
      const member = hasWebhook ? 'webhooks' : 'readers'
      const ofType = hasWebhook ? typeOf(name).webhooks : subscriptions.values()
      yield (named?.flatMap((owner) => [...(owners.get(owner)?.[member] ?? [])]) ?? [...ofType])
        .filter(({ record }) => record.name === name && (record.webhook !== undefined) === hasWebhook)
        .map(({ record: { id, owner, args }, since }) => ({ id, owner, since, ...(needsArgs && { args }) }))
    },

    async end(id) {
      return subscriptions.delete(id)
    },

    async append(name, { body, channels }) {
      const type = typeOf(name)
      type.head++
      type.log.set(type.head, { position: type.head, body, channels, atMs: Date.now() })
      // An event that is larger than the log is dropped, and those before it as well.
      if (!type.log.has(type.head)) type.log.clear()
      for (const listener of listeners) listener(name)
      return type.head
    },

    async read(name, after, max) {
      const { log, head } = typeOf(name)
      const [oldest = head + 1] = log.rkeys()
      const events: LoggedEvent[] = []
      for (let position = Math.max(after + 1, oldest); position <= head && events.length < max; position++) {
        const event = log.peek(position)
        if (event !== undefined) events.push(event)
      }
      return { events, head, droppedUpTo: oldest - 1 }
    },

    async deliver({ position, body }, subscribers) {
      const dropped: string[] = []
      for (const { id, since } of subscribers) {
        const kept = subscriptions.get(id)
        if (kept?.record.webhook === undefined || kept.since !== since || kept.pending.has(position)) continue
        const { owner } = kept
        add(kept, 'event', body, position)
        while (owner.waiting.size > MAX_WAITING || owner.waitingBytes > maxBytesPerOwner)
          dropped.push(...drop(owner))
        while (allBytes > maxBytes) {
          const one = drop(largest('waiting'))
          if (one.length === 0) break
          dropped.push(...one)
        }
      }
      return dropped
    },

    work(attempt, max) {
      worker = { attempt, max }
      begin()
      return async () => {
        worker = undefined
        await Promise.all(running)
      }
    },

    watch(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
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
