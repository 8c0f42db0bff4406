import { randomUUID } from 'node:crypto'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express, { type Express } from 'express'
import {
  authOf,
  type JwtUser,
  type McpAuthOptions,
  mcpAuth,
  mcpCors,
  type OAuthOptions,
  protectedResourceRouter,
} from 'mcp-gatekit/gate'

/** A client that never ends its sessions must not keep the server from serving others. */
const MAX_SESSIONS_OF_USER = 20
const MAX_SESSIONS = 1_000

interface Session {
  /** The user who began the session. */
  readonly owner: string
  readonly transport: StreamableHTTPServerTransport
}

/**
 * Creates an application with a gate in front of SDK 1.x with sessions. The gate binds each session to
 * the user who has begun it, and the application limits the sessions of a user.
 * @param options such as `{ scopes: { tools: { wipe: ['mcp:admin'] } } }`
 */
export function createApp(
  oauth: OAuthOptions<JwtUser>,
  createServer: () => McpServer,
  options: McpAuthOptions = {},
): Express {
  const sessions = new Map<string, Session>()

  async function begin(owner: string): Promise<StreamableHTTPServerTransport> {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      async onsessioninitialized(id) {
        const all = [...sessions.values()]
        const own = all.filter((session) => session.owner === owner)
        if (own.length >= MAX_SESSIONS_OF_USER) await own[0]?.transport.close()
        else if (all.length >= MAX_SESSIONS) await all[0]?.transport.close()
        sessions.set(id, { owner, transport })
      },
    })
    transport.onclose = () => void sessions.delete(String(transport.sessionId))
    // The cast is only needed with the compiler option `exactOptionalPropertyTypes`.
    await createServer().connect(transport as Parameters<McpServer['connect']>[0])
    return transport
  }

  const app = express()
  app.use(mcpCors())
  app.use(protectedResourceRouter(oauth))
  app.use('/mcp', mcpAuth(oauth, options))
  app.all('/mcp', async (req, res) => {
    const auth = authOf<JwtUser>(req)
    const owner = JSON.stringify([auth?.user?.id, auth?.clientId])
    const id = req.get('mcp-session-id')
    const session = id === undefined ? undefined : sessions.get(id)
    if (id !== undefined && session === undefined) {
      // The session has ended. The client begins a new one.
      const error = { code: -32_001, message: 'Session not found' }
      res.status(404).json({ jsonrpc: '2.0', error, id: null })
      return
    }
    const transport = session?.transport ?? (await begin(owner))
    await transport.handleRequest(req as never, res, req.body)
  })
  return app
}
