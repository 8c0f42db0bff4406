import { createHash } from 'node:crypto'
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { isRecord } from '../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { EventDelivery, EventEntry } from '../router/event.ts'
import type { RouterTable } from '../router/router-table.ts'
import { validate } from '../router/schemas/json-schema.ts'
import { canonicalJson, plainCopy } from '../wire/json-safe.ts'
import type { WebhookError } from './store.ts'

/** The parameters of a request, which are not checked. */
export type Params = Readonly<Record<string, unknown>>

/** The maximum length of the arguments of a subscription as JSON, in characters. */
const MAX_ARGUMENTS = 16_384

/** Returns the event type that a request names, with the validated arguments. @throws {ProtocolError} if there is none. */
export async function namedEvent(
  table: RouterTable,
  params: Params,
  way: EventDelivery,
): Promise<{ readonly entry: EventEntry; readonly args: Readonly<Record<string, unknown>> }> {
  const { name } = params
  if (typeof name !== 'string') throw invalidParams('name must be a string')
  const entry = table.events.get(name)
  if (entry === undefined) throw notFound('event')
  if (!entry.delivery.has(way)) throw unsupportedDelivery(way === 'stream' ? 'push' : way)
  givenArguments(params)
  const validation =
    entry.input === undefined ? { value: {} } : await validate(entry.input, params.arguments ?? {})
  if ('problem' in validation) throw invalidParams(validation.problem)
  // What is kept must be what is judged.
  const args = tryOrUndefined(() => plainCopy(validation.value))
  if (!isRecord(args)) throw invalidParams('arguments must be an object')
  return { entry, args }
}

/** Returns the arguments of a request in canonical form. */
export function givenArguments({ arguments: given = {} }: Params): string {
  if (!isRecord(given)) throw invalidParams('arguments must be an object')
  const text = canonicalJson(given)
  if (text.length <= MAX_ARGUMENTS) return text
  throw invalidParams(`arguments must have at most ${MAX_ARGUMENTS} characters as JSON`)
}

/**
 * Returns the id of a subscription (SEP-3415, "Subscription Identity"): the same for the same owner, URL, name, and arguments as the
 * client has sent them. It permits nothing.
 */
export function subscriptionId(owner: string, url: string, params: Params): string {
  const key = canonicalJson([owner, url, params.name, givenArguments(params)])
  return `sub_${createHash('sha256').update(key).digest('hex').slice(0, 32)}`
}

/** Returns a whole number, or undefined if it is absent or `null`. @throws {ProtocolError} -32602 for any other value. */
export function wholeNumberOf(params: Params, member: string, min: number): number | undefined {
  const value = params[member]
  if (value === undefined || value === null) return undefined
  if (Number.isSafeInteger(value) && (value as number) >= min) return value as number
  throw invalidParams(`${member} must be a whole number of at least ${min}`)
}

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
