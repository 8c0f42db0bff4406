import { once } from 'node:events'
import { createRequire } from 'node:module'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer as McpServerV2 } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import express, { type Express, type Request, type RequestHandler } from 'express'
import type { NodeMiddleware } from '../../src/base/http/node-middleware.ts'
import type { McpAuthOptions } from '../../src/express/mcp-auth-options.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter, KitMcpRouter, mcpAuth, type OAuthOptions } from '../../src/index.ts'
import { Http2Exchange, listenHttp2 } from '../support/http2.ts'
import { listen } from '../support/listen.ts'

const express4: typeof express = createRequire(import.meta.url)('express4')

const oauth: OAuthOptions = {
  issuer: 'https://auth.example.com',
  scopes: ['mcp:read'],
  verifyToken: ({ bearerToken = '' }) => ({
    valid: true,
    user: { id: 'ada' },
    scopes: bearerToken === 'none' ? [] : bearerToken.replaceAll('~', ':').split('+'),
  }),
}

const scopes = {
  tools: { wipe: ['mcp:admin'] },
  prompts: { secret: ['mcp:prompts'] },
  resources: { 'notes://private': ['mcp:notes'], 'files://{name}': ['mcp:files'] },
}

/** Returns the header of a token with these scopes. */
function authorization(granted: string): string {
  return `Bearer ${granted.replaceAll(':', '~')}`
}

function post(url: string, token: string, body: unknown, headers: Record<string, string> = {}) {
  return fetch(url, {
    method: 'POST',
    headers: {
      Authorization: authorization(token),
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: typeof body === 'string' || body instanceof Uint8Array ? (body as string) : JSON.stringify(body),
  })
}

const message = (method: string, params: unknown, id: unknown = 1) => ({ jsonrpc: '2.0', id, method, params })
const call = (name: unknown) => message('tools/call', { name, arguments: {} })

const result = { content: [{ type: 'text' as const, text: 'done' }] }

/** Returns the body if the stream has been read. Otherwise the server must read the stream. */
function parsedBy(req: Request): unknown {
  return req.readableEnded ? req.body : undefined
}

const serveV1: RequestHandler = async (req, res) => {
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined } as object)
  res.on('close', () => void transport.close())
  const server = new McpServerV1({ name: 'v1', version: '1.0.0' })
  server.registerTool('wipe', {}, () => result)
  server.registerTool('look', {}, () => result)
  await server.connect(transport as Parameters<typeof server.connect>[0])
  await transport.handleRequest(req as never, res, parsedBy(req))
}

const v2 = toNodeHandler(
  createMcpHandler(() => {
    const server = new McpServerV2({ name: 'v2', version: '1.0.0' })
    server.registerTool('wipe', {}, () => result)
    server.registerTool('look', {}, () => result)
    return server
  }),
)
const serveV2: RequestHandler = (req, res) => void v2(req as never, res, parsedBy(req))

/** Reads the request as a stream, and tells what it has received. */
const serveStream: RequestHandler = async (req, res) => {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  res.json({ text: Buffer.concat(chunks).toString(), body: req.body as unknown })
}

const gate = (options: McpAuthOptions = { scopes }) => mcpAuth(oauth, options) as RequestHandler
const json = express.json() as RequestHandler
const json4 = express4.json() as RequestHandler

