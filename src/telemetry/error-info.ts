import { types } from 'node:util'
import type { TelemetryErrorInfo } from './envelope.ts'

/** How many causes of an error are told. */
const MAX_CAUSES = 16

/** Whether `value` is an error, also one of another realm. */
export function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

/** An error as text: `{ name, message, code?, stack? }`, the stacks of its `cause` chain folded into `stack`. */
export function describeError(error: Error): TelemetryErrorInfo {
  const name = typeof error.name === 'string' && error.name !== '' ? error.name : 'Error'
  const message = String(error.message)
  const { code } = error as { code?: unknown }
  const causes = describeCauses(error)
  const stack = typeof error.stack === 'string' ? error.stack : undefined
  const info: { name: string; message: string; code?: string; stack?: string } = { name, message }
  if (typeof code === 'string' || typeof code === 'number') info.code = String(code)
  if (stack !== undefined || causes !== '') info.stack = (stack ?? `${name}: ${message}`) + causes
  return info
}

function describeCauses(error: Error): string {
  const seen = new Set<unknown>([error])
  let text = ''
  let cause: unknown = error.cause
  while (cause !== undefined && cause !== null && seen.size <= MAX_CAUSES) {
    if (seen.has(cause)) return `${text}\nCaused by: [Circular]`
    seen.add(cause)
    text += `\nCaused by: ${describeCause(cause)}`
    cause = isError(cause) ? cause.cause : undefined
  }
  return text
}

/** A cause that is no error tells its type only: what it holds has not been redacted. */
function describeCause(cause: unknown): string {
  if (isError(cause)) return typeof cause.stack === 'string' ? cause.stack : `${cause.name}: ${cause.message}`
  return typeof cause === 'object' || typeof cause === 'function' ? `[${typeof cause}]` : String(cause)
}
