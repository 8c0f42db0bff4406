import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import type { WebhookError } from './store.ts'

/** The JSON-RPC codes that clients of today know. */
export const EVENT_CODES = {
  notFound: -32_011,
  forbidden: -32_012,
  exhausted: -32_013,
  unsupported: -32_014,
  callback: -32_015,
} as const

/** The distance to the codes that the text of SEP-3415 proposes, -32023 to -32027. */
const PROPOSED = -12

/** Returns an error with the code that SEP-3415 proposes. Errors that are not about events stay. */
export function withProposedCode(error: unknown): unknown {
  if (!(error instanceof ProtocolError) || !Object.values<number>(EVENT_CODES).includes(error.code))
    return error
  return new ProtocolError(error.code + PROPOSED, error.message, error.data)
}

export function invalidParams(problem: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Invalid params: ${problem}`)
}

export function notFound(kind: 'event' | 'subscription'): ProtocolError {
  const text = kind === 'event' ? 'No such event type' : 'No such subscription'
  return new ProtocolError(EVENT_CODES.notFound, text, { kind })
}

/** @param reason the text of the policy for the client */
export function forbidden(reason = 'You are not allowed to receive these events.'): ProtocolError {
  return new ProtocolError(EVENT_CODES.forbidden, 'Forbidden', { reason })
}

export function exhausted(limit: string, max: number): ProtocolError {
  return new ProtocolError(EVENT_CODES.exhausted, `Too many ${limit}`, { limit, max })
}

export function unsupportedDelivery(value: string): ProtocolError {
  const text = `The event type does not offer the delivery ${value}`
  return new ProtocolError(EVENT_CODES.unsupported, text, { feature: 'deliveryMode', value })
}

export function callbackError(reason: WebhookError): ProtocolError {
  return new ProtocolError(EVENT_CODES.callback, 'The callback endpoint was not verified', { reason })
}

/** The error of a request or a stream while the store does not answer. It does not contain the cause, which may be secret. */
export function storeUnavailable(): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InternalError, 'The store of events is unavailable')
}
