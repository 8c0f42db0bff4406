import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** Returns a new secret of 256 bits, in 43 characters of base64url. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Returns a secret of a cookie, or `undefined` if it does not have the form of one. */
export function secretIn(value: string | undefined): string | undefined {
  return value !== undefined && /^[\w-]{43}$/.test(value) ? value : undefined
}

/** Returns the SHA-256 of a secret, in base64url. */
export function hashOf(value: string): string {
  return createHash('sha256').update(value).digest('base64url')
}

/** Compares two secrets in constant time. */
export function isEqual(one: string | null | undefined, other: string): boolean {
  if (one === null || one === undefined) return false
  const [a, b] = [one, other].map((value) => createHash('sha256').update(value).digest())
  return timingSafeEqual(a as Buffer, b as Buffer)
}
