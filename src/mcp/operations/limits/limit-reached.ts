import type { CallToolResult } from '@modelcontextprotocol/server'
import { counted } from '../../../base/options/counted.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'
import type { CallLimit, ConcurrencyLimit } from '../../router/limits.ts'
import type { ReachedLimit } from '../../wire/request-telemetry.ts'
import type { CallerKey } from './caller-key.ts'

/** The member of `_meta` that says after how many seconds a client may try again. */
export const RETRY_META_KEY = 'mcp-gatekit/retry_after_seconds'

/** The seconds after which a client may try again if too many calls are in progress. Their end cannot be predicted. */
const RETRY_CONCURRENCY_SECONDS = 1

/** Thrown instead of running a tool, or instead of its result. The client receives `result`. */
export class LimitReached extends Error {
  readonly reached: ReachedLimit
  readonly result: CallToolResult
  /** `true` if the handler has been called. */
  readonly hasRun: boolean

  constructor(text: string, reached: ReachedLimit, retryAfterSeconds?: number) {
    super(text)
    this.reached = reached
    this.hasRun = reached.limit === 'timeout' || reached.limit === 'result_size'
    this.result = {
      content: [{ type: 'text', text }],
      isError: true,
      ...(retryAfterSeconds !== undefined && { _meta: { [RETRY_META_KEY]: retryAfterSeconds } }),
    }
  }

  /** Returns `thrown` if it is a reached limit. Values of the application may be proxies, which make `instanceof` throw. */
  static in(thrown: unknown): LimitReached | undefined {
    return tryOrUndefined(() => (thrown instanceof LimitReached ? thrown : undefined))
  }
}

function callsOf(tool: string | undefined, max: number): string {
  return tool === undefined ? counted(max, 'tool call') : `${counted(max, 'call')} of tool ${tool}`
}

/** @param tool the tool whose limit was reached. Undefined for the limit of the adapter. */
export function callsReached(
  { max, perSeconds }: CallLimit,
  tool: string | undefined,
  { scope }: CallerKey,
  actual: number,
  retryAfterSeconds: number,
): LimitReached {
  return new LimitReached(
    `Call limit reached: at most ${callsOf(tool, max)} per ${counted(perSeconds, 'second')} for ${scope}. Try again in ${counted(retryAfterSeconds, 'second')}.`,
    { limit: 'calls', max, actual },
    retryAfterSeconds,
  )
}

/** @param tool the tool whose limit was reached. Undefined for the limit of the adapter. */
export function concurrencyReached(
  { max }: ConcurrencyLimit,
  tool: string | undefined,
  { scope }: CallerKey,
): LimitReached {
  return new LimitReached(
    `Concurrency limit reached: at most ${callsOf(tool, max)} at the same time for ${scope}. Try again in ${counted(RETRY_CONCURRENCY_SECONDS, 'second')}.`,
    { limit: 'concurrency', max, actual: max + 1 },
    RETRY_CONCURRENCY_SECONDS,
  )
}

export function timeReached(tool: string, timeoutMs: number, elapsedMs: number): LimitReached {
  return new LimitReached(
    `Time limit reached: tool ${tool} did not finish within ${timeoutMs} ms. Try again later, or ask for less.`,
    { limit: 'timeout', max: timeoutMs, actual: elapsedMs },
  )
}

export function sizeReached(tool: string, maxBytes: number, bytes: number): LimitReached {
  return new LimitReached(
    `Result limit reached: the result of tool ${tool} has ${bytes} bytes, and at most ${maxBytes} bytes are allowed. Ask for less.`,
    { limit: 'result_size', max: maxBytes, actual: bytes },
  )
}
