import { google, type SignInClaims, type SignInProvider } from 'mcp-gatekit/authorization'

/** The environment variables that must be set to sign users in. */
export const SECRETS = ['GOOGLE_CLIENT_ID', 'GOOGLE_CLIENT_SECRET'] as const

export type Secrets = Readonly<Record<(typeof SECRETS)[number], string>>

/** The environment variable with the e-mail addresses that may sign in, separated by commas. */
export const ALLOW_LIST = 'ALLOWED_EMAILS'

/** Returns Google as the provider at which users sign in. */
export function createProvider({ GOOGLE_CLIENT_ID, GOOGLE_CLIENT_SECRET }: Secrets): SignInProvider {
  return google({ clientId: GOOGLE_CLIENT_ID, clientSecret: GOOGLE_CLIENT_SECRET })
}

/**
 * Returns `true` if a user may sign in. Google is responsible for addresses of gmail.com and of Google Workspace (`hd`). The
 * address of any other account may belong to another person by now.
 */
export function isAllowed(
  { email, email_verified: isVerified, hd }: SignInClaims,
  allowed: readonly string[],
): boolean {
  if (typeof email !== 'string' || isVerified !== true) return false
  const address = email.toLowerCase()
  return (address.endsWith('@gmail.com') || typeof hd === 'string') && allowed.includes(address)
}
