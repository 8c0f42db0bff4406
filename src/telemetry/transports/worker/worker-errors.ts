import { isRecord } from '../../../options/value-kinds.ts'
import { KitTelemetryError } from '../../errors.ts'

/** The length up to which the strings of an error are kept. */
const MAX_TEXT = 10_000

/** Returns an error of the transport itself. */
export function workerFailure(type: string, reason: string): KitTelemetryError {
  return new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', `transport ${JSON.stringify(type)}: ${reason}`)
}

/** Returns the error of the events that failed because a worker stopped. Of the cause, only the code is shown. */
export function stopError(type: string, cause: Error | undefined): KitTelemetryError {
  if (KitTelemetryError.is(cause)) return cause
  const { name, code } = (cause ?? {}) as { name?: unknown; code?: unknown }
  const words = [name, code].filter((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word))
  const kind = words.length === 0 ? '' : ` (${words.join(' ')})`
  return new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport ${JSON.stringify(type)}: the worker stopped${kind} before the outcome of the event was known`,
    cause === undefined ? {} : { cause },
  )
}

/** Makes an error from the data that a worker has sent. */
export function readError(data: unknown): Error {
  const { name, message, code, stack, kitDetails } = isRecord(data) ? data : {}
  const text = textOf(message) ?? ''
  if (typeof kitDetails === 'string')
    return new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', text, { details: readDetails(kitDetails) })
  const error = new Error(text)
  error.name = textOf(name) ?? 'Error'
  const ownStack = textOf(stack)
  if (ownStack !== undefined) error.stack = ownStack
  return Object.assign(error, typeof code === 'string' && { code: textOf(code) })
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, MAX_TEXT) : undefined
}

function readDetails(json: string): Readonly<Record<string, unknown>> {
  try {
    const details: unknown = JSON.parse(json)
    return isRecord(details) ? details : {}
  } catch {
    return {}
  }
}
