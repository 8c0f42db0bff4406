import { createHash, randomUUID } from 'node:crypto'
import { tryOrUndefined } from '../base/try-or-undefined.ts'

/** The claims in which a refreshed token differs (RFC 7519 §4.1, OpenID Connect Core §2). */
const PASSING: ReadonlySet<string> = new Set(['exp', 'iat', 'nbf', 'jti', 'auth_time'])

/** The maximum size of a value that is compared: its values, and the characters of its strings and names. */
const MAX_SIZE = 1_048_576

/** The maximum length of the result. Longer JSON is hashed. */
const MAX_LENGTH = 4_096

/**
 * Returns a string that is equal for two values if their JSON is equal without `exp`, `iat`, `nbf`, `jti`, and `auth_time` at
 * any depth, and without regard to the order of members. The entries of a `Map` and of a `Set` count, too. A value that JSON
 * cannot express, or that is too large, equals no value, not even itself.
 * @param isExact `true` if a number that `JSON.parse` may have rounded equals no number.
 */
export function lastingClaims(value: unknown, isExact = false): string {
  let size = 0
  const json = tryOrUndefined(() =>
    JSON.stringify(value ?? null, (name, one: unknown) => {
      size += 1 + name.length + (typeof one === 'string' ? one.length : 0)
      if (size > MAX_SIZE) throw new RangeError('The value is too large')
      if (isExact && typeof one === 'number' && Math.abs(one) > Number.MAX_SAFE_INTEGER)
        throw new RangeError('The number may have been rounded')
      return lasting(one)
    }),
  )
  if (json === undefined) return `different ${randomUUID()}`
  return json.length <= MAX_LENGTH ? json : `sha256 ${createHash('sha256').update(json).digest('base64url')}`
}

function lasting(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  if (value instanceof Map || value instanceof Set) return [...value]
  const names = Object.keys(value).filter((name) => !PASSING.has(name))
  return Object.fromEntries(names.sort().map((name) => [name, (value as Record<string, unknown>)[name]]))
}
