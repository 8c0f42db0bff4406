import { types } from 'node:util'
import {
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  ProtocolErrorCode,
} from '@modelcontextprotocol/server'
import { withBoundedError } from './bounded-error.ts'

/**
 * Looks whether `value` can be written as JSON; how long its texts are costs nothing.
 * @throws whatever `JSON.stringify` throws: for a bigint, a cycle, thousands of levels, a getter that throws.
 */
export function checkJson(value: unknown): void {
  JSON.stringify(value, withoutTexts)
}

/**
 * Copies what `JSON.stringify` would write of `value` into plain objects and arrays. Strings are not copied. The copy can be
 * read any number of times without running code of the application, such as getters and proxies.
 * @param value has passed `checkJson`, or has been written as JSON.
 * @throws whatever reading `value` throws.
 */
export function plainCopy<T>(value: T): T {
  return copyOf(value, '') as T
}

function copyOf(value: unknown, key: string): unknown {
  if (typeof value === 'function') return undefined
  if (typeof value !== 'object' || value === null) return value
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') {
    const form: unknown = toJSON.call(value, key)
    return form === value ? copyMembers(value) : copyPlain(form)
  }
  return copyMembers(value)
}

/** What `toJSON` returned, whose own `toJSON` does not count. */
function copyPlain(form: unknown): unknown {
  if (typeof form === 'function') return undefined
  return typeof form === 'object' && form !== null ? copyMembers(form) : form
}

function copyMembers(value: object): unknown {
  if (Array.isArray(value)) {
    const copy: unknown[] = []
    for (let index = 0; index < value.length; index++) copy.push(copyOf(value[index], String(index)))
    return copy
  }
  if (types.isBoxedPrimitive(value)) return JSON.parse(JSON.stringify(value))
  const copy: Record<string, unknown> = {}
  for (const key of Object.keys(value)) {
    const member = copyOf((value as Readonly<Record<string, unknown>>)[key], key)
    if (member === undefined) continue
    if (key === '__proto__')
      Object.defineProperty(copy, key, {
        value: member,
        enumerable: true,
        configurable: true,
        writable: true,
      })
    else copy[key] = member
  }
  return copy
}

function withoutTexts(_key: string, value: unknown): unknown {
  return typeof value === 'string' ? '' : value
}

/** `message`, or where it is an answer that cannot be written as JSON, or has no result, one that says so. */
export function sendable(message: JSONRPCMessage): JSONRPCMessage {
  if ('method' in message) return message
  try {
    checkJson(message)
    if ('error' in message || message.result !== undefined) return withBoundedError(message)
  } catch {
    // As below.
  }
  return unsendable(message.id)
}

/** An answer as JSON, or where it cannot be written, one that says so. */
export function answerText(answer: JSONRPCMessage): string {
  try {
    return JSON.stringify(withBoundedError(answer))
  } catch {
    return JSON.stringify(unsendable((answer as JSONRPCErrorResponse).id))
  }
}

/** What is sent in place of an answer that cannot be. */
export function unsendable(id: JSONRPCErrorResponse['id']): JSONRPCErrorResponse {
  const error = { code: ProtocolErrorCode.InternalError, message: 'The answer cannot be written as JSON' }
  return { jsonrpc: '2.0', ...(id !== undefined && { id }), error }
}
