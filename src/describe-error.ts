import { types } from 'node:util'
import { cutText } from './cut-text.ts'
import { memberOf } from './options/describe-value.ts'

/** An error as text. */
export interface ErrorTexts {
  readonly name: string
  readonly message: string
  readonly code?: string
  /** The stack, with the stacks of its causes folded in. */
  readonly stack?: string
}

/** The maximum number of causes and aggregated errors that are read. */
const MAX_CAUSES = 16

/** The length from which on no further cause is added to a stack, in UTF-16 units. */
const MAX_STACK = 1_048_576

/** The maximum length of a name or a code, in UTF-16 units. */
const MAX_NAME = 256

/** Transforms each string that was read, for example to take secrets out of it. */
type Read = (text: string) => string

const asItIs: Read = (text) => text

/** Returns `true` if `value` is an error, including one of another realm. Never throws. */
export function isError(value: unknown): value is Error {
  try {
    return types.isNativeError(value) || value instanceof Error
  } catch {
    // A revoked proxy has no prototype that could be read.
    return false
  }
}

/**
 * Describes an error as text: `{ name, message, code?, stack? }`. The stacks of its `cause` chain, and of the `errors`
 * of an `AggregateError`, are folded into `stack`. Members that throw when they are read count as absent.
 */
export function describeError(error: object, read: Read = asItIs): ErrorTexts {
  return describeObject(error, read, () => '')
}

/**
 * Describes whatever was thrown, which may be anything: a string, an object, a proxy. Never throws.
 * @param read transforms each string.
 * @param contentOf returns what an object holds, as text, for objects without a message of their own.
 */
export function describeThrown(
  thrown: unknown,
  read: Read,
  contentOf: (thrown: object) => string | undefined,
): ErrorTexts {
  if (typeof thrown !== 'function' && (typeof thrown !== 'object' || thrown === null))
    return { name: 'Error', message: read(String(thrown)) }
  const content = isError(thrown) ? () => '' : (object: object) => contentOf(object) ?? kindOf(object)
  return describeObject(thrown, read, content)
}

function describeObject(error: object, read: Read, contentOf: (error: object) => string): ErrorTexts {
  const name = nameOf(error, read)
  const given = memberOf(error, 'message') ?? undefined
  const message = read((given === undefined ? undefined : textOf(given)) ?? contentOf(error))
  const code = memberOf(error, 'code')
  const causes = describeCauses(error, read)
  const stack = stackOf(error, read)
  return {
    name,
    message,
    ...((typeof code === 'string' || typeof code === 'number') && {
      code: cutText(read(String(code)), MAX_NAME),
    }),
    ...((stack !== undefined || causes !== '') && { stack: (stack ?? `${name}: ${message}`) + causes }),
  }
}

/** One error that led to another one. */
interface Cause {
  readonly label: string
  readonly thrown: unknown
}

function describeCauses(error: object, read: Read): string {
  const seen = new Set<unknown>([error])
  const waiting = causesOf(error)
  let text = ''
  for (let left = MAX_CAUSES; left > 0 && text.length < MAX_STACK; left--) {
    const cause = waiting.shift()
    if (cause === undefined) break
    const { label, thrown } = cause
    const isObject = typeof thrown === 'object' || typeof thrown === 'function'
    text += `\n${label}: ${isObject && seen.has(thrown) ? '[Circular]' : describeCause(thrown, read)}`
    if (!isError(thrown) || seen.has(thrown)) continue
    seen.add(thrown)
    waiting.unshift(...causesOf(thrown))
  }
  return text
}

/** The cause of an error, and the errors that an `AggregateError` holds. */
function causesOf(error: object): Cause[] {
  const causes: Cause[] = []
  const cause = memberOf(error, 'cause')
  if (cause !== undefined && cause !== null) causes.push({ label: 'Caused by', thrown: cause })
  const errors = memberOf(error, 'errors')
  if (!isArray(errors)) return causes
  const length = memberOf(errors, 'length')
  const count = typeof length === 'number' ? length : 0
  for (let index = 0; index < Math.min(count, MAX_CAUSES); index++)
    causes.push({ label: `Error ${index + 1} of ${count}`, thrown: memberOf(errors, String(index)) })
  return causes
}

/** Of a cause that is not an error only the kind is shown, because nothing redacts what it holds. */
function describeCause(cause: unknown, read: Read): string {
  if (isError(cause))
    return (
      stackOf(cause, read) ??
      `${nameOf(cause, read)}: ${read(textOf(memberOf(cause, 'message') ?? '') ?? '')}`
    )
  return typeof cause === 'object' || typeof cause === 'function' ? kindOf(cause) : read(String(cause))
}

function nameOf(error: object, read: Read): string {
  const name = memberOf(error, 'name')
  return typeof name === 'string' && name !== '' ? cutText(read(name), MAX_NAME) : 'Error'
}

function stackOf(error: object, read: Read): string | undefined {
  const stack = memberOf(error, 'stack')
  return typeof stack === 'string' ? read(stack) : undefined
}

/** Returns `undefined` for an object without a string form. */
function textOf(value: unknown): string | undefined {
  try {
    return String(value)
  } catch {
    return undefined
  }
}

function kindOf(value: unknown): string {
  return `[${typeof value}]`
}

function isArray(value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}
