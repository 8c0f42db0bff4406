import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client'
import { createMcpExpressApp } from '@modelcontextprotocol/express'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer as McpServerV2 } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import express, { type Express, type RequestHandler } from 'express'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { type AuthInfo, mcpAuth, mcpCors, type OAuthOptions } from '../../src/index.ts'
import { listen } from '../support/listen.ts'

const EXPIRES_AT = Math.floor(Date.now() / 1000) + 600

/** Accepts the tokens `ada` and `bob` of the users with these names. */
const oauth: OAuthOptions = {
  issuer: 'https://auth.example.com',
  scopes: ['mcp:read'],
  verifyToken: async ({ bearerToken }) =>
    bearerToken === 'ada' || bearerToken === 'bob'
      ? {
          valid: true,
          user: { id: bearerToken },
          clientId: `client of ${bearerToken}`,
          scopes: ['mcp:read', 'mcp:write'],
          expiresAt: EXPIRES_AT,
        }
      : undefined,
}

/** The text that a tool of these servers returns about its `authInfo`. */
function describeAuth(given: unknown): { content: [{ type: 'text'; text: string }] } {
  const { token, clientId, scopes, expiresAt, user } = given as AuthInfo<{ id: string }>
  return { content: [{ type: 'text', text: JSON.stringify({ token, clientId, scopes, expiresAt, user }) }] }
}

function serverV1(): McpServerV1 {
  const server = new McpServerV1({ name: 'v1', version: '1.0.0' })
  server.registerTool('whoami', { description: 'Who is calling' }, (extra) => describeAuth(extra.authInfo))
  return server
}

function serverV2(): McpServerV2 {
  const server = new McpServerV2({ name: 'v2', version: '1.0.0' })
  server.registerTool('whoami', { description: 'Who is calling' }, (sdk) => describeAuth(sdk.http?.authInfo))
  return server
}

/** An application with a gate in front of a handler that serves MCP. */
function behindGate(serve: RequestHandler, app: Express = express()): Express {
  app.use(mcpCors() as RequestHandler)
  app.use(protectedResourceRouter(oauth) as RequestHandler)
  app.use('/mcp', mcpAuth(oauth) as RequestHandler, serve)
  return app
}

const serveV1: RequestHandler = async (req, res) => {
  // The casts are needed because the types of v1 do not support `exactOptionalPropertyTypes`.
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined } as object)
  res.on('close', () => void transport.close())
  const server = serverV1()
  await server.connect(transport as Parameters<typeof server.connect>[0])
  await transport.handleRequest(req as never, res, req.body)
}

/** The servers of the official SDK, set up as in its documentation. */
const SERVERS: readonly { name: string; app: () => Express; modern: boolean }[] = [
  { name: 'StreamableHTTPServerTransport of v1', modern: false, app: () => behindGate(serveV1) },
  {
    name: 'StreamableHTTPServerTransport of v1 behind express.json()',
    modern: false,
    app: () => behindGate(serveV1, express().use(express.json())),
  },
  {
    name: 'NodeStreamableHTTPServerTransport of v2',
    modern: false,
    app: () =>
      behindGate(async (req, res) => {
        const transport = new NodeStreamableHTTPServerTransport()
        res.on('close', () => void transport.close())
        await serverV2().connect(transport)
        await transport.handleRequest(req as never, res, req.body)
      }),
  },
  {
    name: 'createMcpHandler of v2 through toNodeHandler',
    modern: true,
    app: () => {
      const serve = toNodeHandler(createMcpHandler(serverV2))
      return behindGate((req, res) => void serve(req as never, res, req.body))
    },
  },
  {
    name: 'createMcpHandler of v2 in createMcpExpressApp',
    modern: true,
    app: () => {
      const serve = toNodeHandler(createMcpHandler(serverV2))
      return behindGate((req, res) => void serve(req as never, res, req.body), createMcpExpressApp())
    },
  },
]

