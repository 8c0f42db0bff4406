import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import type { McpAuthOptions } from '../../src/express/mcp-auth-options.ts'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpCors, mcpHandler } from '../../src/index.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { listen } from '../support/listen.ts'
import { bearer, call, legacy, modern, signalled } from '../support/mcp/wire.ts'
import { rawRequest } from '../support/raw-http.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'
import { until } from '../support/until.ts'

const oauth: OAuthOptions = {
  issuer: 'https://auth.example.com',
  scopes: ['mcp:read'],
  verifyToken: ({ bearerToken }) =>
    bearerToken === 'reader' || bearerToken === 'stranger'
      ? { valid: true, user: { id: 'ada' }, scopes: bearerToken === 'reader' ? ['mcp:read'] : [] }
      : undefined,
}

describe('mcpAuth(oauth, { telemetry })', () => {
  const { telemetry, transport } = keepingEvents()
  /** Resolves when a request has reached the server. */
  let reached = signalled()
  beforeEach(() => {
    transport.clear()
    reached = signalled()
  })
  after(() => telemetry.shutdown())

  /** A server without this package behind the gate. */
  async function serve(...before: RequestHandler[]) {
    const app = express()
    app.use('/mcp', mcpAuth(oauth, { telemetry }), ...before, (req, res) => {
      if (req.headers['x-hang'] === undefined) res.status(202).json({ ok: true })
      else reached.resolve()
    })
    return await listen(app)
  }

  const outline = () =>
    transport
      .getEvents()
      .map(({ name, actor, attributes: { duration_ms: _, ...attributes } = {} }) => [
        name.replace('kit.mcp.', ''),
        actor?.id,
        attributes,
      ])

  it('emits the decision and the completed request, with the user', async () => {
    const { origin } = await serve()
    await fetch(`${origin}/mcp`, { headers: bearer('reader') })
    await until(() => transport.getEvents().length === 2)
    expect(outline()).to.deep.equal([
      ['auth.accepted', 'ada', {}],
      ['request.completed', 'ada', { 'http.response.status_code': 202 }],
    ])
    const [accepted, completed] = transport.getEvents()
    expect(accepted?.sessionId).to.equal(completed?.sessionId)
  })

  it('emits the message if a body parser behind the gate has read it, or if headers name it', async () => {
    for (const [parser, request] of [
      [[express.json()], legacy(call('greet'), bearer('reader'))],
      [[], modern('tools/call', { name: 'greet' }, bearer('reader'))],
    ] as const) {
      transport.clear()
      const { origin } = await serve(...parser)
      await fetch(`${origin}/mcp`, { method: 'POST', ...(request as RequestInit) })
      await until(() => transport.getEvents().length === 2)
      for (const { attributes } of transport.getEvents()) {
        expect(attributes).to.include({ 'mcp.method.name': 'tools/call' })
        if (parser.length > 0) expect(attributes).to.include({ 'gen_ai.tool.name': 'greet' })
      }
    }
  })

  it('emits 499 if the client disconnects before the response', async () => {
    const { origin } = await serve()
    const abort = new AbortController()
    const response = fetch(`${origin}/mcp`, {
      headers: { ...bearer('reader'), 'x-hang': '1' },
      signal: abort.signal,
    }).catch(() => undefined)
    await reached.promise
    abort.abort()
    await response
    await until(() => transport.getEvents().length === 2)
    expect(outline().at(-1)).to.deep.equal([
      'request.completed',
      'ada',
      { 'http.response.status_code': 499, 'error.type': '499' },
    ])
  })

  it('leaves the events of a call to an adapter with telemetry behind it', async () => {
    const router = KitMcpRouter.create().tool('greet', { description: 'Greets' }, () => 'hello')
    const app = express()
    app.use(
      '/mcp',
      mcpAuth(oauth, { telemetry }),
      mcpHandler(createMcpAdapter({ router, telemetry })) as never,
    )
    const { origin } = await listen(app)
    await fetch(`${origin}/mcp`, {
      method: 'POST',
      ...(legacy(call('greet'), bearer('reader')) as RequestInit),
    })
    await until(() => transport.getEvents().length >= 3)
    expect(outline().map(([name]) => name)).to.deep.equal([
      'auth.accepted',
      'tool.completed',
      'request.completed',
    ])
  })
})

describe('Origin and Host in front of a server without this package', () => {
  const arrangements: readonly (readonly [string, (options: McpAuthOptions) => readonly unknown[]])[] = [
    ['mcpAuth', (options) => [mcpAuth(oauth, options)]],
    ['mcpCors', (options) => [mcpCors(options), mcpAuth(oauth)]],
  ]
  const LIST = { allowedOrigins: ['https://app.example.com'] }
  const HOSTS = { allowedHosts: ['mcp.example.com'] }
  const cases: readonly (readonly [
    options: McpAuthOptions,
    host: string,
    origin: string | undefined,
    status: number,
  ])[] = [
    [{}, 'mcp.example.com', 'https://evil.example', 401],
    [LIST, 'localhost', 'https://app.example.com', 401],
    [LIST, 'localhost', 'https://evil.example', 403],
    [LIST, 'localhost', 'null', 403],
    [LIST, 'localhost', undefined, 401],
    [LIST, 'mcp.example.com', undefined, 403],
    [HOSTS, 'mcp.example.com', 'https://evil.example', 401],
    [HOSTS, 'mcp.example.com:8080', undefined, 401],
    [HOSTS, 'localhost', undefined, 403],
    [{ ...HOSTS, ...LIST }, 'mcp.example.com', 'https://evil.example', 403],
    [{ allowedHosts: ['localhost'] }, 'localhost', 'http://127.0.0.1:5173', 401],
    [{ allowedHosts: ['localhost'] }, 'localhost', 'https://evil.example', 403],
    [{ allowedOrigins: '*' }, 'localhost', 'https://evil.example', 401],
  ]
  for (const [name, arrange] of arrangements) {
    for (const [options, host, from, status] of cases) {
      it(`${name}(${JSON.stringify(options)}) responds with ${status} to Host: ${host}, Origin: ${from ?? 'none'}`, async () => {
        const app = express()
        app.use('/mcp', ...(arrange(options) as RequestHandler[]), (_req, res) => void res.end('secret'))
        const { port } = await listen(app)
        const headers = [`Host: ${host}`, ...(from === undefined ? [] : [`Origin: ${from}`])]
        const response = await rawRequest(port, { headers, target: '/mcp' })
        expect(response.status).to.equal(status)
        const readable = response.header('access-control-allow-origin')
        if (Array.isArray(options.allowedOrigins)) {
          // Exactly the allowed origins may read responses.
          expect(readable).to.equal(options.allowedOrigins.find((allowed) => allowed === from))
          expect(response.header('vary')).to.match(/\bOrigin\b/)
        } else expect(readable).to.equal(name === 'mcpCors' ? '*' : undefined)
        if (status === 403) expect(JSON.parse(response.body)).to.have.nested.property('error.code', -32_000)
        const preflight = await rawRequest(port, {
          method: 'OPTIONS',
          headers: [...headers, 'Access-Control-Request-Method: POST'],
          target: '/mcp',
        })
        if (from !== undefined) expect(preflight.status === 403).to.equal(status === 403)
      })
    }
  }
})
