import { randomUUID } from 'node:crypto'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { StoreGuard } from '../../oauth/store-guard.ts'
import type { RequestTelemetry } from '../wire/exchange.ts'
import { failedTask, internal } from './task-outcome.ts'
import { endOf, nameOf, type TaskRecord } from './task-record.ts'
import type { TaskKey, TaskStore } from './task-store.ts'

/** The interval at which a node with running tasks reports that it is alive. */
export const BEAT_MS = 5_000
/** The time for which a report counts. */
const ALIVE_MS = 8_000
/** The maximum age of a report when a task starts: the next report must arrive before it no longer counts. */
const FRESH_MS = 2_000
/**
 * The time in which a node whose report no longer counts can report again before its tasks fail. It is longer than the interval of
 * reports and the pause in which clients of Redis reconnect, because the store may have been unavailable.
 */
export const GRACE_MS = 7_000
/** The time in which the store must respond. */
const STORE_TIMEOUT_MS = 5_000
/** The maximum number of attempts to change a task that others change at the same time. */
const MAX_ATTEMPTS = 32

const LOST = internal('The server that ran the task has stopped.')

/** The store has no room for a change. */
export class StoreFullError extends Error {}

/** Called after this node has changed a task, and without a record after another node has. It must not throw. */
export type OnTaskChange = (key: TaskKey, record?: TaskRecord) => void

/** Reads and changes the tasks of all nodes in the store. */
export class StoredTasks {
  readonly node: string = randomUUID()
  readonly #store: TaskStore
  readonly #onChange: OnTaskChange
  readonly #guard = new StoreGuard(STORE_TIMEOUT_MS)
  #beatAt = Number.NEGATIVE_INFINITY
  #unsubscribe: (() => void) | undefined
  #isDisconnected = false
  /** The timers of the tasks whose node does not report. */
  readonly #suspected = new Map<string, NodeJS.Timeout>()
  readonly #graceMs: number

  constructor(store: TaskStore, graceMs: number, onChange: OnTaskChange) {
    this.#store = store
    this.#onChange = onChange
    this.#graceMs = graceMs
  }

  /** Stores a new task, which `run` must be called for. @throws if the store is unavailable */
  async add(key: TaskKey, record: TaskRecord, countedFor: string, max: number): ReturnType<TaskStore['add']> {
    await this.prepare()
    const expiresAtMs = record.createdAt + record.ttlMs
    const value = JSON.stringify(record)
    return await this.#guard.ask(
      () => this.#store.add(key, value, { expiresAtMs, countedFor, max }),
      value.length,
    )
  }

  /** Lets the other nodes know that this one is alive. Must be called before a task names it. */
  async prepare(): Promise<void> {
    this.connect()
    if (performance.now() - this.#beatAt >= FRESH_MS) await this.beat()
  }

  /** Reports that this node is alive. @throws if the store is unavailable */
  async beat(): Promise<void> {
    await this.#guard.ask(() => this.#store.beat(this.node, ALIVE_MS))
    this.#beatAt = performance.now()
  }

  /** Receives the changes of other nodes, until `disconnect` is called. */
  connect(): void {
    if (this.#isDisconnected) return
    // A store that throws is asked again with the next task.
    this.#unsubscribe ??= tryOrUndefined(() => this.#store.subscribe?.((key) => this.#onChange(key)))
  }

  disconnect(): void {
    this.#isDisconnected = true
    for (const timer of this.#suspected.values()) clearTimeout(timer)
    this.#suspected.clear()
    tryOrUndefined(() => this.#unsubscribe?.())
    this.#unsubscribe = undefined
  }

  /** Reads a task. If its node does not report, the task fails after a while. @throws if the store is unavailable */
  async load(key: TaskKey, telemetry?: RequestTelemetry): Promise<TaskRecord | undefined> {
    const stored = await this.#guard.ask(() => this.#store.get(key))
    const record = stored && (JSON.parse(stored.value) as TaskRecord)
    const { node } = record ?? {}
    if (record?.status !== 'working' || node === undefined || node === this.node) return record
    if (await this.#guard.ask(() => this.#store.isAlive(node))) return record
    const name = nameOf(key)
    if (this.#isDisconnected || this.#suspected.has(name)) return record
    const check = () =>
      void this.#failIfLost(key, node, telemetry).finally(() => this.#suspected.delete(name))
    this.#suspected.set(name, setTimeout(check, this.#graceMs).unref())
    return record
  }

  /** Marks a task as failed if its node still does not report. Never rejects. */
  async #failIfLost(key: TaskKey, node: string, telemetry: RequestTelemetry | undefined): Promise<void> {
    try {
      if (await this.#guard.ask(() => this.#store.isAlive(node))) return
      await this.change(
        key,
        (current) =>
          current.status === 'working' && current.node === node ? failedTask(current, LOST) : undefined,
        (failed) => telemetry?.recordTask('task.failed', endOf(key, failed, 'node_lost')),
      )
    } catch {
      // The store is unavailable. The node may not be able to report: the next request starts again.
    }
  }

  /**
   * Changes a task in one step.
   * @param change returns the changed task, or undefined to leave it as it is. It may be called more than once.
   * @param applied called with the changed task when the store has made the change, also after the promise was rejected because
   * the store took too long. It must not throw.
   * @throws if the store is unavailable or full
   */
  async change(
    key: TaskKey,
    change: (record: TaskRecord) => TaskRecord | undefined,
    applied: (record: TaskRecord) => void = () => undefined,
  ): Promise<void> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const stored = await this.#guard.ask(() => this.#store.get(key))
      const next = stored && change(JSON.parse(stored.value))
      if (stored === undefined || next === undefined) return
      const value = JSON.stringify(next)
      const outcome = await this.#guard.ask(async () => {
        const replaced = await this.#store.replace(key, stored.version, value)
        if (replaced === 'replaced') {
          applied(next)
          this.#onChange(key, next)
          tryOrUndefined(() => this.#store.announce?.(key))
        }
        return replaced
      }, value.length)
      if (outcome === 'replaced') return
      if (outcome === 'store-full') throw new StoreFullError('The store of tasks is full')
    }
    throw new Error('A task was changed too often at the same time')
  }
}
