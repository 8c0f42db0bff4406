import { entra, type SignInClaims, type SignInProvider } from 'mcp-gatekit/authorization'

/** The environment variables that must be set to sign users in. */
export const SECRETS = ['ENTRA_TENANT_ID', 'ENTRA_CLIENT_ID', 'ENTRA_CLIENT_SECRET'] as const

export type Secrets = Readonly<Record<(typeof SECRETS)[number], string>>

/** The environment variable with the object ids of the users who may sign in, separated by commas. */
export const ALLOW_LIST = 'ALLOWED_OBJECT_IDS'

/** Returns a tenant of Microsoft Entra ID as the provider at which users sign in. */
export function createProvider({
  ENTRA_TENANT_ID,
  ENTRA_CLIENT_ID,
  ENTRA_CLIENT_SECRET,
}: Secrets): SignInProvider {
  return entra({ tenantId: ENTRA_TENANT_ID, clientId: ENTRA_CLIENT_ID, clientSecret: ENTRA_CLIENT_SECRET })
}

/** Returns `true` if a user may sign in. E-mail addresses and user names can change, so that they must not decide. */
export function isAllowed({ oid }: SignInClaims, allowed: readonly string[]): boolean {
  return typeof oid === 'string' && allowed.includes(oid.toLowerCase())
}
