import { performance } from 'node:perf_hooks'
import { cutText } from '../../cut-text.ts'
import type { HttpResponse } from '../../http/plain-response.ts'
import { isOwnOutage } from '../../oauth/outages.ts'
import { watchStandardStreams } from '../../standard-streams.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import {
  type CallEvent,
  type EventDetails,
  type Failure,
  type NotServed,
  RequestTelemetry,
  type TimedCall,
} from '../wire/request-telemetry.ts'
import { kindOf } from './observed-outcome.ts'
import { TokenRedactor } from './token-redactor.ts'

/** The maximum number of lines of one kind in a minute. The rest is counted. */
const MAX_LINES = 10

const WINDOW_MS = 60_000

/** The maximum lengths of an error's message, of the reason of an outage, of a place in a stack, and of a value that a client has sent. */
const MAX_MESSAGE = 500
const MAX_REASON = 1_000
const MAX_PLACE = 200
const MAX_VALUE = 120

/** The kinds of failures, with the end of the line that counts those which were not written. */
const KINDS = {
  handler: 'more calls have failed',
  request: 'more requests were answered with 500',
  verifier: 'more tokens could not be verified',
  origin: 'more requests were refused for their Origin',
  host: 'more requests were refused for their Host',
}

type Kind = keyof typeof KINDS

/** The lines of one kind in a minute. */
interface Window {
  readonly openedAt: number
  readonly timer: ReturnType<typeof setTimeout>
  written: number
  left: number
}

/** Calls that end with one of these events have failed in code of the application, if there is a thrown value. */
const WHAT_FAILED: Readonly<Partial<Record<CallEvent, string>>> = {
  'tool.failed': 'failed',
  'request.failed': 'failed',
  'policy.denied': 'was denied, because authorize failed',
  'limit.unavailable': 'was not counted, because the store of the limits failed',
  'confirm.refused': 'was refused, because confirm or the store of confirmations failed',
}

/**
 * The failures of a server without telemetry: one line on stderr for each, at most 10 in a minute for each kind, and then one
 * line with the number of the others.
 */
export class FailureLog {
  /** Nothing is loaded. */
  readonly loading = undefined
  readonly #windows = new Map<Kind, Window>()

  begin(request: McpRequest): LoggedRequest {
    return new LoggedRequest(this, request)
  }

  write(kind: Kind, line: () => string): void {
    const window = this.#windowOf(kind)
    if (window.written === MAX_LINES) {
      window.left++
      return
    }
    window.written++
    // Describing a value of the application may throw.
    const text = tryOrUndefined(line)
    watchStandardStreams()
    if (text !== undefined) console.error(`mcp-gatekit: ${text}`)
  }

  #windowOf(kind: Kind): Window {
    const open = this.#windows.get(kind)
    // Some runtimes cancel the timers of a request when it ends.
    if (open !== undefined && performance.now() - open.openedAt < WINDOW_MS) return open
    this.#close(kind)
    const timer = setTimeout(() => this.#close(kind), WINDOW_MS)
    timer.unref?.()
    const window = { openedAt: performance.now(), timer, written: 0, left: 0 }
    this.#windows.set(kind, window)
    return window
  }

  #close(kind: Kind): void {
    const window = this.#windows.get(kind)
    if (window === undefined) return
    this.#windows.delete(kind)
    clearTimeout(window.timer)
    watchStandardStreams()
    if (window.left > 0) console.error(`mcp-gatekit: In the last minute, ${window.left} ${KINDS[kind]}`)
  }
}

/** A request whose failures are written to a log. */
export class LoggedRequest extends RequestTelemetry {
  readonly #log: FailureLog
  readonly #request: McpRequest
  #hasDecided = false

  constructor(log: FailureLog, request: McpRequest) {
    super()
    this.#log = log
    this.#request = request
  }

  override decided(decision: NotServed): void {
    if (this.#hasDecided) return
    this.#hasDecided = true
    const { outcome } = decision
    if (outcome === 'failed')
      this.#log.write('request', () => `A request was answered with 500. ${this.#describe(decision.cause)}`)
    else if (outcome === 'unavailable')
      this.#log.write(
        'verifier',
        () =>
          `A token could not be verified, so the request was answered with 503.${this.#reasonOf(decision.cause)}`,
      )
    else if (decision.reason === 'origin' || decision.reason === 'host') this.#forbidden(decision.reason)
    else if ('cause' in decision)
      this.#log.write(
        'verifier',
        () => `The verifier threw, so the token was refused as invalid.${typeOf(decision.cause)}`,
      )
  }

  #forbidden(reason: 'origin' | 'host'): void {
    const [name, option, value] =
      reason === 'origin'
        ? (['Origin', 'allowedOrigins', this.#request.header('origin')] as const)
        : (['Host', 'allowedHosts', this.#request.host] as const)
    this.#log.write(
      reason,
      () =>
        `A request was refused with 403, because its ${name} ${printed(value)} is not allowed. If it is one of yours, add it to ${option}.`,
    )
  }

  override record(event: CallEvent, call: TimedCall, { failure, reference }: EventDetails): void {
    const what = WHAT_FAILED[event]
    // What the client can read itself, such as the message of a KitToolError, has no reference.
    if (what === undefined || failure === undefined) return
    if (reference === undefined && what === 'failed') return
    this.#log.write('handler', () => {
      const { name, uri } = (call.params ?? {}) as { name?: unknown; uri?: unknown }
      const subject = name ?? uri
      const of = typeof subject === 'string' ? ` ${printed(subject)}` : ''
      const by = reference === undefined ? '' : ` Reference: ${reference}.`
      return `${call.method}${of} ${what}.${by} ${this.#describe(failure.thrown)}`
    })
  }

  override responded(response: HttpResponse): HttpResponse {
    this.completed(response.status)
    return response
  }

  override completed(status: number): void {
    if (status !== 500 || this.#hasDecided) return
    this.#hasDecided = true
    this.#log.write('request', () => 'A request was answered with 500.')
  }

  /** Returns the message of an error of this package, and the kind of another one, whose message may quote the token. */
  #reasonOf(cause: unknown): string {
    if (!isOwnOutage(cause)) return typeOf(cause)
    const message = new TokenRedactor(this.#request.authorization).text((cause as Error).message)
    return ` Reason: ${oneLine(message, MAX_REASON)}`
  }

  /** Describes a thrown value on one line, without the token of the request. */
  #describe(thrown: Failure['thrown']): string {
    const redactor = new TokenRedactor(this.#request.authorization)
    const { name, message, stack } = redactor.thrown(thrown)
    const place = stack
      ?.split('\n', 20)
      .find((line) => /^\s+at /.test(line))
      ?.trim()
    return `${oneLine(`${name}: ${message}`, MAX_MESSAGE)}${place === undefined ? '' : ` (${oneLine(place, MAX_PLACE)})`}`
  }
}

/** Returns the kind of an error of a verifier. Its message may quote the token. */
function typeOf(cause: unknown): string {
  const causes = [cause, tryOrUndefined(() => (cause as { cause?: unknown } | undefined)?.cause)]
  const kinds = causes.map(kindOf).filter((kind) => kind !== undefined)
  return kinds.length === 0 ? '' : ` Error: ${[...new Set(kinds)].join(', ')}`
}

/** Returns a value that a client has sent, quoted. A terminal cannot be controlled with it. */
function printed(value: string | undefined): string {
  return value === undefined ? '(none)' : JSON.stringify(oneLine(value, MAX_VALUE))
}

/** Returns a text on one line, without control characters. */
function oneLine(text: string, max: number): string {
  return cutText(text, max).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
}