interface AnyClient {
  callTool(params: { name: string }): Promise<Record<string, unknown>>
  close(): Promise<void>
}

const INFO = { name: 'test', version: '1.0.0' }

const CLIENTS: readonly {
  name: string
  modern: boolean
  connect(url: URL, requestInit: RequestInit): Promise<AnyClient>
}[] = [
  {
    name: 'v1 client',
    modern: false,
    async connect(url, requestInit) {
      const client = new ClientV1(INFO)
      const transport = new TransportV1(url, { requestInit })
      await client.connect(transport as Parameters<typeof client.connect>[0])
      return client
    },
  },
  ...(['legacy', { pin: '2026-07-28' }] as const).map((mode) => ({
    name: `v2 client, ${mode === 'legacy' ? mode : mode.pin}`,
    modern: mode !== 'legacy',
    async connect(url: URL, requestInit: RequestInit) {
      const client = new ClientV2(INFO, { versionNegotiation: { mode } })
      await client.connect(new TransportV2(url, { requestInit }))
      return client
    },
  })),
]

describe('servers of other packages behind mcpAuth(oauthOptions)', () => {
  for (const server of SERVERS) {
    describe(server.name, () => {
      for (const { name, modern, connect } of CLIENTS) {
        if (modern && !server.modern) continue
        it(`a tool of ${server.name} gets the user of the ${name}`, async () => {
          const { origin } = await listen(server.app())
          for (const token of ['ada', 'bob']) {
            const headers = { authorization: `Bearer ${token}` }
            const client = await connect(new URL('/mcp', origin), { headers })
            try {
              const { content } = await client.callTool({ name: 'whoami' })
              expect(JSON.parse((content as [{ text: string }])[0].text)).to.deep.equal({
                token,
                clientId: `client of ${token}`,
                scopes: ['mcp:read', 'mcp:write'],
                expiresAt: EXPIRES_AT,
                user: { id: token },
              })
            } finally {
              await client.close()
            }
          }
        })

        it(`${server.name} is not reached by the ${name} without a valid token`, async () => {
          const { origin } = await listen(server.app())
          for (const headers of [{}, { authorization: 'Bearer eve' }]) {
            const failure = await connect(new URL('/mcp', origin), { headers }).catch((error) => error)
            expect(failure).to.be.instanceOf(Error)
            expect(String(failure)).to.match(/401|Unauthorized|invalid_token/i)
          }
        })
      }

      it('a page can read the refusal in front of another server', async () => {
        const { origin } = await listen(server.app())
        const response = await fetch(`${origin}/mcp`, {
          method: 'POST',
          headers: { origin: 'http://localhost:5173' },
        })
        expect(response.status).to.equal(401)
        expect(response.headers.get('access-control-allow-origin')).to.equal('*')
        expect(response.headers.get('access-control-expose-headers')).to.match(/\bWWW-Authenticate\b/)
        const metadata = /resource_metadata="([^"]+)"/.exec(
          response.headers.get('www-authenticate') ?? '',
        )?.[1]
        expect(metadata).to.equal(`${origin}/.well-known/oauth-protected-resource/mcp`)
        const document = await (await fetch(metadata ?? '')).json()
        expect(document).to.include({ resource: `${origin}/mcp` })
      })
    })
  }

  it('a plain route behind mcpAuth gets req.auth', async () => {
    const app = behindGate((req, res) => {
      const { auth } = req as unknown as { auth: AuthInfo<{ id: string }> }
      res.json({ clientId: auth.clientId, user: auth.user, scopes: auth.scopes })
    })
    const { origin } = await listen(app)
    const response = await fetch(`${origin}/mcp/anything`, { headers: { authorization: 'Bearer ada' } })
    expect(await response.json()).to.deep.equal({
      clientId: 'client of ada',
      user: { id: 'ada' },
      scopes: ['mcp:read', 'mcp:write'],
    })
  })
})
