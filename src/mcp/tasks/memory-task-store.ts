import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import { nameOf } from './task-record.ts'
import type { StoredTask, TaskKey, TaskStore } from './task-store.ts'

const { readOptions, wholeNumber } = optionChecksOf('memoryTaskStore')

/** Options of {@link memoryTaskStore}. */
export interface MemoryTaskStoreOptions {
  /** The maximum memory of all tasks together, in bytes. A further task is rejected. Defaults to 67 108 864 (64 MiB). */
  readonly maxBytes?: number | undefined
  /**
   * The maximum memory of the tasks that are counted for one owner, in bytes, so that others have room. Defaults to a quarter of
   * `maxBytes`.
   */
  readonly maxBytesPerOwner?: number | undefined
}

const RULES = {
  maxBytes: optional(wholeNumber(1), 64 * 1024 * 1024),
  maxBytesPerOwner: optional(wholeNumber(1)),
} satisfies RulesFor<MemoryTaskStoreOptions>

interface Kept extends StoredTask {
  readonly expiresAtMs: number
  readonly countedFor: string
  readonly bytes: number
}

/** The tasks that are counted for one owner. */
interface Usage {
  count: number
  bytes: number
}

/** The memory of an entry in addition to its strings. */
const ENTRY_BYTES = 512
const SWEEP_MS = 10_000

/**
 * Creates a store in the memory of this process. It is the default, and it is for servers with one process: a restart loses all
 * tasks, and another node does not find them.
 * @param options the limits of the store.
 * @returns a store for the adapter option `tasks.store`.
 * @throws {KitMcpConfigError} if an option is invalid or unknown.
 * @example
 * ```ts
 * import { createMcpAdapter, KitMcpRouter, memoryTaskStore } from 'mcp-gatekit'
 *
 * const router = KitMcpRouter.create().tool('import', { description: 'Imports data', task: 'optional' }, () => 'done')
 * const adapter = createMcpAdapter({ router, tasks: { store: memoryTaskStore({ maxBytes: 16_777_216 }) } })
 * ```
 * @see docs/guides/tasks.md
 */
export function memoryTaskStore(options: MemoryTaskStoreOptions = {}): TaskStore {
  const expected = 'must be called with an object such as { maxBytes: 67108864 }'
  const { maxBytes, maxBytesPerOwner } = readOptions('memoryTaskStore', expected, options, RULES)
  return new MemoryTaskStore(maxBytes, maxBytesPerOwner ?? Math.ceil(maxBytes / 4))
}

class MemoryTaskStore implements TaskStore {
  readonly #maxBytes: number
  readonly #maxBytesPerOwner: number
  readonly #tasks = new Map<string, Kept>()
  readonly #usages = new Map<string, Usage>()
  #bytes = 0
  #sweeping: NodeJS.Timeout | undefined

  constructor(maxBytes: number, maxBytesPerOwner: number) {
    this.#maxBytes = maxBytes
    this.#maxBytesPerOwner = maxBytesPerOwner
  }

  async add(
    key: TaskKey,
    value: string,
    { expiresAtMs, countedFor, max }: Parameters<TaskStore['add']>[2],
  ): Promise<'added' | 'owner-full' | 'store-full'> {
    const bytes = bytesOf(value)
    const isFull = (): boolean => (this.#usages.get(countedFor)?.count ?? 0) >= max
    if (isFull() || !this.#hasRoom(countedFor, bytes)) this.#sweep()
    if (isFull()) return 'owner-full'
    if (!this.#hasRoom(countedFor, bytes)) return 'store-full'
    this.#tasks.set(nameOf(key), { value, version: 1, expiresAtMs, countedFor, bytes })
    this.#use(countedFor, 1, bytes)
    this.#sweeping ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
    return 'added'
  }

  async get(key: TaskKey): Promise<StoredTask | undefined> {
    return this.#kept(key)
  }

  async replace(
    key: TaskKey,
    version: number,
    value: string,
  ): Promise<'replaced' | 'changed' | 'store-full'> {
    const kept = this.#kept(key)
    if (kept?.version !== version) return 'changed'
    const bytes = bytesOf(value)
    const more = bytes - kept.bytes
    if (more > 0 && !this.#hasRoom(kept.countedFor, more)) return 'store-full'
    this.#use(kept.countedFor, 0, more)
    this.#tasks.set(nameOf(key), { ...kept, value, version: version + 1, bytes })
    return 'replaced'
  }

  /** There is one node. */
  async beat(): Promise<void> {}

  async isAlive(): Promise<boolean> {
    return true
  }

  #kept(key: TaskKey): Kept | undefined {
    const name = nameOf(key)
    const kept = this.#tasks.get(name)
    if (kept === undefined || kept.expiresAtMs > Date.now()) return kept
    this.#remove(name, kept)
    return undefined
  }

  #hasRoom(countedFor: string, bytes: number): boolean {
    const used = this.#usages.get(countedFor)?.bytes ?? 0
    return this.#bytes + bytes <= this.#maxBytes && used + bytes <= this.#maxBytesPerOwner
  }

  #use(countedFor: string, tasks: number, bytes: number): void {
    this.#bytes += bytes
    const usage = this.#usages.get(countedFor) ?? { count: 0, bytes: 0 }
    usage.count += tasks
    usage.bytes += bytes
    if (usage.count > 0) this.#usages.set(countedFor, usage)
    else this.#usages.delete(countedFor)
  }

  #sweep(): void {
    const now = Date.now()
    for (const [name, kept] of this.#tasks) if (kept.expiresAtMs <= now) this.#remove(name, kept)
  }

  #remove(name: string, { countedFor, bytes }: Kept): void {
    this.#tasks.delete(name)
    this.#use(countedFor, -1, -bytes)
    if (this.#tasks.size > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }
}

/** Strings take at most two bytes per character. */
function bytesOf(value: string): number {
  return 2 * value.length + ENTRY_BYTES
}
