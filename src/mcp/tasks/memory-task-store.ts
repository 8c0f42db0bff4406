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
  return storeWithin(maxBytes, maxBytesPerOwner ?? Math.ceil(maxBytes / 4))
}

function storeWithin(maxBytes: number, maxBytesPerOwner: number): TaskStore {
  const tasks = new Map<string, Kept>()
  const usages = new Map<string, Usage>()
  let allBytes = 0
  let sweeping: NodeJS.Timeout | undefined

  return {
    async add(key, value, { expiresAtMs, countedFor, max }) {
      const bytes = bytesOf(value)
      const isFull = (): boolean => (usages.get(countedFor)?.count ?? 0) >= max
      if (isFull() || !hasRoom(countedFor, bytes)) sweep()
      if (isFull()) return 'owner-full'
      if (!hasRoom(countedFor, bytes)) return 'store-full'
      tasks.set(nameOf(key), { value, version: 1, expiresAtMs, countedFor, bytes })
      use(countedFor, 1, bytes)
      sweeping ??= setInterval(sweep, SWEEP_MS).unref()
      return 'added'
    },
    get: async (key) => find(key),
    async replace(key, version, value) {
      const kept = find(key)
      if (kept?.version !== version) return 'changed'
      const bytes = bytesOf(value)
      const more = bytes - kept.bytes
      if (more > 0 && !hasRoom(kept.countedFor, more)) return 'store-full'
      use(kept.countedFor, 0, more)
      tasks.set(nameOf(key), { ...kept, value, version: version + 1, bytes })
      return 'replaced'
    },
    // There is one node.
    beat: async () => undefined,
    isAlive: async () => true,
  }

  function find(key: TaskKey): Kept | undefined {
    const kept = tasks.get(nameOf(key))
    return kept !== undefined && kept.expiresAtMs > Date.now() ? kept : undefined
  }

  function hasRoom(countedFor: string, bytes: number): boolean {
    const used = usages.get(countedFor)?.bytes ?? 0
    return allBytes + bytes <= maxBytes && used + bytes <= maxBytesPerOwner
  }

  function use(countedFor: string, added: number, bytes: number): void {
    allBytes += bytes
    const usage = usages.get(countedFor) ?? { count: 0, bytes: 0 }
    usage.count += added
    usage.bytes += bytes
    if (usage.count > 0) usages.set(countedFor, usage)
    else usages.delete(countedFor)
  }

  function sweep(): void {
    const now = Date.now()
    for (const [name, { expiresAtMs, countedFor, bytes }] of tasks) {
      if (expiresAtMs > now) continue
      tasks.delete(name)
      use(countedFor, -1, -bytes)
    }
    if (tasks.size > 0) return
    clearInterval(sweeping)
    sweeping = undefined
  }
}

/** Strings take at most two bytes per character. */
function bytesOf(value: string): number {
  return 2 * value.length + ENTRY_BYTES
}