describe('mcpAuth(oauth, { scopes })', () => {
  for (const [app, make] of [
    ['Express 5', () => express()],
    ['Express 4', () => express4() as unknown as Express],
  ] as const)
    for (const [server, serve] of [
      ['SDK v1', serveV1],
      ['SDK v2', serveV2],
    ] as const)
      for (const [parser, handlers] of [
        ['without a parser', [gate()]],
        ['with express.json() behind it', [gate(), app === 'Express 5' ? json : json4]],
      ] as const)
        it(`protects a tool of ${server} on ${app} ${parser}`, async () => {
          const { origin } = await listen(make().use('/mcp', ...handlers, serve))
          const refused = await post(`${origin}/mcp`, 'mcp:read', call('wipe'))
          expect(refused.status).to.equal(403)
          expect(refused.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:admin"')
          const both = await post(`${origin}/mcp`, 'none', call('wipe'))
          expect(both.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:admin"')
          for (const [token, name] of [
            ['mcp:read+mcp:admin', 'wipe'],
            ['mcp:read', 'look'],
          ] as const) {
            const served = await post(`${origin}/mcp`, token, call(name))
            expect(served.status).to.equal(200)
            expect(await served.text()).to.contain('done')
          }
        })

  for (const [what, before] of [
    ['Express 5', json],
    ['Express 4', json4],
  ] as const)
    it(`judges the body that express.json() of ${what} has read`, async () => {
      const { origin } = await listen(
        express().use('/mcp', before, gate(), (req, res) => void res.json({ body: req.body as unknown })),
      )
      expect((await post(`${origin}/mcp`, 'mcp:read', call('wipe'))).status).to.equal(403)
      const served = await post(`${origin}/mcp`, 'mcp:read', call('look'))
      expect(await served.json()).to.deep.equal({ body: call('look') })
    })

  for (const [operation, sent, needed] of [
    ['a template', message('resources/read', { uri: 'files://a' }), 'mcp:files'],
    [
      'a batch',
      [call('wipe'), message('prompts/get', { name: 'secret' }, 2), message('tools/list', {}, 3)],
      'mcp:admin mcp:prompts',
    ],
  ] as const)
    it(`requires the scopes of ${operation}`, async () => {
      const { origin } = await listen(express().use('/mcp', gate(), serveStream))
      const refused = await post(`${origin}/mcp`, 'mcp:read', sent)
      expect(refused.status).to.equal(403)
      expect(refused.headers.get('www-authenticate')).to.contain(`scope="mcp:read ${needed}"`)
      const served = await post(`${origin}/mcp`, `mcp:read+${needed.replaceAll(' ', '+')}`, sent)
      expect(await served.json()).to.deep.equal({ text: JSON.stringify(sent), body: sent })
    })

  for (const [what, sent, status] of [
    ['a message', Buffer.from(JSON.stringify(call('look'))), 200],
    ['a message that needs scopes', Buffer.from(JSON.stringify(call('wipe'))), 403],
    [
      'bytes that are not UTF-8',
      Buffer.from([...Buffer.from('{"method":"tools/list","a":"'), 255, 34, 125]),
      400,
    ],
    ['two names', Buffer.from('{"method":"tools/call","params":{"name":"wipe","name":"look"}}'), 400],
  ] as const)
    it(`responds with ${status} to ${what} that express.raw() has read`, async () => {
      const raw = express.raw({ type: '*/*' }) as RequestHandler
      const { origin } = await listen(express().use('/mcp', raw, gate(), (_req, res) => void res.end()))
      expect((await post(`${origin}/mcp`, 'mcp:read', sent)).status).to.equal(status)
    })

  for (const [what, before, status, code] of [
    ['was read', (req) => void req.once('readable', () => req.read()), 500, -32_603],
    ['is decoded', (req) => void req.setEncoding('latin1'), 400, -32_700],
  ] as const satisfies readonly (readonly [string, (req: Request) => void, number, number])[])
    it(`responds with ${status} to a body that ${what} before the gate`, async () => {
      const { origin } = await listen(
        express().use(
          '/mcp',
          (req, _res, next) => {
            before(req)
            setImmediate(next)
          },
          gate(),
          serveStream,
        ),
      )
      const response = await post(`${origin}/mcp`, 'mcp:read', call('look'))
      expect([response.status, ((await response.json()) as any).error.code]).to.deep.equal([status, code])
    })

  const wipe = JSON.stringify(call('wipe'))
  for (const [what, body, status, headers] of [
    ['no JSON', '{', 400],
    ['a byte order mark', `\uFEFF${wipe}`, 400],
    [
      'bytes that are not UTF-8',
      new Uint8Array([...Buffer.from('{"method":"tools/list","a":"'), 255, 34, 125]),
      400,
    ],
    ['no message', '{}', 400],
    ['a number', '1', 400],
    ['an empty body', '', 400],
    ['two names', '{"method":"tools/call","params":{"name":"wipe","name":"look"}}', 400],
    ['an escaped second name', '{"method":"tools/call","params":{"name":"wipe","n\\u0061me":"look"}}', 400],
    ['names in two cases', '{"method":"tools/call","params":{"Name":"wipe","name":"look"}}', 400],
    ['two params', '{"method":"tools/call","params":{"name":"wipe"},"params":{"name":"look"}}', 400],
    ['two methods in a batch', '[{"method":"tools/call","method":"ping","params":{"name":"wipe"}}]', 400],
    ['__proto__', '{"method":"ping","__proto__":{"method":"tools/call"}}', 400],
    ['a name in an array', call(['wipe']), 400],
    ['params in an array', message('tools/call', ['wipe']), 400],
    ['a method in an array', message(['tools/call'] as never, { name: 'wipe' }), 400],
    ['a URI without a canonical form', message('resources/read', { uri: 'notes://pri\nvate' }), 400],
    ['another Mcp-Name', call('look'), 400, { 'Mcp-Name': 'wipe' }],
    ['another Mcp-Method', call('look'), 400, { 'Mcp-Method': 'ping' }],
    ['129 levels', `${'['.repeat(129)}${']'.repeat(129)}`, 400],
    ['a Content-Encoding', wipe, 415, { 'Content-Encoding': 'gzip' }],
    ['another type', wipe, 415, { 'Content-Type': 'text/plain' }],
    ['UTF-16', Buffer.from(wipe, 'utf16le'), 415, { 'Content-Type': 'application/json; charset=utf-16' }],
    ['two charsets', wipe, 415, { 'Content-Type': 'application/json; charset=utf-8; charset=utf-7' }],
    ['more than 4 MiB', `"${'x'.repeat(4 * 1024 * 1024)}"`, 413],
  ] as readonly (readonly [string, unknown, number, Record<string, string>?])[])
    it(`never passes on a body with ${what}`, async () => {
      let passed = false
      const { origin } = await listen(
        express().use('/mcp', gate(), (_req, res) => {
          passed = true
          res.end()
        }),
      )
      const response = await post(`${origin}/mcp`, 'mcp:read+mcp:admin+mcp:notes', body, headers)
      expect([response.status, passed]).to.deep.equal([status, false])
    })

  it('a body of exactly 4 MiB is passed on, and one with a byte more is not', async () => {
    const { origin } = await listen(express().use('/mcp', gate(), (_req, res) => void res.end('passed')))
    const text = JSON.stringify(call('look'))
    for (const [length, status] of [
      [4 * 1024 * 1024, 200],
      [4 * 1024 * 1024 + 1, 413],
    ] as const) {
      const response = await post(`${origin}/mcp`, 'mcp:read+mcp:admin+mcp:notes', text.padEnd(length))
      expect(response.status).to.equal(status)
    }
  })

  for (const [what, sent, id, code] of [
    ['a request with a name in an array', call(['wipe']), 1, -32_602],
    ['a request with a name that is too long', call('x'.repeat(1_025)), 1, -32_602],
    ['a message without a method', { jsonrpc: '2.0', id: 1, params: {} }, null, -32_600],
    ['a message with a method in an array', message(['ping'] as never, {}), null, -32_600],
    [
      'a message with a method that is null and a long name',
      message(null as never, { name: 'x'.repeat(1_025) }),
      null,
      -32_602,
    ],
    ['a request with an id in an array', message('tools/call', {}, [1]), null, -32_602],
    ['a batch', [call(['wipe'])], null, -32_602],
    ['a request with params in an array', message('tools/call', []), 1, -32_602],
    [
      'a completion with an unknown type',
      message('completion/complete', { ref: { type: 'ref/tool', name: 'wipe' } }),
      1,
      -32_602,
    ],
    [
      'a subscription with a URI that is a number',
      message('subscriptions/listen', { notifications: { resourceSubscriptions: [1] } }),
      1,
      -32_602,
    ],
  ] as const)
    it(`rejects ${what} with the id ${id} and the code ${code}`, async () => {
      const { origin } = await listen(express().use('/mcp', gate(), serveStream))
      const rejected = await post(`${origin}/mcp`, 'mcp:read', sent)
      expect(rejected.status).to.equal(400)
      const { error, ...others } = (await rejected.json()) as any
      expect([others.id, error.code]).to.deep.equal([id, code])
    })

  for (const name of ['constructor', '__proto__', 'toString'])
    it(`does not take the tool ${name} for one with scopes`, async () => {
      const { origin } = await listen(express().use('/mcp', gate(), serveStream))
      expect((await post(`${origin}/mcp`, 'mcp:read', call(name))).status).to.equal(200)
    })

  it('judges a body of any HTTP method, and passes on GET without one', async () => {
    const { origin } = await listen(express().use('/mcp', gate(), serveStream))
    const headers = { Authorization: authorization('mcp:read'), 'Content-Type': 'application/json' }
    const removed = await fetch(`${origin}/mcp`, { method: 'DELETE', headers, body: wipe })
    expect(removed.status).to.equal(403)
    expect((await fetch(`${origin}/mcp`, { headers })).status).to.equal(200)
    const none = await fetch(`${origin}/mcp`, { headers: { Authorization: 'Bearer none' } })
    expect(none.status).to.equal(403)
  })

  it('passes on a chunked body as a stream, in full', async () => {
    const { origin } = await listen(express().use('/mcp', gate(), serveStream))
    const sent = message('tools/call', { name: 'look', arguments: { text: 'ä'.repeat(500_000) } })
    const text = JSON.stringify(sent)
    const parts = [text.slice(0, 10), text.slice(10, 300_001), text.slice(300_001)]
    const response = await fetch(`${origin}/mcp`, {
      method: 'POST',
      headers: { Authorization: authorization('mcp:read'), 'Content-Type': 'application/json' },
      body: ReadableStream.from(parts.map((part) => Buffer.from(part))),
      duplex: 'half',
    } as RequestInit)
    expect(await response.json()).to.deep.equal({ text, body: sent })
  })

  it('judges a body over HTTP/2 of any method, without a length', async () => {
    const middleware = mcpAuth(oauth, { scopes }) as unknown as NodeMiddleware
    const server = await listenHttp2((req, res) => middleware(req, res, () => void res.end('passed on')))
    const session = await server.connect()
    try {
      const headers = { authorization: authorization('mcp:read'), 'content-type': 'application/json' }
      for (const method of ['PUT', 'PATCH']) {
        const { stream, status } = new Http2Exchange(session, { ...headers, ':method': method })
        stream.end(wipe)
        expect(await status, method).to.equal(403)
      }
      const without = session.request(
        { ':method': 'DELETE', ':path': '/mcp', authorization: headers.authorization },
        { endStream: true },
      )
      const [answer] = (await once(without.resume(), 'response')) as [Record<string, unknown>]
      expect(answer[':status']).to.equal(200)
    } finally {
      await server.close()
    }
  })

  it('serves further requests of a connection whose handler reads no body', async () => {
    const { origin } = await listen(
      express().use('/mcp', gate(), (req, res) => void res.json(req.body as unknown)),
    )
    for (let count = 0; count < 3; count++) {
      const sent = message('tools/call', { name: 'look', text: 'x'.repeat(200_000) }, count)
      expect(await (await post(`${origin}/mcp`, 'mcp:read', sent)).json()).to.deep.equal(sent)
    }
  })

  for (const first of ['router', 'gate'])
    it(`lists the scopes in the metadata document if the ${first} is made first`, async () => {
      const target = { ...oauth, resource: 'http://localhost/mcp' }
      const app = express()
      if (first === 'router') app.use(protectedResourceRouter(target) as RequestHandler)
      app.use('/mcp', mcpAuth(target, { scopes }) as RequestHandler)
      if (first === 'gate') app.use(protectedResourceRouter(target) as RequestHandler)
      const { origin } = await listen(app)
      const document = await fetch(`${origin}/.well-known/oauth-protected-resource`)
      expect(((await document.json()) as { scopes_supported: unknown }).scopes_supported).to.deep.equal([
        'mcp:read',
        'mcp:admin',
        'mcp:prompts',
        'mcp:notes',
        'mcp:files',
      ])
    })

  it('refuses scopes for an adapter, and unknown members', () => {
    const adapter = createMcpAdapter({ router: KitMcpRouter.create(), oauth })
    expect(() => mcpAuth(adapter, { scopes })).to.throw(/scopes must not be set together with an adapter/)
    expect(() => mcpAuth(adapter, { recordSpans: false })).to.throw(
      /recordSpans must not be set together with an adapter/,
    )
    for (const wrong of [{ public: { tools: ['a'] } }, { tool: {} }, { tools: { a: 'mcp:admin' } }])
      expect(() => mcpAuth(oauth, { scopes: wrong as never })).to.throw(/scopes/)
  })
})
