import { types } from 'node:util'
import type { JSONRPCErrorResponse, JSONRPCMessage } from '@modelcontextprotocol/server'
import { cutText } from '../../base/cut-text.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { problemIn } from './schema-issues.ts'

/**
 * Checks that `value` can be serialized as JSON. The length of its strings does not matter for the cost.
 * @throws any error of `JSON.stringify`: for a bigint, a cycle, thousands of levels, or a getter that throws.
 */
export function checkJson(value: unknown): void {
  JSON.stringify(value, withoutStrings)
}

/**
 * Copies the part of `value` that `JSON.stringify` would serialize into plain objects and arrays. Reading the copy does not run
 * code of the application, such as getters and proxies. Strings are shared.
 * @param value a value that has passed `checkJson`, or was serialized as JSON
 * @throws any error that reading `value` throws.
 */
export function plainCopy<T>(value: T): T {
  return copyOf(value, '') as T
}

const NO_MEMBERS = {}

function copyOf(value: unknown, key: string): unknown {
  const { toJSON } = (typeof value === 'object' && value !== null ? value : NO_MEMBERS) as {
    toJSON?: unknown
  }
  // As for `JSON.stringify`, a `toJSON` of the result does not matter.
  const form: unknown = typeof toJSON === 'function' ? toJSON.call(value, key) : value
  if (typeof form === 'function') return undefined
  if (typeof form !== 'object' || form === null) return form
  if (types.isBoxedPrimitive(form)) return JSON.parse(JSON.stringify(form))
  // Results may be large. Functions such as `map` and `Object.fromEntries` take seven times as long.
  if (Array.isArray(form)) {
    const list: unknown[] = []
    for (let index = 0; index < form.length; index++) list.push(copyOf(form[index], String(index)))
    return list
  }
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(form)) {
    const member = copyOf((form as Readonly<Record<string, unknown>>)[name], name)
    if (member === undefined) continue
    // An assignment to `__proto__` would set the prototype.
    if (name === '__proto__') Object.defineProperty(copy, name, { value: member, enumerable: true })
    else copy[name] = member
  }
  return copy
}

function withoutStrings(_key: string, value: unknown): unknown {
  return typeof value === 'string' ? '' : value
}

/** Returns `message`, or an internal error if it is a response that has no result or cannot be serialized as JSON. */
export function jsonSafe(message: JSONRPCMessage): JSONRPCMessage {
  if ('method' in message) return message
  try {
    checkJson(message)
    if ('error' in message || message.result !== undefined) return withBoundedError(message)
  } catch {
    // The response cannot be serialized.
  }
  return internalError(message.id)
}

/** Returns a response as JSON. If it cannot be serialized, returns an internal error as JSON. */
export function responseText(response: JSONRPCMessage): string {
  try {
    return JSON.stringify(withBoundedError(response))
  } catch {
    return JSON.stringify(internalError((response as JSONRPCErrorResponse).id))
  }
}

/** Returns the error that replaces a response that cannot be sent. */
export function internalError(id: JSONRPCErrorResponse['id']): JSONRPCErrorResponse {
  const error = {
    code: -32_603,
    message: 'The response cannot be serialized as JSON',
  }
  return { jsonrpc: '2.0', ...(id !== undefined && { id }), error }
}

/** The maximum length of an error message about a client's input. */
const MAX_TEXT = 4_000

/** Error messages of the SDK up to this length are not changed. */
const MAX_ISSUE_LIST = 2_000

/** The beginning of the SDK's result of a tool whose arguments are invalid. */
const INPUT_ERROR = 'Input validation error: '

/**
 * Shortens a response in which the SDK lists every issue of a validation: it lists the first issues and counts the rest.
 * The error for invalid parameters becomes -32602. Returns any other message unchanged.
 */
export function withBoundedError<Message extends JSONRPCMessage>(message: Message): Message {
  if ('error' in message) {
    const { error } = message
    const problem = problemOfParams(error)
    if (problem !== undefined)
      return { ...message, error: { code: -32_602, message: `Invalid params: ${problem}` } }
    if (typeof error.message !== 'string' || error.message.length <= MAX_ISSUE_LIST) return message
    return { ...message, error: { ...error, message: boundedText(error.message) } }
  }
  if (!('result' in message) || message.result?.isError !== true) return message
  const { content } = message.result as { content?: unknown }
  const text = Array.isArray(content) && content.length === 1 ? content[0]?.text : undefined
  if (typeof text !== 'string' || text.length <= MAX_TEXT || !text.startsWith(INPUT_ERROR)) return message
  return { ...message, result: { ...message.result, content: [{ type: 'text', text: boundedText(text) }] } }
}

/** Returns the problem if an error message of the SDK lists the issues of a request's parameters, which are invalid. */
function problemOfParams({ code, message }: JSONRPCErrorResponse['error']): string | undefined {
  if ((code !== -32_603 && code !== -32_602) || typeof message !== 'string') return undefined
  const issues = parsedIssues(message.replace(/^Invalid \S+ request: (?=\[)/, ''))
  if (issues === undefined || issues.length === 0) return undefined
  const isOfParams = issues.every(({ path }) => path?.[0] === 'params')
  return isOfParams ? problemIn(issues.map((issue) => ({ ...issue, path: issue.path?.slice(1) }))) : undefined
}

function boundedText(text: string): string {
  const issues = text.startsWith('[') ? parsedIssues(text) : undefined
  if (issues !== undefined) return problemIn(issues)
  if (text.length <= MAX_TEXT) return text
  const kept = cutText(text, MAX_TEXT - 100, '…')
  return `${kept} and ${(text.length - kept.length + 1).toLocaleString('en-US')} more characters`
}

/** Returns the issues of a schema library's error whose message is their JSON. */
function parsedIssues(text: string): Parameters<typeof problemIn>[0] | undefined {
  try {
    const issues: unknown = JSON.parse(text)
    return Array.isArray(issues) && issues.every(isIssue) ? issues : undefined
  } catch {
    return undefined
  }
}

function isIssue(value: unknown): value is { message: string; path: string[] } {
  const { message, path } = (value ?? {}) as { message?: unknown; path?: unknown }
  return typeof message === 'string' && Array.isArray(path)
}

/**
 * Returns a JSON value as text in canonical form (RFC 8785): without spaces, and with the members of objects sorted by name. Equal
 * values have equal texts.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  // JSON.stringify would write numbers that are not finite as null.
  if (typeof value === 'number') return String(value)
  if (!isRecord(value)) return JSON.stringify(value)
  const members = Object.keys(value).sort()
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`).join(',')}}`
}
