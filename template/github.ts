import { github, type SignInClaims, type SignInProvider } from 'mcp-gatekit/authorization'

/** The environment variables that must be set to sign users in. */
export const SECRETS = ['GITHUB_CLIENT_ID', 'GITHUB_CLIENT_SECRET'] as const

export type Secrets = Readonly<Record<(typeof SECRETS)[number], string>>

/** The environment variable with the logins that may sign in, separated by commas. */
export const ALLOW_LIST = 'ALLOWED_LOGINS'

/** Returns GitHub, or the GitHub Enterprise Server at `GITHUB_URL`, as the provider at which users sign in. */
export function createProvider({ GITHUB_CLIENT_ID, GITHUB_CLIENT_SECRET }: Secrets): SignInProvider {
  return github({
    clientId: GITHUB_CLIENT_ID,
    clientSecret: GITHUB_CLIENT_SECRET,
    baseUrl: process.env.GITHUB_URL || undefined,
  })
}

/**
 * Returns `true` if a user may sign in. A user who changes the login releases the old one for others: remove logins that are
 * not in use any more, or compare `claims.sub`, the id of the account, which never changes.
 */
export function isAllowed({ login }: SignInClaims, allowed: readonly string[]): boolean {
  return typeof login === 'string' && allowed.includes(login.toLowerCase())
}
