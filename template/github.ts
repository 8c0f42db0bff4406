import { github, type SignInClaims, type SignInProvider } from 'mcp-gatekit/authorization'

/** The environment variables that must be set to sign users in. */
export const SECRETS = ['GITHUB_CLIENT_ID', 'GITHUB_CLIENT_SECRET'] as const

export type Secrets = Readonly<Record<(typeof SECRETS)[number], string>>

/** The environment variable with the ids of the accounts that may sign in, separated by commas. */
export const ALLOW_LIST = 'ALLOWED_IDS'

/** Returns GitHub, or the GitHub Enterprise Server at `GITHUB_URL`, as the provider at which users sign in. */
export function createProvider({ GITHUB_CLIENT_ID, GITHUB_CLIENT_SECRET }: Secrets): SignInProvider {
  return github({
    clientId: GITHUB_CLIENT_ID,
    clientSecret: GITHUB_CLIENT_SECRET,
    baseUrl: process.env.GITHUB_URL || undefined,
  })
}

/**
 * Returns `true` if a user may sign in. `sub` is the id of the account, which never changes. A login can change, and GitHub then
 * gives the old one to anyone who asks for it.
 */
export function isAllowed({ sub }: SignInClaims, allowed: readonly string[]): boolean {
  return allowed.includes(sub)
}
