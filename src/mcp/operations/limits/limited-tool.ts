import { isPromiseLike } from '../../../options/value-kinds.ts'
import { elapsedMs } from '../../../timers.ts'
import { isInputRequired } from '../../router/input-required.ts'
import type { CountedCall, LimitedCall, ToolLimiter } from '../../router/limits.ts'
import type { CallCounter } from './call-counts.ts'
import { type LimitReached, sizeReached, timeReached } from './limit-reached.ts'
import type { RunningCalls } from './running-calls.ts'

/**
 * The time after which a canceled call without `timeoutMs` does not count as in progress any more, if its handler has ignored
 * the signal.
 */
const ABANDONED_MS = 60_000

/** The limits of one tool: those of the adapter, and its own. */
export interface LimitPlan {
  readonly tool: string
  readonly running: readonly RunningCalls[]
  readonly calls: readonly CallCounter[]
  readonly timeoutMs: number | undefined
  readonly maxResultBytes: number | undefined
}

/** Runs one tool within its limits, in this order: concurrency, calls, time, and the size of the result. */
export class LimitedTool implements ToolLimiter {
  readonly #plan: LimitPlan

  constructor(plan: LimitPlan) {
    this.#plan = plan
  }

  async begin(call: CountedCall): Promise<() => void> {
    const end = this.#begin(call)
    try {
      for (const counter of this.#plan.calls) {
        const counted = counter.count(call)
        const reached = isPromiseLike(counted) ? await counted : counted
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
    let result: Result
    if (this.#plan.timeoutMs !== undefined)
      result = await this.#runInTime(call, run, this.#plan.timeoutMs, end)
    else if (this.#plan.running.length > 0) result = await runCounted(call, run, end)
    else result = await run()
    const reached = isInputRequired(result) ? undefined : this.exceededBy(result)
    if (reached !== undefined) throw reached
    return result
  }

  exceededBy(result: object): LimitReached | undefined {
    const { tool, maxResultBytes } = this.#plan
    if (maxResultBytes === undefined) return undefined
    const bytes = bytesBeyond(result, maxResultBytes)
    return bytes === undefined ? undefined : sizeReached(tool, maxResultBytes, bytes)
  }

  /** Counts the call as in progress. @returns a function that ends it; further calls have no effect */
  #begin(call: CountedCall): () => void {
    const ends: (() => void)[] = []
    const endAll = (): void => {
      for (const end of ends.splice(0)) end()
    }
    for (const running of this.#plan.running) {
      const begun = running.begin(call)
      if (typeof begun === 'function') {
        ends.push(begun)
        continue
      }
      endAll()
      throw begun
    }
    return endAll
  }

  /** @param end called when the handler has settled, or when its time is over */
  #runInTime<Result>(
    call: LimitedCall,
    run: () => Promise<Result>,
    timeoutMs: number,
    end: () => void,
  ): Promise<Result> {
    const { context } = call
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
        reject(timeReached(this.#plan.tool, timeoutMs, elapsedMs(startedAt)))
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
      started(run).then(
        (result) => {
          settled()
          resolve(result)
        },
        (thrown) => {
          settled()
          reject(thrown)
        },
      )
    })
  }
}

/** Calls `run`. Returns a rejected promise if it throws. */
function started<Result>(run: () => Promise<Result>): Promise<Result> {
  try {
    return run()
  } catch (thrown) {
    return Promise.reject(thrown)
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

/** The maximum number of bytes of one UTF-16 unit in JSON: an escape such as `\u0000`. */
const MAX_UNIT_BYTES = 6

/** More than the bytes of the JSON around the text of a result with one block. */
const FRAME_BYTES = 128

interface MeasuredResult {
  readonly content?: unknown
}

/**
 * Returns the size of a result in UTF-8 bytes of its JSON, if it exceeds `max`. A short text is not serialized: the length of
 * its string proves that it fits.
 * @param result a plain result, which can be serialized as JSON
 */
export function bytesBeyond(result: object, max: number): number | undefined {
  const length = lengthOfText(result)
  if (length !== undefined && length * MAX_UNIT_BYTES + FRAME_BYTES <= max) return undefined
  const bytes = Buffer.byteLength(JSON.stringify(result))
  return bytes > max ? bytes : undefined
}

/** Returns the length of the text of a result that has only one block of text. */
function lengthOfText(result: MeasuredResult): number | undefined {
  const { content } = result
  if (!Array.isArray(content) || content.length > 1) return undefined
  for (const member of Object.keys(result)) if (member !== 'content' && member !== 'isError') return undefined
  const [block] = content
  if (block === undefined) return 0
  return Object.keys(block).length === 2 && typeof block.text === 'string' ? block.text.length : undefined
}
