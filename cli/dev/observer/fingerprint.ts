import { createHmac } from 'node:crypto'

/**
 * Returns a name for a token, by which requests with the same token are recognized. The token cannot be derived from it.
 * @param key a secret that changes at every start
 */
export function fingerprintOf(key: string, token: string): string {
  return createHmac('sha256', key).update(token).digest('hex').slice(0, 16)
}
