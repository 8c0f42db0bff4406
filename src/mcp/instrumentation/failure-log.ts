import { cutText } from '../../base/cut-text.ts'
import { watchStandardStreams } from '../../base/standard-streams.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { isOwnOutage } from '../../oauth/outages.ts'
import type { CallEvent, EventDetails, Outcome, TimedCall } from '../wire/exchange.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { MinuteCounts } from './minute-counts.ts'
import { kindOf } from './outcomes.ts'
import { TokenRedactor } from './token-redactor.ts'

/** The maximum number of lines of one kind in a minute. The rest is counted. */
const MAX_LINES = 10

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
  readonly #counts = new MinuteCounts()

  write(kind: Kind, line: () => string): void {
    const count = this.#counts.add(kind, (all) => {
      if (all > MAX_LINES) print(`In the last minute, ${all - MAX_LINES} ${KINDS[kind]}`)
    })
    // Describing a value of the application may throw.
    const text = count > MAX_LINES ? undefined : tryOrUndefined(line)
    if (text !== undefined) print(text)
  }

  /** Writes a line about a request that was not served, or was answered with 500. */
  finished(request: McpRequest, outcome: Outcome): void {
    if ('errorType' in outcome) return
    if ('status' in outcome) {
      if (outcome.status === 500) this.write('request', () => 'A request was answered with 500.')
    } else if (outcome.outcome === 'failed')
      this.write('request', () => `A request was answered with 500. ${describe(request, outcome.cause)}`)
    else if (outcome.outcome === 'unavailable')
      this.write(
        'verifier',
        () =>
          `A token could not be verified, so the request was answered with 503.${reasonOf(request, outcome.cause)}`,
      )
    else if (outcome.reason === 'origin')
      this.write('origin', () => forbidden('Origin', request.header('origin'), 'allowedOrigins'))
    else if (outcome.reason === 'host')
      this.write('host', () => forbidden('Host', request.host, 'allowedHosts'))
    else if ('cause' in outcome)
      this.write(
        'verifier',
        () => `The verifier threw, so the token was refused as invalid.${typeOf(outcome.cause)}`,
      )
  }

  /** Writes a line about a call that has failed in code of the application. */
  record(request: McpRequest, event: CallEvent, call: TimedCall, { failure, reference }: EventDetails): void {
    const what = WHAT_FAILED[event]
    // What the client can read itself, such as the message of a KitToolError, has no reference.
    if (what === undefined || failure === undefined || (reference === undefined && what === 'failed')) return
    this.write('handler', () => {
      const { name, uri } = (call.params ?? {}) as { name?: unknown; uri?: unknown }
      const subject = name ?? uri
      const of = typeof subject === 'string' ? ` ${printed(subject)}` : ''
      const by = reference === undefined ? '' : ` Reference: ${reference}.`
      return `${call.method}${of} ${what}.${by} ${describe(request, failure.thrown)}`
    })
  }
}

function print(text: string): void {
  watchStandardStreams()
  console.error(`mcp-gatekit: ${text}`)
}

function forbidden(header: string, value: string | undefined, option: string): string {
  return `A request was refused with 403, because its ${header} ${printed(value)} is not allowed. If it is one of yours, add it to ${option}.`
}

/** Returns the message of an error of this package, and the kind of another one, whose message may quote the token. */
function reasonOf(request: McpRequest, cause: unknown): string {
  if (!isOwnOutage(cause)) return typeOf(cause)
  const message = new TokenRedactor(request.authorization).text((cause as Error).message)
  return ` Reason: ${oneLine(message, MAX_REASON)}`
}

/** Describes a thrown value on one line, without the token of the request. */
function describe(request: McpRequest, thrown: unknown): string {
  const { name, message, stack } = new TokenRedactor(request.authorization).thrown(thrown)
  const place = stack
    ?.split('\n', 20)
    .find((line) => /^\s+at /.test(line))
    ?.trim()
  return `${oneLine(`${name}: ${message}`, MAX_MESSAGE)}${place === undefined ? '' : ` (${oneLine(place, MAX_PLACE)})`}`
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
