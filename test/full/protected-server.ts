import { createServer, type RequestListener } from 'node:http'
import express from 'express'
import {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  startAuthorizationServer,
} from '../../examples/authorization-server.ts'
import { listen, stop } from '../../examples/listen.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { jwtVerifier, mcpAuth, mcpCors, mcpHandler, type OAuthOptions } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter, type RouterOption } from '../../src/mcp/adapter.ts'
import type { McpAdapterOptions } from '../../src/mcp/options.ts'

export interface ProtectedServerOptions {
  readonly router: RouterOption
  readonly options?: McpAdapterOptions
  /** Options in addition to issuer, resource, and verifier. `scopes` defaults to `mcp:read`. */
  readonly oauth?: Partial<OAuthOptions<any, any>>
  readonly authorization?: Partial<AuthorizationServerOptions>
}

/** An MCP server on Express, and the authorization server that issues its tokens. */
export interface ProtectedServer {
  /** The URL of the MCP route, which is the audience of its tokens. */
  readonly resource: string
  readonly authorization: AuthorizationServer
  readonly adapter: McpAdapter
  close(): Promise<void>
}

export async function startProtectedServer(given: ProtectedServerOptions): Promise<ProtectedServer> {
  // The port is part of the identity of the server, so the server listens first.
  const http = createServer()
  const resource = `http://127.0.0.1:${await listen(http, 0)}/mcp`
  const authorization = await startAuthorizationServer({
    resources: [resource],
    scopes: ['mcp:read', 'mcp:write'],
    ...given.authorization,
  })
  const { issuer, jwksUri } = authorization
  const adapter = createMcpAdapter({
    router: given.router,
    oauth: {
      issuer,
      resource,
      scopes: ['mcp:read'],
      verifyToken: jwtVerifier({ issuer, jwksUri, audience: resource, strict: true }),
      ...given.oauth,
    },
    ...given.options,
  })
  const app = express()
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  app.use(protectedResourceRouter(adapter))
  http.on('request', app as RequestListener)
  return {
    resource,
    authorization,
    adapter,
    async close() {
      await stop(http)
      await authorization.close()
    },
  }
}
