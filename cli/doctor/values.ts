import { isLoopbackHostname } from '../../src/base/options/option-checks.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Returns a member of a value that may be an object, or a member of that member, and so on. */
export function memberOf(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce(
    (at, name) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? (at as JsonObject)[name] : undefined,
    value,
  )
}

/** Returns the entries of a member that may be an array. */
export function entriesOf(value: unknown, ...names: readonly string[]): readonly unknown[] {
  const entries = memberOf(value, ...names)
  return Array.isArray(entries) ? entries : []
}

/** Returns a member that is an array of strings, or `undefined` if it is not. */
export function textsOf(document: JsonObject | undefined, member: string): readonly string[] | undefined {
  const value = document?.[member]
  return Array.isArray(value) && value.every((entry): entry is string => typeof entry === 'string')
    ? value
    : undefined
}

/** Returns a URL, or `undefined` if the value is not a string with an absolute URL. */
export function urlOf(value: unknown): URL | undefined {
  return typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
}

/**
 * Describes the difference between two URLs that look alike, such as `only the slash at the end differs`. Returns `undefined`
 * if they differ in more than the scheme, the name of this machine, and the slash at the end.
 */
export function nearMiss(received: string, expected: string): string | undefined {
  if (received === expected || !URL.canParse(received) || !URL.canParse(expected)) return undefined
  const [one, other] = [new URL(received), new URL(expected)]
  const areLoopback = isLoopbackHostname(one.hostname) && isLoopbackHostname(other.hostname)
  if (one.hostname !== other.hostname && !areLoopback) return undefined
  const hasSamePort = one.port === other.port || one.protocol !== other.protocol
  if (!hasSamePort || one.search !== other.search) return undefined
  if (withoutSlash(one.pathname) !== withoutSlash(other.pathname)) return undefined
  const [scheme, wanted] = [one, other].map(({ protocol }) => protocol.slice(0, -1))
  const parts = [
    ...(one.protocol === other.protocol ? [] : [`the scheme (${scheme} against ${wanted})`]),
    ...(one.hostname === other.hostname ? [] : [`the host name (${one.hostname} against ${other.hostname})`]),
    ...(received.endsWith('/') === expected.endsWith('/') ? [] : ['the slash at the end']),
  ]
  if (parts.length === 0) return 'only the spelling differs'
  return `only ${parts.join(' and ')} ${parts.length === 1 ? 'differs' : 'differ'}`
}

/** Returns `true` if both are the same origin without a path, with or without a slash at the end. */
export function isSameOrigin(one: string, other: string): boolean {
  return URL.canParse(one) && withoutSlash(one) === withoutSlash(other) && new URL(one).pathname === '/'
}

/** Removes one slash at the end. */
export function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url
}
