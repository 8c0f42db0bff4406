import type { CallToolResult } from '@modelcontextprotocol/server'
import { counted } from '../../../base/options/counted.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'
import { LIMITS, type Reach } from '../../router/limits.ts'
import type { ReachedLimit } from '../../wire/exchange.ts'

/** The member of `_meta` that says after how many seconds a client may try again. */
export const RETRY_META_KEY = 'mcp-gatekit/retry_after_seconds'

/** Thrown instead of running a tool, or instead of its result. The client receives `result`. */
export class LimitReached extends Error {
  readonly reached: ReachedLimit
  readonly result: CallToolResult
  /** `true` if the handler has been called. */
  readonly hasRun: boolean

  constructor(option: keyof typeof LIMITS, reach: Reach) {
    const { name, hasRun, text } = LIMITS[option]
    const { max, actual, retryAfterSeconds } = reach
    const retry =
      retryAfterSeconds === undefined ? '' : ` Try again in ${counted(retryAfterSeconds, 'second')}.`
    super(text(reach) + retry)
    this.reached = { limit: name, max, actual }
    this.hasRun = hasRun
    this.result = {
      content: [{ type: 'text', text: this.message }],
      isError: true,
      ...(retryAfterSeconds !== undefined && { _meta: { [RETRY_META_KEY]: retryAfterSeconds } }),
    }
  }

  /** Returns `thrown` if it is a reached limit. Values of the application may be proxies, which make `instanceof` throw. */
  static in(thrown: unknown): LimitReached | undefined {
    return tryOrUndefined(() => (thrown instanceof LimitReached ? thrown : undefined))
  }
}
