import type { Agent } from 'node:http'
import { describeKind } from '../../../options/describe-value.ts'
import { MAX_TIMER_MS } from '../../../timers.ts'
import { LEVEL_PRIORITY } from '../../levels.ts'
import { checkOneOf, copyOptions, invalidKind, invalidOption, unusableOption } from '../../options.ts'

type Check = (value: unknown, option: string) => void

/** A dispatcher of undici, of the major version that Node's own `fetch` understands. */
export interface FetchDispatcher {
  /** Sends one request. `fetch` calls it. */
  dispatch(options: any, handler: any): boolean
}

/**
 * How a target is reached. By default, through an agent of the transport's own, and through the proxy that `HTTP_PROXY`,
 * `HTTPS_PROXY`, and `NO_PROXY` name if `NODE_USE_ENV_PROXY` is `1`.
 */
export interface TargetConnectionOptions {
  /**
   * The agent that opens connections, such as an `https.Agent` with a client certificate, or a proxy agent.
   */
  readonly agent?: Agent | undefined
  /** An undici dispatcher, such as a `ProxyAgent`. Requests are then made with `fetch`. Excludes `agent`. */
  readonly dispatcher?: FetchDispatcher | undefined
}

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Headers that describe the connection or the body, which are not the caller's to set. */
const CONNECTION_HEADERS = [
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]

/**
 * Copies the options of a transport, checking each. What is given may be a secret, so that no message of the checks
 * below repeats it.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID`, naming the option and the hint
 */
export function readTargetOptions<T extends object>(
  adapter: string,
  options: T,
  required: readonly (string & keyof T)[],
  checks: { readonly [Member in keyof T]-?: Check },
): T {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw unusableOption(
      `${adapter}.create()`,
      `takes an object, such as { ${required.join(', ')} }, got ${describeKind(options)}`,
    )
  }
  const copy = copyOptions(`${adapter}.create`, options, checks)
  for (const member of required) {
    if (copy[member] === undefined) checks[member](undefined, `${adapter}.create({ ${member} })`)
  }
  return copy
}

export const checkMinLevel: Check = checkOneOf(Object.keys(LEVEL_PRIORITY))

/** An address to send to. */
export function checkUrl(value: unknown, option: string): void {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw invalidKind(option, 'an absolute URL that begins with http:// or https://', value)
  }
  if (url.username !== '' || url.password !== '') {
    throw unusableOption(
      option,
      'must not hold a user name or password',
      'send them as a header, where there are headers',
    )
  }
}

/** The checks of `TargetConnectionOptions`. */
export const CONNECTION_CHECKS: { readonly [Member in keyof TargetConnectionOptions]-?: Check } = {
  agent: (value, option) => {
    if (typeof (value as Partial<Record<'addRequest', unknown>> | null)?.addRequest !== 'function')
      throw invalidKind(option, 'an http.Agent or https.Agent', value)
  },
  dispatcher: (value, option) => {
    if (typeof (value as Partial<FetchDispatcher> | null)?.dispatch !== 'function')
      throw invalidKind(option, 'a dispatcher of undici: an object with the method dispatch', value)
  },
}

/**
 * Checks that the options fit together, and fit the target.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID`
 */
export function checkConnection(
  adapter: string,
  { agent, dispatcher }: TargetConnectionOptions,
  url: string,
): void {
  if (agent === undefined) return
  const option = `${adapter}.create({ agent })`
  if (dispatcher !== undefined)
    throw unusableOption(option, 'and dispatcher exclude each other', 'leave one of them out')
  const { protocol } = new URL(url)
  const own = protocolOf(agent)
  if (own !== undefined && own !== protocol) {
    throw unusableOption(
      option,
      `is for ${own} and the target for ${protocol}`,
      `give an Agent of node:${protocol.slice(0, -1)}`,
    )
  }
}

/** The protocol of an agent of Node; `undefined` for a proxy agent, whose protocol depends on the request. */
export function protocolOf(agent: Agent): string | undefined {
  const protocol: unknown = Object.getOwnPropertyDescriptor(agent, 'protocol')?.value
  return typeof protocol === 'string' ? protocol : undefined
}

/** A string that is not empty, whose value may be a secret. */
export function checkSecret(value: unknown, option: string): void {
  if (typeof value !== 'string' || value === '')
    throw invalidKind(option, 'a string that is not empty', value)
}

/** Header values by name; `undefined` is left out later on. */
export function checkHeaders(value: unknown, option: string): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidKind(option, "an object of strings, such as { 'x-api-key': '…' }", value)
  }
  for (const [name, text] of Object.entries(value)) {
    // Not repeated: it may be a secret that was put on the wrong side of the colon.
    if (!HEADER_NAME.test(name)) {
      throw unusableOption(
        option,
        'has a name that is not allowed in HTTP',
        'use letters, digits and hyphens',
      )
    }
    if (CONNECTION_HEADERS.includes(name.toLowerCase())) {
      throw unusableOption(option, `must not have ${JSON.stringify(name)}, which belongs to the connection`)
    }
    if (text !== undefined && (typeof text !== 'string' || !HEADER_VALUE.test(text))) {
      throw unusableOption(
        option,
        `must hold a single-line Latin-1 string for ${JSON.stringify(name)}, got ${describeKind(text)}`,
      )
    }
  }
}

export function checkMs(least: 'zero' | 'above zero'): Check {
  return (value, option) => {
    const enough = typeof value === 'number' && (least === 'zero' ? value >= 0 : value > 0)
    if (!enough || value > MAX_TIMER_MS) {
      const lower = least === 'zero' ? 'from 0' : 'above 0'
      throw invalidOption(option, `a number of milliseconds ${lower} to ${MAX_TIMER_MS}`, value)
    }
  }
}

export function checkCount(least: number): Check {
  return (value, option) => {
    if (!Number.isSafeInteger(value) || (value as number) < least) {
      throw invalidOption(option, `a whole number of at least ${least}`, value)
    }
  }
}
