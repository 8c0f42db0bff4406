import type { OAuthOptions, VerifyToken } from '../../../src/oauth/options.ts'

/**
 * Returns a token that contains its own claims.
 * @param others further members of the user
 * @param act the party that acts for the user
 */
export function token(
  user: string,
  scopes: readonly string[] = [],
  client = 'web',
  others?: Readonly<Record<string, unknown>>,
  act?: object,
): string {
  return Buffer.from(JSON.stringify({ user, client, scopes, others, act })).toString('base64url')
}

const verifyToken: VerifyToken = ({ bearerToken }) => {
  if (bearerToken === undefined) return undefined
  const { user, client, scopes, others, act } = JSON.parse(Buffer.from(bearerToken, 'base64url').toString())
  return { valid: true, user: { id: user, ...others }, clientId: client, scopes, act }
}

/** OAuth options that accept such tokens. */
export function spokenOAuth(options: Partial<OAuthOptions> = {}): OAuthOptions {
  return {
    issuer: 'https://auth.example.com',
    resource: 'https://mcp.example.com/mcp',
    verifyToken,
    ...options,
  }
}
