import { types } from 'node:util'
import { memberOf } from '../given.ts'
import type { TelemetryErrorInfo } from './envelope.ts'

/** How many causes of an error are told. */
const MAX_CAUSES = 16

/** Whether `value` is an error, also one of another realm. */
export function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

/** An error as text: `{ name, message, code?, stack? }`, the stacks of its `cause` chain folded into `stack`. */
export function describeError(error: Error): TelemetryErrorInfo {
  const name = nameOf(error)
  const message = String(memberOf(error, 'message') ?? '')
  const code = memberOf(error, 'code')
  const causes = describeCauses(error)
  const stack = stackOf(error)
  const info: { name: string; message: string; code?: string; stack?: string } = { name, message }
  if (typeof code === 'string' || typeof code === 'number') info.code = String(code)
  if (stack !== undefined || causes !== '') info.stack = (stack ?? `${name}: ${message}`) + causes
  return info
}

function describeCauses(error: Error): string {
  const seen = new Set<unknown>([error])
  let text = ''
  let cause = memberOf(error, 'cause')
  while (cause !== undefined && cause !== null && seen.size <= MAX_CAUSES) {
    if (seen.has(cause)) return `${text}\nCaused by: [Circular]`
    seen.add(cause)
    text += `\nCaused by: ${describeCause(cause)}`
    cause = isError(cause) ? memberOf(cause, 'cause') : undefined
  }
  return text
}

/** A cause that is no error tells its type only: what it holds has not been redacted. */
function describeCause(cause: unknown): string {
  if (isError(cause)) return stackOf(cause) ?? `${nameOf(cause)}: ${String(memberOf(cause, 'message') ?? '')}`
  return typeof cause === 'object' || typeof cause === 'function' ? `[${typeof cause}]` : String(cause)
}

function nameOf(error: Error): string {
  const name = memberOf(error, 'name')
  return typeof name === 'string' && name !== '' ? name : 'Error'
}

function stackOf(error: Error): string | undefined {
  const stack = memberOf(error, 'stack')
  return typeof stack === 'string' ? stack : undefined
}
