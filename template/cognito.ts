import { cognito, type SignInClaims, type SignInProvider } from 'mcp-gatekit/authorization'

/** The environment variables that must be set to sign users in. */
export const SECRETS = ['COGNITO_USER_POOL_ID', 'COGNITO_CLIENT_ID', 'COGNITO_CLIENT_SECRET'] as const

export type Secrets = Readonly<Record<(typeof SECRETS)[number], string>>

/** The environment variable with the e-mail addresses that may sign in, separated by commas. */
export const ALLOW_LIST = 'ALLOWED_EMAILS'

/** Returns a user pool of Amazon Cognito as the provider at which users sign in. */
export function createProvider({
  COGNITO_USER_POOL_ID,
  COGNITO_CLIENT_ID,
  COGNITO_CLIENT_SECRET,
}: Secrets): SignInProvider {
  return cognito({
    userPoolId: COGNITO_USER_POOL_ID,
    clientId: COGNITO_CLIENT_ID,
    clientSecret: COGNITO_CLIENT_SECRET,
  })
}

/** Returns `true` if a user may sign in. Only addresses that the user pool has verified count. */
export function isAllowed(
  { email, email_verified: isVerified }: SignInClaims,
  allowed: readonly string[],
): boolean {
  return typeof email === 'string' && isVerified === true && allowed.includes(email.toLowerCase())
}
