import { types } from './built-in-kinds.ts'
import { cutText } from './cut-text.ts'
import { memberOf } from './options/describe-value.ts'
import { tryOrUndefined } from './try-or-undefined.ts'

/** An error as strings. */
export interface ErrorTexts {
  readonly name: string
  readonly message: string
  readonly code?: string
  /** The stack, including the stacks of its causes. */
  readonly stack?: string
  /** The other members of the error itself that are strings, numbers, or booleans. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>>
}

/** The error itself, one of its causes, or an error of an `AggregateError`. Together they are the stack. */
export interface ErrorLink {
  /** The index of the error that it belongs to. */
  readonly parent: number
  readonly isError: boolean
  /** `false` for one of the `errors` of its parent. */
  readonly isCause: boolean
  readonly name: string
  readonly message: string
  /** The part of the stack before its frames. */
  readonly head: string
  /** The frames, each after a line break. */
  readonly frames: string
}

/** The maximum number of causes and aggregated errors that are described: the first ones, and the last one. */
const MAX_CAUSES = 16

/** The maximum number of causes and aggregated errors that are read. */
const MAX_READ = 100

/** The length of a stack from which on further causes are left out, in UTF-16 units. */
const MAX_STACK = 1_048_576

/** The maximum length of a name or a code, in UTF-16 units. */
const MAX_NAME = 256

/** The maximum number of further members that are read. */
const MAX_ATTRIBUTES = 20

const CAUSED_BY = 'Caused by'

/** The beginning of a frame in a stack. */
const FRAME = '\n    at '

/** The members that are not among the attributes. */
const MEMBERS = ['name', 'message', 'code', 'stack']

const LINKS = new WeakMap<object, readonly ErrorLink[]>()

/** Returns the errors of which the stack of a described error consists, if they are known. */
export function linksOf(described: object): readonly ErrorLink[] | undefined {
  return LINKS.get(described)
}

/** Keeps the errors of which the stack of a described error consists. */
export function keepLinks<Described extends object>(
  described: Described,
  links: readonly ErrorLink[],
): Described {
  LINKS.set(described, links)
  return described
}

/** Transforms each string of an error, for example to remove secrets. */
type Read = (text: string) => string

/** Returns `true` if `value` is an error, including one of another realm. Never throws. */
export function isError(value: unknown): value is Error {
  // Reading the prototype of a revoked proxy throws.
  return tryOrUndefined(() => types.isNativeError(value) || value instanceof Error) === true
}

/**
 * Describes a thrown value of any type, such as a string, an object, or a proxy. Never throws. `stack` includes the stacks of the
 * `cause` chain, and of the `errors` of an `AggregateError`. Members that throw when they are read are left out.
 * @param read transforms each string.
 * @param contentOf returns the content of an object without a message as a string.
 */
export function describeThrown(
  thrown: unknown,
  read: Read = (text) => text,
  contentOf: (thrown: object) => string | undefined = () => undefined,
): ErrorTexts {
  if (typeof thrown !== 'function' && (typeof thrown !== 'object' || thrown === null))
    return { name: 'Error', message: read(String(thrown)) }
  const name = nameOf(thrown, read)
  const own = memberOf(thrown, 'message') ?? undefined
  const content = (): string => (isError(thrown) ? '' : (contentOf(thrown) ?? kindOf(thrown)))
  const message = read((own === undefined ? undefined : textOf(own)) ?? content())
  const code = memberOf(thrown, 'code')
  const stack = stackOf(thrown, read)
  const attributes = attributesOf(thrown, read)
  const links = describeCauses(thrown, linkOf(thrown, '', 0, name, message, stack), read)
  const hasStack = stack !== undefined || links.length > 1
  const isCode = typeof code === 'string' || typeof code === 'number'
  const described = {
    name,
    message,
    ...(isCode && { code: cutText(read(String(code)), MAX_NAME) }),
    ...(hasStack && { stack: links.map(({ head, frames }) => head + frames).join('') }),
    ...(attributes !== undefined && { attributes }),
  }
  return keepLinks(described, hasStack ? links : [])
}

function attributesOf(error: object, read: Read): Record<string, string | number | boolean> | undefined {
  const found: [string, string | number | boolean][] = []
  for (const key of tryOrUndefined(() => Object.keys(error)) ?? []) {
    if (MEMBERS.includes(key)) continue
    const value = memberOf(error, key)
    if (typeof value === 'string' || typeof value === 'bigint') found.push([key, read(String(value))])
    else if (typeof value === 'number' || typeof value === 'boolean') found.push([key, value])
    if (found.length === MAX_ATTRIBUTES) break
  }
  return found.length === 0 ? undefined : Object.fromEntries(found)
}

/** An error that led to another one. */
interface Cause {
  readonly label: string
  readonly thrown: unknown
  readonly parent: number
}

function describeCauses(error: object, own: ErrorLink, read: Read): ErrorLink[] {
  const seen = new Set<unknown>([error])
  const links = [own]
  const waiting = causesOf(error, 0)
  let length = own.frames.length
  for (let left = MAX_READ; left > 0 && length < MAX_STACK; left--) {
    const cause = waiting.shift()
    if (cause === undefined) break
    if (links.length > MAX_CAUSES) links.pop()
    const link = describeCause(cause, seen, read)
    length += link.head.length + link.frames.length
    links.push(link)
    if (link.isError) waiting.unshift(...causesOf(cause.thrown as object, links.length - 1))
    seen.add(cause.thrown)
  }
  return links
}

/** Returns the cause of an error, and the errors of an `AggregateError`. */
function causesOf(error: object, parent: number): Cause[] {
  const causes: Cause[] = []
  const cause = memberOf(error, 'cause')
  if (cause !== undefined && cause !== null) causes.push({ label: CAUSED_BY, thrown: cause, parent })
  const errors = memberOf(error, 'errors')
  if (tryOrUndefined(() => Array.isArray(errors)) !== true) return causes
  const length = memberOf(errors as object, 'length')
  const count = typeof length === 'number' ? length : 0
  for (let index = 0; index < Math.min(count, MAX_CAUSES); index++) {
    const aggregated = memberOf(errors as object, String(index))
    causes.push({ label: `Error ${index + 1} of ${count}`, thrown: aggregated, parent })
  }
  return causes
}

/** Describes a cause. If it is an object that is not an error, only its type is shown, because its content is not redacted. */
function describeCause({ label, thrown, parent }: Cause, seen: ReadonlySet<unknown>, read: Read): ErrorLink {
  const isObject = typeof thrown === 'object' || typeof thrown === 'function'
  if (isError(thrown) && !seen.has(thrown)) {
    const message = read(textOf(memberOf(thrown, 'message') ?? '') ?? '')
    return linkOf(thrown, label, parent, nameOf(thrown, read), message, stackOf(thrown, read))
  }
  const message = !isObject ? read(String(thrown)) : seen.has(thrown) ? '[Circular]' : kindOf(thrown)
  return linkOf(undefined, label, parent, '', message, message)
}

function linkOf(
  error: object | undefined,
  label: string,
  parent: number,
  name: string,
  message: string,
  stack = `${name}: ${message}`,
): ErrorLink {
  const start = stack.indexOf(': ') + 2
  const frames = stack.indexOf(FRAME, stack.startsWith(message, start) ? start + message.length : 0)
  const end = frames === -1 || error === undefined ? stack.length : frames
  return {
    parent,
    isError: isError(error),
    isCause: label === CAUSED_BY,
    name,
    message,
    head: (label === '' ? '' : `\n${label}: `) + stack.slice(0, end),
    frames: stack.slice(end),
  }
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
  return tryOrUndefined(() => String(value))
}

function kindOf(value: unknown): string {
  return `[${typeof value}]`
}
