import { LRUCache } from 'lru-cache'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import { nameOf } from './task-record.ts'
import type { TaskStore } from './task-store.ts'

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

interface Kept {
  readonly countedFor: string
  value: string
  version: number
  bytes: number
}

/** The tasks that are counted for one owner. */
interface Usage {
  count: number
  bytes: number
}

/** The memory of an entry in addition to its strings. */
const ENTRY_BYTES = 512

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
  const usages = new Map<string, Usage>()
  let allBytes = 0
  const tasks = new LRUCache<string, Kept>({
    ttl: 1,
    ttlAutopurge: true,
    dispose: ({ countedFor, bytes }) => use(countedFor, -1, -bytes),
  })

  return {
    async add(key, value, { expiresAtMs, countedFor, max }) {
      const bytes = bytesOf(value)
      if ((usages.get(countedFor)?.count ?? 0) >= max) return 'owner-full'
      if (!hasRoom(countedFor, bytes)) return 'store-full'
      const ttl = Math.max(1, expiresAtMs - Date.now())
      tasks.set(nameOf(key), { countedFor, value, version: 1, bytes }, { ttl })
      use(countedFor, 1, bytes)
      return 'added'
    },
    async get(key) {
      const kept = tasks.get(nameOf(key))
      return kept && { value: kept.value, version: kept.version }
    },
    async replace(key, version, value) {
      const kept = tasks.get(nameOf(key))
      if (kept?.version !== version) return 'changed'
      const bytes = bytesOf(value)
      const more = bytes - kept.bytes
      if (more > 0 && !hasRoom(kept.countedFor, more)) return 'store-full'
      use(kept.countedFor, 0, more)
      Object.assign(kept, { value, version: version + 1, bytes })
      return 'replaced'
    },
    // There is one node.
    beat: async () => undefined,
    isAlive: async () => true,
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
}

/** Strings take at most two bytes per character. */
function bytesOf(value: string): number {
  return 2 * value.length + ENTRY_BYTES
}
