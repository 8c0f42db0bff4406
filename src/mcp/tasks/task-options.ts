import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../../base/options/option-rules.ts'
import { memoryTaskStore } from './memory-task-store.ts'
import type { TaskStore } from './task-store.ts'

const { fittingKind, members, wholeNumber } = optionChecksOf('createMcpAdapter')

/** The store and the limits of tasks. */
export interface McpTaskOptions {
  /** The place in which tasks are kept: `memoryTaskStore()` or `redisTaskStore()`. Defaults to `memoryTaskStore()`. */
  readonly store?: TaskStore | undefined
  /**
   * The maximum number of tasks that are kept for one owner, whatever their status. A further call gets a tool error. If OAuth
   * is disabled, tasks are counted by client address. Defaults to 100.
   */
  readonly maxPerOwner?: number | undefined
  /** The time for which a task is kept after it was created, in milliseconds. Defaults to 3 600 000 ms (one hour). */
  readonly ttlMs?: number | undefined
  /**
   * The maximum size of the result of a task as JSON, in bytes. A larger result is replaced by a tool error. Defaults to
   * 1 048 576 (1 MiB).
   */
  readonly maxResultBytes?: number | undefined
}

const METHODS = ['add', 'get', 'replace', 'beat', 'isAlive'] as const
const checkStore = fittingKind<TaskStore>(
  (store) => METHODS.every((method) => typeof store?.[method] === 'function'),
  'must be a store, such as the result of redisTaskStore(client)',
)

const RULES = {
  store: (option: string, store: unknown = memoryTaskStore()) => checkStore(option, store),
  maxPerOwner: optional(wholeNumber(1), 100),
  ttlMs: optional(wholeNumber(1), 3_600_000),
  maxResultBytes: optional(wholeNumber(1), 1_048_576),
} satisfies RulesFor<McpTaskOptions>

/** `McpTaskOptions`, validated and with defaults. */
export type ResolvedTaskOptions = ReadBy<typeof RULES>

/** @throws {KitMcpConfigError} if an option is invalid or unknown. */
export function resolveTaskOptions(options: unknown): ResolvedTaskOptions {
  return members('must be an object such as { maxPerOwner: 100, ttlMs: 3600000 }', RULES)(
    'tasks',
    options,
    {},
  )
}
