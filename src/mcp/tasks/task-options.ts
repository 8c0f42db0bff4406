import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../../base/options/option-rules.ts'
import { memoryTaskStore } from './memory-task-store.ts'
import type { TaskStore } from './task-store.ts'

const { invalidKind, readMembers, wholeNumber } = optionChecksOf('createMcpAdapter')

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

const RULES = {
  store: checkStore,
  maxPerOwner: optional(wholeNumber(1), 100),
  ttlMs: optional(wholeNumber(1), 3_600_000),
  maxResultBytes: optional(wholeNumber(1), 1_048_576),
} satisfies RulesFor<McpTaskOptions>

/** `McpTaskOptions`, validated and with defaults. */
export type ResolvedTaskOptions = ReadBy<typeof RULES>

/** @throws {KitMcpConfigError} if an option is invalid or unknown. */
export function resolveTaskOptions(options: unknown): ResolvedTaskOptions {
  if (!isOptionsObject(options))
    throw invalidKind('tasks', 'must be an object such as { maxPerOwner: 100, ttlMs: 3600000 }', options)
  return readMembers('tasks', options, RULES)
}

function checkStore(option: string, store: unknown): TaskStore {
  if (store === undefined) return memoryTaskStore()
  const given = store as Partial<Record<string, unknown>> | null
  if (METHODS.every((method) => typeof given?.[method] === 'function')) return store as TaskStore
  throw invalidKind(option, 'must be a store, such as the result of redisTaskStore(client)', store)
}
