import { types } from './built-in-kinds.ts'
import { cutText } from './cut-text.ts'
import { memberOf } from './options/describe-value.ts'

/** An error as strings. */
export interface ErrorTexts {
  readonly name: string
  readonly message: string
  readonly code?: string
  /** The stack, including the stacks of its causes. */
  readonly stack?: string
}

/** The maximum number of causes and aggregated errors that are read. */
const MAX_CAUSES = 16

/** The length of a stack from which on further causes are left out, in UTF-16 units. */
const MAX_STACK = 1_048_576

/** The maximum length of a name or a code, in UTF-16 units. */
const MAX_NAME = 256

/** Transforms each string of an error, for example to remove secrets. */
type Read = (text: string) => string

const asItIs: Read = (text) => text

/** Returns `true` if `value` is an error, including one of another realm. Never throws. */
export function isError(value: unknown): value is Error {
  try {
    return types.isNativeError(value) || value instanceof Error
  } catch {
    // Reading the prototype of a revoked proxy throws.
    return false
  }
}

/**
 * Describes an error as strings: `{ name, message, code?, stack? }`. `stack` includes the stacks of the `cause` chain, and of
 * the `errors` of an `AggregateError`. Members that throw when they are read are left out.
 */
export function describeError(error: object, read: Read = asItIs): ErrorTexts {
  return describeObject(error, read, () => '')
}

/**
 * Describes a thrown value of any type, such as a string, an object, or a proxy. Never throws.
 * @param read transforms each string.
 * @param contentOf returns the content of an object without a message as a string.
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
  const own = memberOf(error, 'message') ?? undefined
  const message = read((own === undefined ? undefined : textOf(own)) ?? contentOf(error))
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

/** An error that led to another one. */
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

/** Returns the cause of an error, and the errors of an `AggregateError`. */
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

/** Describes a cause. If it is an object that is not an error, only its type is shown, because its content is not redacted. */
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
