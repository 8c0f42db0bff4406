import { types } from '../../../base/built-in-kinds.ts'
import { describeNetworkFailure } from '../../../base/http/network-failure.ts'
import { quotedName } from '../../../base/options/describe-value.ts'
import { isOptionsObject } from '../../../base/options/option-kit.ts'
import {
  type OptionRule,
  type OptionRules,
  optional,
  type ReadBy,
  type RulesFor,
} from '../../../base/options/option-rules.ts'
import { isNode } from '../../../base/runtime.ts'
import { orAfter } from '../../delivery/pending-work.ts'
import { telemetryOptions } from '../../options.ts'
import { readTransportOptions } from '../transport-options.ts'

const { invalidKind, unusableOption } = telemetryOptions

/** A dispatcher of undici, of a major version that the `fetch` of Node supports. */
export interface FetchDispatcher {
  /** Sends one request. `fetch` calls it. */
  dispatch(options: any, handler: any): boolean
}

/**
 * The options for the connection to a target. By default, it is that of `fetch`, which uses the proxy of the environment in
 * versions of Node.js that support `NODE_USE_ENV_PROXY`.
 */
export interface TargetConnectionOptions {
  /** An undici dispatcher for `fetch`, such as a `ProxyAgent`, or an `Agent` with a client certificate. */
  readonly dispatcher?: FetchDispatcher | undefined
}

/** Header values by name. */
export type HeaderValues = Readonly<Record<string, string>>

/** The headers of requests, as an application gives them. */
export type GivenHeaders = Readonly<Record<string, string>> | Headers | ReadonlyMap<string, string>

/** Returns the headers of one attempt. @throws {Error} with the reason, which has no secrets, if the application does not give any. */
export type ReadHeaders = () => HeaderValues | Promise<HeaderValues>

/** The time in which a function has to return headers. */
const HEADERS_TIMEOUT_MS = 5000

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

/** Reads the options of a transport that posts to a target, as `readTransportOptions` does. */
export function readTargetOptions<Rules extends OptionRules>(
  call: string,
  options: unknown,
  rules: Rules,
  required: readonly string[],
): ReadBy<Rules> {
  if (isOptionsObject(options) && (options as { readonly agent?: unknown }).agent !== undefined)
    throw unusableOption(
      `${call}({ agent })`,
      'is not supported any longer',
      'Set dispatcher instead, such as an Agent or a ProxyAgent of undici.',
    )
  return readTransportOptions(call, options, rules, required)
}

/** Checks an option that not every runtime has. */
export function checkRuntime(option: string, isAvailable: boolean): void {
  if (!isAvailable)
    throw unusableOption(option, 'is available in Node.js only', 'Remove it in other runtimes.')
}

/** The rule of headers, or of a function that returns them for each attempt. @param check the rule of the headers themselves */
export function headersReader(check: OptionRule<HeaderValues>): OptionRule<ReadHeaders> {
  return (option, value, given) => {
    if (typeof value !== 'function') {
      const headers = check(option, value, given)
      return () => headers
    }
    return async () => {
      let returned: unknown
      try {
        returned = await orAfter(HEADERS_TIMEOUT_MS, LATE, value as () => unknown)
      } catch (cause) {
        // The error is not kept, because it may quote a secret.
        throw new Error(`the function headers threw an error${describeNetworkFailure(cause)}`)
      }
      if (returned === LATE)
        throw new Error(`the function headers did not return within ${HEADERS_TIMEOUT_MS} ms`)
      try {
        return check(option, returned, given)
      } catch {
        throw new Error('the function headers did not return an object of valid header names and values')
      }
    }
  }
}

/** Stands for headers that come too late. */
const LATE: unique symbol = Symbol('late')

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
