import type { Agent } from 'node:http'
import { types } from '../../../built-in-kinds.ts'
import { quotedName } from '../../../options/describe-value.ts'
import { isOptionsObject } from '../../../options/option-kit.ts'
import { type OptionRule, optional, type RulesFor } from '../../../options/option-rules.ts'
import { builtinModule, isNode } from '../../../runtime.ts'
import { telemetryOptions } from '../../options.ts'

const { invalidKind, unusableOption } = telemetryOptions

/** A dispatcher of undici, of a major version that the `fetch` of Node supports. */
export interface FetchDispatcher {
  /** Sends one request. `fetch` calls it. */
  dispatch(options: any, handler: any): boolean
}

/**
 * The options for the connection to a target. By default, the transport uses its own agent, and the proxy that `HTTP_PROXY`,
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

/** Header values by name. */
export type HeaderValues = Readonly<Record<string, string>>

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Headers that describe the connection or the body. Applications cannot set them. */
const CONNECTION_HEADERS = [
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]

/** The rule of an address to send to. */
export function checkUrl(option: string, value: unknown): string {
  const given = value instanceof URL ? value.href : value
  const url = typeof given === 'string' && URL.canParse(given) ? new URL(given) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw invalidKind(option, 'must be an absolute URL that starts with http:// or https://', value)
  }
  if (url.username !== '' || url.password !== '') {
    throw unusableOption(
      option,
      'must not contain a user name or password',
      'Send them as a header, if the transport has the option headers.',
    )
  }
  return given as string
}

/** The rules of `TargetConnectionOptions`. */
export const CONNECTION_RULES = {
  agent: optional<Agent>((option, value) => {
    checkRuntime(option, builtinModule('node:http') !== undefined)
    if (!isAgent(value)) throw invalidKind(option, 'must be an http.Agent or https.Agent', value)
    return value
  }),
  dispatcher: optional<FetchDispatcher>((option, value) => {
    checkRuntime(option, isNode())
    if (typeof (value as Partial<FetchDispatcher> | null)?.dispatch !== 'function')
      throw invalidKind(
        option,
        'must be a dispatcher of undici, which is an object with the method dispatch',
        value,
      )
    return value as FetchDispatcher
  }),
} satisfies RulesFor<TargetConnectionOptions>

/** Checks an option that not every runtime has. */
export function checkRuntime(option: string, isAvailable: boolean): void {
  if (!isAvailable)
    throw unusableOption(option, 'is available in Node.js only', 'Remove it in other runtimes.')
}

/** Returns `true` for an agent of Node, and for objects that work like one. */
export function isAgent(value: unknown): value is Agent {
  return typeof (value as Partial<Record<'addRequest', unknown>> | null)?.addRequest === 'function'
}

/**
 * Checks that the options fit together, and that the agent fits the target.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if they do not.
 */
export function checkConnection(
  adapter: string,
  { agent, dispatcher }: TargetConnectionOptions,
  url: string,
): void {
  if (agent === undefined) return
  const option = `${adapter}.create({ agent })`
  if (dispatcher !== undefined)
    throw unusableOption(option, 'cannot be used together with dispatcher', 'Remove one of them.')
  const { protocol } = new URL(url)
  const own = protocolOf(agent)
  if (own !== undefined && own !== protocol) {
    throw unusableOption(
      option,
      `must be an agent for ${protocol}; received one for ${own}`,
      `Use an Agent of node:${protocol.slice(0, -1)}.`,
    )
  }
}

/** Returns the protocol of an agent of Node, or `undefined` for a proxy agent, whose protocol depends on the request. */
export function protocolOf(agent: Agent): string | undefined {
  const protocol: unknown = Object.getOwnPropertyDescriptor(agent, 'protocol')?.value
  return typeof protocol === 'string' ? protocol : undefined
}

/** The rule of header values by name. Those that are `undefined` are left out. */
export const checkHeaders: OptionRule<HeaderValues> = (option, value) => {
  const headers = checkHeaderValues(option, value)
  const reserved = Object.keys(headers).find((name) => CONNECTION_HEADERS.includes(name.toLowerCase()))
  if (reserved === undefined) return headers
  throw unusableOption(option, `must not contain ${quotedName(reserved)}, which belongs to the connection`)
}

/** Like `checkHeaders`, but allows the headers that belong to the connection. */
export function checkHeaderValues(option: string, value: unknown): HeaderValues {
  const isList = value instanceof Headers || types.isMap(value)
  if (!isList && !isOptionsObject(value))
    throw invalidKind(
      option,
      "must be an object of strings, such as { 'x-api-key': '…' }, a Headers object, or a Map",
      value,
    )
  const entries: (readonly [unknown, unknown])[] = isList ? [...value] : Object.entries(value)
  for (const [name, text] of entries) {
    // The name is not repeated, because it may be a secret on the wrong side of the colon.
    if (typeof name !== 'string' || !HEADER_NAME.test(name)) {
      throw unusableOption(
        option,
        'must not contain a name that HTTP does not allow',
        'Use letters, digits, and hyphens.',
      )
    }
    if (text !== undefined && (typeof text !== 'string' || !HEADER_VALUE.test(text)))
      throw invalidKind(option, `must contain a single-line Latin-1 string for ${quotedName(name)}`, text)
  }
  return Object.fromEntries(entries.filter(([, text]) => text !== undefined))
}
