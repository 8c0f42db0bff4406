import { elapsedMs } from '../../../base/timers.ts'
import { isInputRequired } from '../../router/input-required.ts'
import type { Bounds, CountedCall, LimitedCall, ToolLimiter } from '../../router/limits.ts'
import type { CallCounter, RunningCalls } from './call-counters.ts'
import { LimitReached } from './limit-reached.ts'

/**
 * The time after which a canceled call without `timeoutMs` does not count as in progress any more, if its handler has ignored
 * the signal.
 */
const ABANDONED_MS = 60_000

/** The limits of one tool: those of the adapter, and its own. */
export interface LimitPlan extends Bounds {
  readonly tool: string
  readonly running: readonly RunningCalls[]
  readonly calls: readonly CallCounter[]
}

/** Runs one tool within its limits, in this order: concurrency, calls, time, and the size of the result. */
export class LimitedTool implements ToolLimiter {
  readonly #plan: LimitPlan

  constructor(plan: LimitPlan) {
    this.#plan = plan
  }

  async begin(call: CountedCall): Promise<() => void> {
    const { running, calls } = this.#plan
    const ends: (() => void)[] = []
    const end = (): void => {
      for (const one of ends.splice(0)) one()
    }
    try {
      for (const one of running) ends.push(one.begin(call))
      for (const counter of calls) {
        const reached = await counter(call)
        if (reached !== undefined) throw reached
      }
      return end
    } catch (thrown) {
      end()
      throw thrown
    }
  }

  async run<Result extends object>(
    call: LimitedCall,
    run: () => Promise<Result>,
    counted?: () => void,
  ): Promise<Result> {
    const end = counted ?? (await this.begin(call))
    const { timeoutMs } = this.#plan
    const result = await (timeoutMs === undefined
      ? runCounted(call, run, end)
      : this.#runInTime(call, run, timeoutMs, end))
    const reached = isInputRequired(result) ? undefined : this.exceededBy(result)
    if (reached !== undefined) throw reached
    return result
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
