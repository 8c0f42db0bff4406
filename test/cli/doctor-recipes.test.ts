import { createMcpExpressApp } from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import express, { type Express } from 'express'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter, jwtVerifier, mcpAuth, mcpCors, mcpServer } from '../../src/index.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { failuresOf, findingOf, look, startTarget } from '../support/cli/doctor-target.ts'
import { listen } from '../support/listen.ts'

const INFO = { name: 'notes', version: '1.0.0' }

/** The object of the section on Origin and Host of the guide. */
const CHECKS = { allowedHosts: ['127.0.0.1'], allowedOrigins: ['https://app.example.com'] }

function serverV2(): McpServer {
  const server = new McpServer(INFO)
  server.registerTool('whoami', { description: 'Returns the caller' }, ({ http }) => ({
    content: [{ type: 'text', text: http?.authInfo?.clientId ?? 'unknown' }],
  }))
  return server
}

/** Adds the gate of docs/guides/existing-servers.md. */
function protect(app: Express, oauth: OAuthOptions, checks: Partial<typeof CHECKS> = {}): void {
  app.use(protectedResourceRouter(oauth))
  app.use('/mcp', mcpCors(checks), mcpAuth(oauth, checks))
}

/** The recipes of docs/guides/existing-servers.md, and an application of the official SDK behind the same gate. */
const RECIPES: readonly {
  readonly name: string
  readonly app?: () => Express
  readonly mount: (app: Express, oauth: OAuthOptions) => void
  /** `true` if the server rejects unknown origins and hosts. */
  readonly checksOrigin: boolean
  /** The origin that the server allows, for `--origin`. */
  readonly origin?: string
}[] = [
  {
    name: 'a server of SDK 1.x behind mcpAuth',
    mount(app, oauth) {
      protect(app, oauth)
      app.use('/mcp', express.json())
      app.post('/mcp', async (req, res) => {
        const server = new McpServerV1(INFO)
        server.registerTool('whoami', { description: 'Returns the caller' }, ({ authInfo }) => ({
          content: [{ type: 'text', text: authInfo?.clientId ?? 'unknown' }],
        }))
        const transport = new StreamableHTTPServerTransport()
        res.on('close', () => void transport.close())
        await server.connect(transport as Parameters<typeof server.connect>[0])
        await transport.handleRequest(req, res, req.body)
      })
    },
    checksOrigin: false,
  },
  {
    name: 'a server of SDK 2.x behind mcpAuth',
    mount(app, oauth) {
      protect(app, oauth)
      const serve = toNodeHandler(createMcpHandler(serverV2))
      app.all('/mcp', (req, res) => void serve(req as never, res))
    },
    checksOrigin: false,
  },
  {
    name: 'a server of SDK 2.x behind mcpAuth with allowedHosts and allowedOrigins',
    mount(app, oauth) {
      protect(app, oauth, CHECKS)
      const serve = toNodeHandler(createMcpHandler(serverV2))
      app.all('/mcp', (req, res) => void serve(req as never, res))
    },
    checksOrigin: true,
    origin: 'https://app.example.com',
  },
  {
    name: 'a server of SDK 2.x in createMcpExpressApp() behind mcpAuth',
    app: () => createMcpExpressApp(),
    mount(app, oauth) {
      protect(app, oauth)
      const serve = toNodeHandler(createMcpHandler(serverV2))
      app.all('/mcp', (req, res) => void serve(req as never, res, req.body))
    },
    checksOrigin: true,
  },
  {
    name: 'a function that creates servers, in mcpServer(adapter)',
    mount(app, oauth) {
      const router = ({ auth }: { readonly auth?: { readonly clientId: string } | undefined }): McpServer => {
        const server = new McpServer(INFO)
        server.registerTool('wipe', { description: 'Deletes all notes' }, () => ({
          content: [{ type: 'text', text: `Deleted for ${auth?.clientId}` }],
        }))
        return server
      }
      app.use(mcpServer(createMcpAdapter({ router, scopes: { tools: { wipe: ['mcp:admin'] } }, oauth })))
    },
    checksOrigin: true,
  },
]

describe('doctor, for the recipes of the guide on existing servers,', () => {
  for (const { name, app: create = express, mount, checksOrigin, origin: pageOrigin } of RECIPES) {
    const start = async () => {
      const { issuer } = await startTarget()
      const app = create()
      app.set('env', 'test')
      const { origin } = await listen(app)
      const url = new URL(`${origin}/mcp`)
      const tokens = createTestIssuer({ issuer, audience: url.href })
      const verifyToken = jwtVerifier(tokens.verifierOptions)
      mount(app, { issuer, resource: url.href, scopes: ['mcp:read'], verifyToken })
      return { url, token: await tokens.issueToken({ scopes: ['mcp:read'] }) }
    }

    it(`reports no failures for ${name}, without a token`, async () => {
      const { url } = await start()
      expect(failuresOf(await look(url, { origin: pageOrigin }))).to.deep.equal([])
    })

    it(`reports no failures for ${name}, with a token`, async () => {
      const { url, token } = await start()
      const report = await look(url, { token, origin: pageOrigin })
      expect(failuresOf(report)).to.deep.equal([])
      for (const id of ['origin.foreign', 'host.foreign'])
        expect(findingOf(report, id)?.status, id).to.equal(checksOrigin ? 'ok' : 'warn')
      expect(findingOf(report, 'call.tools-list')?.seen).to.match(/^1 tool/)
    })
  }
})
