import { types } from 'node:util'
import {
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  ProtocolErrorCode,
} from '@modelcontextprotocol/server'
import { withBoundedError } from './bounded-error.ts'

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

/** Copies the result of `toJSON`. A `toJSON` of the result is ignored. */
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
    code: ProtocolErrorCode.InternalError,
    message: 'The response cannot be serialized as JSON',
  }
  return { jsonrpc: '2.0', ...(id !== undefined && { id }), error }
}
