import type { OAuthOptions, VerifyToken } from '../../../src/oauth/options.ts'

/** Returns a token that contains its own claims. */
export function token(user: string, scopes: readonly string[] = [], client = 'web'): string {
  return Buffer.from(JSON.stringify({ user, client, scopes })).toString('base64url')
}

const verifyToken: VerifyToken = ({ bearerToken }) => {
  if (bearerToken === undefined) return undefined
  const { user, client, scopes } = JSON.parse(Buffer.from(bearerToken, 'base64url').toString())
  return { valid: true, user: { id: user }, clientId: client, scopes }
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
