import { isRecord } from '../options/value-kinds.ts'

/** Returns the claims of a JWT without verifying it, or `undefined` for another value. */
export function jwtClaims(jwt: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof jwt !== 'string' || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(jwt)) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(jwt.split('.')[1] as string, 'base64url').toString('utf8'))
    return isRecord(claims) ? claims : undefined
  } catch {
    return undefined
  }
}
