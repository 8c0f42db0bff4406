import { optionChecksOf } from '../../../base/options/option-checks.ts'
import { elapsedMs } from '../../../base/timers.ts'
import type { RateLimiterLike } from '../../../oauth/limits/rate-limiter.ts'
import type {
  Bounds,
  CallLimit,
  CountedCall,
  LimitedCall,
  LimitStore,
  McpLimits,
  ToolLimiter,
} from '../../router/limits.ts'
import { type RouterTable, withTools } from '../../router/router-table.ts'
import {
  type BeginCall,
  CallCounts,
  countedInMemory,
  countedInStore,
  inProgress,
  LimitStoreState,
} from './call-counters.ts'
import { LimitReached } from './limit-reached.ts'

/**
 * The time after which a canceled call without `timeoutMs` does not count as in progress any more, if its handler has ignored
 * the signal.
 */
const ABANDONED_MS = 60_000

/** The limits of one tool: those of the adapter, and its own. */
export interface LimitPlan extends Bounds {
  readonly tool: string
  /** In the order in which they are counted. */
  readonly begins: readonly BeginCall[]
}

/** Runs one tool within its limits, in this order: concurrency, calls, and time. `exceededBy` checks the size of the result. */
export class LimitedTool implements ToolLimiter {
  readonly #plan: LimitPlan

  constructor(plan: LimitPlan) {
    this.#plan = plan
  }

  async begin(call: CountedCall): Promise<() => void> {
    const ends: (() => void)[] = []
    const end = (): void => {
      for (const one of ends.splice(0)) one()
    }
    try {
      for (const begin of this.#plan.begins) ends.push((await begin(call)) ?? (() => undefined))
      return end
    } catch (thrown) {
      end()
      throw thrown
    }
  }

  async run<Result>(call: LimitedCall, run: () => Promise<Result>, counted?: () => void): Promise<Result> {
    const end = counted ?? (await this.begin(call))
    const { timeoutMs } = this.#plan
    return await (timeoutMs === undefined
      ? runCounted(call, run, end)
      : this.#runInTime(call, run, timeoutMs, end))
  }

  exceededBy(result: object): LimitReached | undefined {
    const { tool, maxResultBytes: max } = this.#plan
    if (max === undefined) return undefined
    const actual = Buffer.byteLength(JSON.stringify(result))
    return actual > max ? new LimitReached('maxResultBytes', { tool, max, actual }) : undefined
  }

  /** @param end called when the handler has settled, or when its time is over */
  #runInTime<Result>(
    { context }: LimitedCall,
    run: () => Promise<Result>,
    timeoutMs: number,
    end: () => void,
  ): Promise<Result> {
    const { tool } = this.#plan
    const startedAt = performance.now()
    const controller = new AbortController()
    const { signal, log, progress } = context
    let isOver = false
    context.signal = controller.signal
    // The client must not receive notifications after the result.
    context.log = (level, data) => (isOver ? Promise.resolve() : log(level, data))
    context.progress = (done, total, message) => (isOver ? Promise.resolve() : progress(done, total, message))
    return new Promise<Result>((resolve, reject) => {
      const timer = setTimeout(() => {
        isOver = true
        end()
        signal.removeEventListener('abort', abort)
        reject(new LimitReached('timeoutMs', { tool, max: timeoutMs, actual: elapsedMs(startedAt) }))
        controller.abort(new DOMException(`The tool did not finish within ${timeoutMs} ms`, 'TimeoutError'))
      }, timeoutMs)
      const abort = (): void => {
        // The client does not wait for the result, so the process may end.
        timer.unref()
        controller.abort(signal.reason)
      }
      if (signal.aborted) abort()
      else signal.addEventListener('abort', abort, { once: true })
      const settled = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', abort)
        end()
      }
      Promise.resolve().then(run).finally(settled).then(resolve, reject)
    })
  }
}

/** @param end called when the handler has settled or, if it ignores its signal, some time after the call was canceled */
async function runCounted<Result>(
  { context: { signal } }: LimitedCall,
  run: () => Promise<Result>,
  end: () => void,
): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const onAbort = (): void => {
    timer = setTimeout(end, ABANDONED_MS)
    timer.unref()
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await run()
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
    end()
  }
}

const { invalidKind, invalidOption } = optionChecksOf('createMcpAdapter')

/** The prefix of the keys in a store. */
const PREFIX = 'mcp-gatekit:calls'

/**
 * Returns a table whose tools have their limits. A tool without limits stays as it is.
 * @param limits the limits of the adapter, which all tools share
 * @throws {KitMcpConfigError} if a store does not return a limiter, or cannot count a period.
 */
export function tableWithLimits(table: RouterTable, limits: McpLimits | undefined): RouterTable {
  const counts = new CallCounts()
  const stores = new Map<LimitStore, LimitStoreState>()
  const counted = (limit: CallLimit, store: LimitStore | undefined, tool?: string): BeginCall => {
    if (store === undefined) return countedInMemory(limit, tool, counts)
    const state = stores.get(store) ?? new LimitStoreState()
    stores.set(store, state)
    return countedInStore(limit, tool, limiterOf(store, limit, tool), state)
  }
  const running = limits?.concurrency && inProgress(limits.concurrency, undefined)
  const calls = limits?.calls && counted(limits.calls, limits.store)
  return withTools(table, (entry) => {
    const { name } = entry.definition
    const own = entry.limits ?? {}
    const begins = [
      running,
      own.concurrency && inProgress(own.concurrency, name),
      calls,
      own.calls && counted(own.calls, own.store ?? limits?.store, name),
    ].filter((begin) => begin !== undefined)
    const bounds = boundsOf(limits, entry.limits)
    if (begins.length === 0 && Object.keys(bounds).length === 0) return entry
    return { ...entry, limiter: new LimitedTool({ tool: name, begins, ...bounds }) }
  })
}

/** Returns the limiter of a store. @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
function limiterOf(store: LimitStore, limit: CallLimit, tool: string | undefined): RateLimiterLike {
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
  return limiter as RateLimiterLike
}

/** Returns the smaller one of each limit that is a number by itself. */
function boundsOf(...all: readonly (McpLimits | undefined)[]): Bounds {
  const bounds: Record<string, number> = {}
  for (const [option, limit] of all.flatMap((limits) => Object.entries(limits ?? {})))
    if (typeof limit === 'number') bounds[option] = Math.min(limit, bounds[option] ?? limit)
  return bounds
}
