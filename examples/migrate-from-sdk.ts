import {
  mcpAuthMetadataRouter,
  type OAuthTokenVerifier,
  requireBearerAuth,
} from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  type AuthInfo,
  createMcpHandler,
  McpServer,
  OAuthError,
  OAuthErrorCode,
} from '@modelcontextprotocol/server'
import express, { type Express } from 'express'
import { mcpAuth, type OAuthOptions, protectedResourceRouter } from 'mcp-gatekit'

export interface MigrationOptions {
  readonly issuer: string
  /** This server's own URL, as clients use it. */
  readonly resource: string
  /** Who has a token, wherever you look that up; undefined for a token that is none. */
  readonly lookUp: (token: string) => Promise<KnownToken | undefined>
}

export interface KnownToken {
  readonly clientId: string
  readonly scopes: string[]
  /** Seconds since 1970. */
  readonly expiresAt: number
}

/** The MCP server itself stays as it is: both gates leave `req.auth`, which is where it looks. */
function whoami(): McpServer {
  const server = new McpServer({ name: 'whoami', version: '1.0.0' })
  server.registerTool('whoami', { description: 'Says who is calling' }, ({ http }) => ({
    content: [{ type: 'text', text: http?.authInfo?.clientId ?? 'nobody' }],
  }))
  return server
}

/** With the middleware of the official SDK. */
export function before({ issuer, resource, lookUp }: MigrationOptions): Express {
  const verifier: OAuthTokenVerifier = {
    async verifyAccessToken(token): Promise<AuthInfo> {
      const known = await lookUp(token)
      if (known === undefined) throw new OAuthError(OAuthErrorCode.InvalidToken, 'The token is not known')
      return { token, ...known }
    },
  }
  const { origin, pathname } = new URL(resource)
  const gate = requireBearerAuth({
    verifier,
    requiredScopes: ['mcp:read'],
    resourceMetadataUrl: `${origin}/.well-known/oauth-protected-resource${pathname}`,
  })
  const metadata = mcpAuthMetadataRouter({
    // A whole document of the authorization server, though its issuer is all that is used for this resource.
    oauthMetadata: {
      issuer,
      authorization_endpoint: `${issuer}/auth`,
      token_endpoint: `${issuer}/token`,
      response_types_supported: ['code'],
    },
    resourceServerUrl: new URL(resource),
    scopesSupported: ['mcp:read'],
  })
  const serve = toNodeHandler(createMcpHandler(whoami))
  const app = express()
  app.use(metadata)
  app.use('/mcp', gate, (req, res) => void serve(req as Parameters<typeof serve>[0], res))
  return app
}

/** With this package, in front of the same server. */
export function after({ issuer, resource, lookUp }: MigrationOptions): Express {
  const oauth: OAuthOptions = {
    issuer,
    resource,
    scopes: ['mcp:read'],
    async verifyToken({ bearerToken }) {
      const known = bearerToken === undefined ? undefined : await lookUp(bearerToken)
      return known && { valid: true, ...known }
    },
  }
  const serve = toNodeHandler(createMcpHandler(whoami))
  const app = express()
  app.use(protectedResourceRouter(oauth))
  app.use('/mcp', mcpAuth(oauth), (req, res) => void serve(req as Parameters<typeof serve>[0], res))
  return app
}
