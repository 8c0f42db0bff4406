import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { type McpAuthOptions, mcpAuth, type NodeMiddleware, type OAuthOptions } from '../../src/index.ts'
import { listenHttp2 } from '../support/http2.ts'
import { listen } from '../support/listen.ts'
import { RawConnection } from '../support/raw-http.ts'

/** Accepts tokens such as `ada.1`, of the user `ada`, and `-desk.1`, of the client `desk` without a user. */
const oauth = (): OAuthOptions => ({
  issuer: 'https://auth.example.com',
  verifyToken: async ({ bearerToken = '' }) => {
    const [name = ''] = bearerToken.split('.')
    return name.startsWith('-')
      ? { valid: true, clientId: name }
      : { valid: true, user: { id: name }, clientId: 'desk' }
  },
})

/** A server of SDK 1.x with sessions, as its documentation shows it: it trusts the id of a session. */
function sessionServer(): RequestHandler {
  const transports = new Map<string, StreamableHTTPServerTransport>()
  return async (req, res) => {
    let transport = transports.get(String(req.get('mcp-session-id')))
    if (transport === undefined) {
      const begun = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void transports.set(id, begun),
      })
      const server = new McpServer({ name: 'notes', version: '1.0.0' })
      server.registerTool('count', { description: 'x' }, () => ({ content: [{ type: 'text', text: '1' }] }))
      await server.connect(begun as Parameters<typeof server.connect>[0])
      transport = begun
    }
    await transport.handleRequest(req as never, res, req.body)
  }
}

/** Sets a header. The method of HTTP/2 does not return the response. */
function withHeader(res: ServerResponse, value: string | string[], name = 'Mcp-Session-Id'): ServerResponse {
  res.setHeader(name, value)
  return res
}

/** Sends the headers of a response in the ways that Node.js has. Each function begins the session `id`. */
const WRITERS: readonly { name: string; http1?: true; write(res: ServerResponse, id: string): void }[] = [
  { name: 'setHeader', write: (res, id) => void withHeader(res, id).end() },
  {
    name: 'a list in setHeader',
    write: (res, id) => void withHeader(res, [id, 'b'], 'mcp-session-id').end(),
  },
  {
    name: 'writeHead with an object',
    write: (res, id) => void res.writeHead(200, { 'MCP-SESSION-ID': id }).end(),
  },
  {
    name: 'writeHead with a reason and an object',
    http1: true,
    write: (res, id) => void res.writeHead(200, 'Fine', { 'Mcp-Session-Id': id }).end(),
  },
  {
    name: 'writeHead with a flat list',
    write: (res, id) => void res.writeHead(200, ['mcp-Session-id', id, 'X-Other', '1']).end(),
  },
  {
    name: 'spaces around it',
    http1: true,
    write: (res, id) => void withHeader(res, ` ${id} `).end(),
  },
  {
    name: 'flushHeaders before the body',
    write(res, id) {
      withHeader(res, id).flushHeaders()
      res.end('x')
    },
  },
  {
    name: 'a write without a head',
    write(res, id) {
      withHeader(res, id).write('x')
      res.end()
    },
  },
]

/** A server that begins the session of `?begin=`, at once with the first way of `WRITERS`, and reports `?status=` otherwise. */
const scripted: NodeMiddleware = (req, res) => {
  const { searchParams } = new URL(String(req.url), 'http://localhost')
  const id = searchParams.get('begin')
  res.statusCode = Number(searchParams.get('status') ?? 200)
  const write = (): void => WRITERS[Number(searchParams.get('by') ?? 0)]?.write(res, String(id))
  if (id === null) res.end('passed')
  else if (searchParams.has('later')) setImmediate(write)
  else write()
}

