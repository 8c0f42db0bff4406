import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { expect } from 'chai'
import { createApp } from '../../examples/sdk-v1-sessions.ts'
import type { JwtUser, OAuthOptions } from '../../src/index.ts'
import { listen } from '../support/listen.ts'

const expiresAt = Math.floor(Date.now() / 1000) + 600

/** Accepts the tokens `ada` and `bob`, and `chief`, which has one more scope. */
const oauth: OAuthOptions<JwtUser> = {
  issuer: 'https://auth.example.com',
  scopes: ['mcp:read'],
  verifyToken: async ({ bearerToken = '' }) => {
    if (!['ada', 'bob', 'chief'].includes(bearerToken)) return undefined
    const scopes = bearerToken === 'chief' ? ['mcp:read', 'mcp:admin'] : ['mcp:read']
    return {
      valid: true,
      user: { id: bearerToken, claims: {} },
      clientId: 'desk',
      scopes,
      expiresAt,
    } as never
  },
}

function createServer(): McpServer {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
  server.registerTool('count', { description: 'x' }, () => text('1'))
  server.registerTool('wipe', { description: 'x' }, () => text('done'))
  return server
}

describe('the example sdk-v1-sessions.ts', () => {
  let url: URL
  beforeEach(async () => {
    const { origin } = await listen(
      createApp(oauth, createServer, { scopes: { tools: { wipe: ['mcp:admin'] } } }),
    )
    url = new URL('/mcp', origin)
  })

  async function connect(token: string, sessionId?: string) {
    const headers = { authorization: `Bearer ${token}` }
    const transport = new StreamableHTTPClientTransport(url, {
      requestInit: { headers },
      ...(sessionId !== undefined && { sessionId }),
    })
    const client = new Client({ name: 'test', version: '1.0.0' })
    await client.connect(transport as Parameters<Client['connect']>[0])
    return { client, transport }
  }

  const post = async (token: string, sessionId: string, name = 'count'): Promise<Response> =>
    await fetch(url, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-session-id': sessionId,
        'mcp-protocol-version': '2025-11-25',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: {} } }),
    })

  it('a client calls tools in its session, and another user cannot use the session', async () => {
    const { client, transport } = await connect('ada')
    const result = await client.callTool({ name: 'count', arguments: {} })
    expect(result.content).to.deep.equal([{ type: 'text', text: '1' }])
    const id = String(transport.sessionId)
    const own = await post('ada', id)
    expect(own.status).to.equal(200)
    await own.text()
    expect((await post('bob', id)).status).to.equal(404)
    expect((await post('mallory', id)).status).to.equal(401)
    await client.close()
  })

  it('a tool with a scope needs it within a session, too', async () => {
    const { client, transport } = await connect('ada')
    const refused = await post('ada', String(transport.sessionId), 'wipe')
    expect(refused.status).to.equal(403)
    expect(refused.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:admin"')
    await client.close()
    const chief = await connect('chief')
    const result = await chief.client.callTool({ name: 'wipe', arguments: {} })
    expect(result.content).to.deep.equal([{ type: 'text', text: 'done' }])
    await chief.client.close()
  })

  it('the oldest session of a user ends when the user begins too many', async () => {
    const clients = []
    for (let count = 0; count < 21; count++) clients.push(await connect('bob'))
    const ids = clients.map(({ transport }) => String(transport.sessionId))
    expect((await post('bob', String(ids[0]))).status).to.equal(404)
    expect((await post('bob', String(ids[20]))).status).to.equal(200)
    for (const { client } of clients) await client.close()
  })
})
