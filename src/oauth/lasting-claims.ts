import { createHash, randomUUID } from 'node:crypto'
import { isRecord } from '../options/value-kinds.ts'

/** The claims that differ between two tokens for the same access (RFC 7519 section 4.1, OpenID Connect Core section 2). */
const PASSING: ReadonlySet<string> = new Set(['exp', 'iat', 'nbf', 'jti', 'auth_time'])

/** The maximum length of the result. Longer JSON is hashed. */
const MAX_LENGTH = 4_096

/**
 * Returns a string that is equal for two values if their JSON is equal without `exp`, `iat`, `nbf`, `jti`, and `auth_time` at
 * any depth, and without regard to the order of members. A value that JSON cannot express, or with a number that `JSON.parse`
 * rounds, equals no other value, not even itself.
 */
export function lastingClaims(value: unknown): string {
  let json: string
  try {
    json = JSON.stringify(value, lastingMembers) ?? ''
  } catch {
    return `different ${randomUUID()}`
  }
  return json.length <= MAX_LENGTH ? json : `sha256 ${createHash('sha256').update(json).digest('base64url')}`
}

function lastingMembers(_name: string, value: unknown): unknown {
  if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER)
    throw new RangeError('the number may have been rounded')
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !PASSING.has(name))
      .sort(([one], [another]) => (one < another ? -1 : 1)),
  )
}