describe('bound sessions', () => {
  const serve = async (handler: NodeMiddleware, options: McpAuthOptions = {}) => {
    const gate = mcpAuth(oauth(), options)
    return await listen((req, res) => gate(req, res, () => handler(req, res, () => undefined)))
  }

  const send = async (url: string, token: string, session?: string, method = 'POST') => {
    const headers = {
      authorization: `Bearer ${token}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': '2025-11-25',
      ...(session !== undefined && { 'mcp-session-id': session }),
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'count' } })
    return await fetch(url, { method, headers, ...(method === 'POST' && { body }) })
  }

  describe('of a server of SDK 1.x', () => {
    let url: string
    let client: Client
    let id: string
    beforeEach(async () => {
      const target = oauth()
      const server = sessionServer()
      // As in the documentation of the SDK: one route for each method.
      const app = express()
      for (const method of ['post', 'get', 'delete'] as const)
        app[method]('/mcp', mcpAuth(target) as RequestHandler, server)
      const { origin } = await listen(app)
      url = `${origin}/mcp`
      const transport = new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { authorization: 'Bearer ada.1' } },
      })
      client = new Client({ name: 'test', version: '1.0.0' })
      await client.connect(transport as Parameters<Client['connect']>[0])
      id = String(transport.sessionId)
    })
    afterEach(async () => await client.close())

    for (const method of ['POST', 'GET', 'DELETE'])
      it(`another user gets 404 for ${method}, and the session continues`, async () => {
        const response = await send(url, 'eve.1', id, method)
        expect(response.status).to.equal(404)
        expect(await response.json()).to.deep.equal({
          jsonrpc: '2.0',
          error: { code: -32_001, message: 'Session not found' },
          id: null,
        })
        const result = await client.callTool({ name: 'count', arguments: {} })
        expect(result.content).to.deep.equal([{ type: 'text', text: '1' }])
      })

    it('the same user continues with a newer token', async () => {
      const response = await send(url, 'ada.2', id)
      expect(response.status).to.equal(200)
      expect(await response.text()).to.contain('"text":"1"')
    })

    it('a client without a user does not reach the session of a user', async () => {
      expect((await send(url, '-desk.1', id)).status).to.equal(404)
    })
  })

  it('a token without a user owns its session as its client', async () => {
    const { origin } = await serve(scripted)
    await send(`${origin}/?begin=a`, '-desk.1')
    const statuses = []
    for (const token of ['-desk.2', '-other.1', 'ada.1'])
      statuses.push((await send(origin, token, 'a')).status)
    expect(statuses).to.deep.equal([200, 404, 404])
  })

  for (const [index, { name, http1 }] of WRITERS.entries()) {
    it(`a session is seen in a response with ${name}`, async () => {
      const { origin } = await serve(scripted)
      for (const id of ['s-1', 's-2']) {
        const begun = await send(`${origin}/?begin=${id}&by=${index}${id === 's-2' ? '&later' : ''}`, 'ada.1')
        expect(begun.headers.get('mcp-session-id')).to.match(new RegExp(`^${id}\\b`))
        expect((await send(origin, 'eve.1', id)).status).to.equal(404)
        expect((await send(origin, 'ada.1', id)).status).to.equal(200)
      }
    })

    if (http1) continue
    it(`a session is seen in a response of HTTP/2 with ${name}`, async () => {
      const gate = mcpAuth(oauth())
      const listening = await listenHttp2((req, res) =>
        gate(req, res, () => scripted(req, res, () => undefined)),
      )
      const connection = await listening.connect()
      const status = async (path: string, token: string, session: object = {}): Promise<unknown> =>
        await new Promise((resolve, reject) => {
          const stream = connection.request({ ':path': path, authorization: `Bearer ${token}`, ...session })
          stream.on('response', (headers) => resolve(headers[':status'])).on('error', reject)
          stream.resume().end()
        })
      for (const id of ['s-1', 's-2']) {
        const path = `/?begin=${id}&by=${index}${id === 's-2' ? '&later' : ''}`
        expect(await status(path, 'ada.1')).to.equal(200)
        expect(await status('/', 'eve.1', { 'mcp-session-id': id })).to.equal(404)
        expect(await status('/', 'ada.1', { 'mcp-session-id': id })).to.equal(200)
      }
      await listening.close()
    })
  }

  const LONG = 'a'.repeat(1_000)
  for (const [name, lines, begun = 's-1'] of [
    ['in upper case', ['MCP-SESSION-ID: s-1']],
    ['with spaces around the value', ['Mcp-Session-Id:   s-1 \t ']],
    ['twice, the foreign id first', ['Mcp-Session-Id: s-1', 'Mcp-Session-Id: own']],
    ['twice, the foreign id last', ['Mcp-Session-Id: own', 'mcp-session-id: s-1']],
    ['with several values', ['Mcp-Session-Id: own , s-1,x']],
    ['that is long', [`Mcp-Session-Id: ${LONG}`], LONG],
    ['that has a comma', ['Mcp-Session-Id: s,1'], 's,1'],
  ] as const)
    it(`another user gets 404 for the header ${name}`, async () => {
      const { origin } = await serve(scripted)
      await send(`${origin}/?begin=${begun}`, 'ada.1')
      await send(`${origin}/?begin=own`, 'eve.1')
      const connection = await RawConnection.open(Number(new URL(origin).port))
      const response = await connection.send(
        ['GET / HTTP/1.1', 'Host: localhost', 'Authorization: Bearer eve.1', ...lines, '', ''].join('\r\n'),
      )
      connection.close()
      expect(response.status).to.equal(404)
    })

  it('an id that the gate has not seen is passed on', async () => {
    const { origin } = await serve(scripted)
    for (const id of ['unknown', '', 'constructor', '__proto__'])
      expect(await (await send(origin, 'ada.1', id)).text()).to.equal('passed')
  })

  for (const [status, expected] of [
    [204, 200],
    [405, 404],
    [500, 404],
  ] as const)
    it(`a DELETE that the server answers with ${status} ${expected === 404 ? 'keeps' : 'forgets'} the owner`, async () => {
      const { origin } = await serve(scripted)
      await send(`${origin}/?begin=s-1`, 'ada.1')
      await send(`${origin}/?status=${status}`, 'ada.1', 's-1', 'DELETE')
      expect((await send(origin, 'eve.1', 's-1')).status).to.equal(expected)
    })

  it('of more than 10,000 sessions, the one that was not used for the longest time is forgotten', async () => {
    const ids = Array.from({ length: 10_000 }, (_, index) => `i-${index}`)
    const { origin } = await serve((req, res) => {
      if (req.url === '/all') res.setHeader('Mcp-Session-Id', ids)
      if (req.url === '/one') res.setHeader('Mcp-Session-Id', 'one-more')
      res.end()
    })
    // Too long for a client, but not for the gate.
    await send(`${origin}/all`, 'ada.1').catch(() => undefined)
    await send(origin, 'ada.1', 'i-0')
    await send(`${origin}/one`, 'ada.1')
    const statuses = []
    for (const id of ['i-0', 'i-1', 'i-2', 'one-more'])
      statuses.push((await send(origin, 'eve.1', id)).status)
    expect(statuses).to.deep.equal([404, 200, 404, 404])
  })

  it('a session is bound as soon as its client has the head of a response that stays open', async () => {
    const { origin } = await serve((req, res) => {
      if (req.url !== '/open') return void res.end('passed')
      setImmediate(() => res.writeHead(200, { 'Mcp-Session-Id': 's-1' }).write('x'))
    })
    const open = await send(`${origin}/open`, 'ada.1')
    expect((await send(origin, 'eve.1', 's-1')).status).to.equal(404)
    expect((await send(origin, 'ada.1', 's-1')).status).to.equal(200)
    await open.body?.cancel()
    expect((await send(origin, 'eve.1', 's-1')).status).to.equal(404)
  })

  it('bindSessions: false passes on the session of another user', async () => {
    const { origin } = await serve(scripted, { bindSessions: false })
    await send(`${origin}/?begin=s-1`, 'ada.1')
    expect((await send(origin, 'eve.1', 's-1')).status).to.equal(200)
  })
})
