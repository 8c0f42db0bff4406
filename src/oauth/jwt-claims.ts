import { isRecord } from '../base/options/value-kinds.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'

/** Returns the claims of a JWT without verifying it, or `undefined` for another value. */
export function jwtClaims(jwt: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof jwt !== 'string' || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(jwt)) return undefined
  const [, payload = ''] = jwt.split('.')
  const claims = tryOrUndefined((): unknown => JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')))
  return isRecord(claims) ? claims : undefined
}
