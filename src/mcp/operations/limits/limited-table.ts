import { optionChecksOf } from '../../../base/options/option-checks.ts'
import type { Bounds, CallLimit, LimitStore, McpLimits } from '../../router/limits.ts'
import { type RouterTable, withTools } from '../../router/router-table.ts'
import type { ToolEntry } from '../../router/tool.ts'
import {
  type CallCounter,
  CallCounts,
  LimitStoreState,
  memoryCounter,
  RunningCalls,
  storedCounter,
} from './call-counters.ts'
import { LimitedTool } from './limited-tool.ts'

const { invalidKind, invalidOption } = optionChecksOf('createMcpAdapter')

/** The prefix of the keys in a store. */
const PREFIX = 'mcp-gatekit:calls'

/**
 * Returns a table whose tools have their limits. Returns `table` itself if there are none.
 * @param limits the limits of the adapter, which all tools share
 * @throws {KitMcpConfigError} if a store does not return a limiter, or cannot count a period.
 */
export function tableWithLimits(table: RouterTable, limits: McpLimits | undefined): RouterTable {
  if (isEmpty(limits) && [...table.tools.values()].every((tool) => isEmpty(tool.limits))) return table
  const counters = new CounterFactory()
  const shared = limits && {
    calls: limits.calls && counters.of(limits.calls, limits.store),
    running: limits.concurrency && new RunningCalls(limits.concurrency, undefined),
  }
  const limited = (entry: ToolEntry): ToolEntry => {
    if (isEmpty(limits) && isEmpty(entry.limits)) return entry
    const { calls, concurrency, store } = entry.limits ?? {}
    const { name } = entry.definition
    const limiter = new LimitedTool({
      tool: name,
      running: defined(shared?.running, concurrency && new RunningCalls(concurrency, name)),
      calls: defined(shared?.calls, calls && counters.of(calls, store ?? limits?.store, name)),
      ...boundsOf(limits, entry.limits),
    })
    return { ...entry, limiter }
  }
  return withTools(table, limited)
}

/** Returns `true` if none of the limits is set. A store by itself does not limit anything. */
function isEmpty(limits: McpLimits | undefined): boolean {
  return Object.entries(limits ?? {}).every(([option, limit]) => option === 'store' || limit === undefined)
}

/** Creates the counters of an adapter. */
class CounterFactory {
  readonly #counts = new CallCounts()
  readonly #stores = new Map<LimitStore, LimitStoreState>()

  /** @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
  of(limit: CallLimit, store: LimitStore | undefined, tool?: string): CallCounter {
    if (store === undefined) return memoryCounter(limit, tool, this.#counts)
    const { max: points, perSeconds: duration } = limit
    const owner = tool === undefined ? '' : ` of tool '${tool}'`
    if (!Number.isInteger(duration))
      throw invalidOption(
        `limits.calls.perSeconds${owner}`,
        'must be a whole number of seconds together with a store',
        duration,
      )
    const keyPrefix = tool === undefined ? PREFIX : `${PREFIX}:${tool}`
    const limiter: unknown = store({ points, duration, keyPrefix })
    if (typeof (limiter as { consume?: unknown } | null | undefined)?.consume !== 'function')
      throw invalidKind(
        `limits.store${owner}`,
        'must return a limiter of rate-limiter-flexible',
        limiter,
        'return the limiter itself, such as new RateLimiterRedis({ storeClient, points, duration, keyPrefix })',
      )
    const state = this.#stores.get(store) ?? new LimitStoreState()
    this.#stores.set(store, state)
    return storedCounter(limit, tool, limiter as ReturnType<LimitStore>, state)
  }
}

function defined<T>(...values: readonly (T | undefined)[]): T[] {
  return values.filter((value) => value !== undefined)
}

/** Returns the smaller one of each limit that is a number by itself. */
function boundsOf(...all: readonly (McpLimits | undefined)[]): Bounds {
  const bounds: Record<string, number> = {}
  for (const [option, limit] of all.flatMap((limits) => Object.entries(limits ?? {})))
    if (typeof limit === 'number') bounds[option] = Math.min(limit, bounds[option] ?? limit)
  return bounds
}
