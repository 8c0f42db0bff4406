import { z } from 'zod'
import { KitMcpRouter, type OAuthOptions, type VerifiedToken } from '../../../src/index.ts'

export const RESOURCE = 'https://mcp.example.com/mcp'
export const METADATA = 'https://mcp.example.com/.well-known/oauth-protected-resource'

/** Tokens by name, and what each may do. */
const TOKENS: Readonly<Record<string, VerifiedToken>> = {
  reader: { valid: true, user: { id: 'u1' }, scopes: ['mcp:read'] },
  writer: { valid: true, user: { id: 'u2' }, scopes: ['mcp:read', 'mcp:write'] },
  admin: { valid: true, user: { id: 'u3' }, scopes: ['mcp:read', 'mcp:write', 'mcp:admin'] },
  stranger: { valid: true, user: { id: 'u4' }, scopes: [] },
}

/** OAuth with the tokens `reader`, `writer`, `admin` and `stranger`; every request needs `mcp:read`. */
export function oauth(options: Partial<OAuthOptions> = {}): OAuthOptions {
  return {
    issuer: 'https://auth.example.com',
    resource: RESOURCE,
    scopes: ['mcp:read'],
    verifyToken: ({ bearerToken }) => (bearerToken === undefined ? undefined : TOKENS[bearerToken]),
    ...options,
  }
}

/** A small server: one open tool, one for writers, one for admins. */
export const notes: KitMcpRouter<{ user?: unknown }> = KitMcpRouter.create()
  .context((): { user?: unknown } => ({}))
  .tool(
    'echo',
    { description: 'Says it again', input: z.object({ text: z.string() }) },
    ({ text }) => `you said ${text}`,
  )
  .tool(
    'write',
    { description: 'Writes a note', input: z.object({ text: z.string() }), scopes: ['mcp:write'] },
    ({ text }) => `wrote ${text}`,
  )
  .tool('wipe', { description: 'Removes all notes', scopes: ['mcp:write', 'mcp:admin'] }, () => 'wiped')
