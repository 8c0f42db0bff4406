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
