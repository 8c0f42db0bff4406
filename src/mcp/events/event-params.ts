import { createHash } from 'node:crypto'
import { isRecord } from '../../options/value-kinds.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import type { EventEntry } from '../router/event.ts'
import type { EventDelivery } from '../router/event-config.ts'
import { validate } from '../router/json-schema.ts'
import type { RouterTable } from '../router/router-table.ts'
import { canonicalJson } from '../wire/canonical-json.ts'
import { plainCopy } from '../wire/json-safe.ts'
import { invalidParams, notFound, unsupportedDelivery } from './event-errors.ts'

/** The parameters of a request, which are not checked. */
export type Params = Readonly<Record<string, unknown>>

/** The maximum length of the arguments of a subscription as JSON, in characters. */
const MAX_ARGUMENTS = 16_384

/** The subscription that a request names. */
export interface NamedSubscription {
  readonly entry: EventEntry
  readonly name: string
  /** The arguments as the client has sent them, in canonical form. They identify the subscription. */
  readonly given: string
  /** The validated arguments. */
  readonly args: Readonly<Record<string, unknown>>
}

/** Returns the subscription that a request names. @throws {ProtocolError} if it cannot exist. */
export async function namedSubscription(
  table: RouterTable,
  params: Params,
  way: EventDelivery,
): Promise<NamedSubscription> {
  const { name } = params
  if (typeof name !== 'string') throw invalidParams('name must be a string')
  const entry = table.events.get(name)
  if (entry === undefined) throw notFound('event')
  if (!entry.delivery.has(way)) throw unsupportedDelivery(way === 'stream' ? 'push' : way)
  const given = givenArguments(params)
  const validation =
    entry.input === undefined ? { value: {} } : await validate(entry.input, params.arguments ?? {})
  if ('problem' in validation) throw invalidParams(validation.problem)
  // What is kept must be what is judged.
  const args = tryOrUndefined(() => plainCopy(validation.value))
  if (!isRecord(args)) throw invalidParams('arguments must be an object')
  return { entry, name, given, args }
}

/** Returns the arguments of a request in canonical form. */
export function givenArguments({ arguments: given = {} }: Params): string {
  if (!isRecord(given)) throw invalidParams('arguments must be an object')
  const text = canonicalJson(given)
  if (text.length <= MAX_ARGUMENTS) return text
  throw invalidParams(`arguments must have at most ${MAX_ARGUMENTS} characters as JSON`)
}

/**
 * Returns the id of a subscription (SEP-3415, "Subscription Identity"): the same for the same owner, URL, name, and arguments. It
 * permits nothing.
 */
export function subscriptionId(owner: string, url: string, name: string, given: string): string {
  const key = canonicalJson([owner, url, name, given])
  return `sub_${createHash('sha256').update(key).digest('hex').slice(0, 32)}`
}

/** Returns a whole number, or undefined if it is absent or `null`. @throws {ProtocolError} -32602 for any other value. */
export function wholeNumberOf(params: Params, member: string, min: number): number | undefined {
  const value = params[member]
  if (value === undefined || value === null) return undefined
  if (Number.isSafeInteger(value) && (value as number) >= min) return value as number
  throw invalidParams(`${member} must be a whole number of at least ${min}`)
}
