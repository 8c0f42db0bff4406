import { once } from 'node:events'
import { expect } from 'chai'
import express, { type Express, type RequestHandler } from 'express'
import request from 'supertest'
import { z } from 'zod'
import { type McpCorsOptions, mcpCors } from '../../src/express/mcp-cors.ts'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpHandler, type NodeMiddleware } from '../../src/index.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { RawConnection } from '../support/raw-http.ts'

const AUTHORIZATION = { Authorization: 'Bearer good' }
const ACCEPT = { Accept: 'application/json, text/event-stream' }
const HEAD = [
  'POST /mcp HTTP/1.1',
  'Host: 127.0.0.1',
  'Authorization: Bearer good',
  'Accept: application/json, text/event-stream',
  'Content-Type: application/json',
]

const router = KitMcpRouter.create()
  .tool('echo', { description: 'Repeats', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool('repeat', { description: 'Repeats often', input: z.object({ times: z.number() }) }, ({ times }) =>
    'x'.repeat(times),
  )
  .tool('write', { description: 'Writes', input: z.object({}), scopes: ['mcp:write'] }, () => 'written')
  .tool(
    'whoami',
    { description: 'Tells who calls', input: z.object({}) },
    (_, { auth }) => auth?.clientId ?? 'anonymous',
  )

const call = (name: string, args: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: args },
})
const ECHO = call('echo', { text: 'hello' })

function adapterWith(options: object = {}) {
  return createMcpAdapter({ router, oauth: oauthOptions({}, { clientId: 'cli' }), ...options })
}

function appWith(adapter = adapterWith(), ...before: readonly unknown[]): Express {
  return express().use('/mcp', ...(before as RequestHandler[]), mcpHandler(adapter) as RequestHandler)
}

const post = (app: Express, message: object = ECHO) =>
  request(app).post('/mcp').set(ACCEPT).set(AUTHORIZATION).send(message)

describe('mcpHandler()', () => {
  it('mcpHandler() sets req.auth', async () => {
    const seen: unknown[] = []
    const app = express()
      .use((req: express.Request & { auth?: { clientId?: string } }, res, next) => {
        res.on('finish', () => seen.push(req.auth?.clientId))
        next()
      })
      .use(appWith())
    await post(app).expect(200)
    await request(app).post('/mcp').set(ACCEPT).send(ECHO).expect(401)
    expect(seen).to.deep.equal(['cli', undefined])
  })

  it('mcpHandler() refuses a request without a token before it reads the body', async () => {
    const { port } = await listen(appWith())
    const connection = await RawConnection.open(port)
    const head = HEAD.filter((line) => !line.startsWith('Authorization'))
    const response = await connection.send([...head, 'Content-Length: 100', '', ''].join('\r\n'))
    expect(response.status).to.equal(401)
    expect(response.header('www-authenticate')).to.match(/^Bearer realm="mcp-server", error="invalid_token"/)
    expect(response.header('access-control-allow-origin')).to.equal('*')
    connection.close()
  })

  describe('request bodies', () => {
    const parsers: readonly (readonly [what: string, parser: unknown])[] = [
      ['that is unread', (_req: unknown, _res: unknown, next: () => void) => next()],
      ['that express.json() has parsed', express.json()],
      ['that express.text() has read', express.text({ type: () => true })],
      ['that express.raw() has read', express.raw({ type: () => true })],
      [
        'that a parser left unread behind an empty object, as those of Express 4 do',
        (req: { body: unknown }, _res: unknown, next: () => void) => {
          req.body = {}
          next()
        },
      ],
    ]
    for (const [what, parser] of parsers) {
      it(`mcpHandler() accepts a body ${what}`, async () => {
        for (const before of [[parser], [parser, mcpAuth(adapterWith())]]) {
          const { text } = await post(appWith(adapterWith(), ...before)).expect(200)
          expect(text).to.include('hello')
        }
      })
    }

    it('a body of up to maxBodyBytes is accepted, announced or not, and the next request is read', async () => {
      const { port } = await listen(appWith(adapterWith({ maxBodyBytes: 1_000 })))
      const connection = await RawConnection.open(port)
      const large = 'x'.repeat(1_001)
      const chunked = `3e9\r\n${large}\r\n0\r\n\r\n`
      const tries = [
        [...HEAD, `Content-Length: ${large.length}`, '', large],
        [...HEAD, 'Transfer-Encoding: chunked', '', chunked],
      ]
      for (const lines of tries) expect((await connection.send(lines.join('\r\n'))).status).to.equal(413)
      const body = JSON.stringify(ECHO).padEnd(1_000)
      const fits = [...HEAD, `Content-Length: ${body.length}`, '', body].join('\r\n')
      expect((await connection.send(fits)).status).to.equal(200)
      connection.close()
    })

    it('an incomplete body of a client that disconnects has no effect', async () => {
      let called = 0
      const counting = KitMcpRouter.create().tool(
        'count',
        { description: 'Counts', input: z.object({}) },
        () => {
          called++
          return ''
        },
      )
      let closed: Promise<unknown> | undefined
      const adapter = adapterWith({ router: counting })
      const { port } = await listen(
        appWith(adapter, (_req: unknown, res: NodeJS.EventEmitter, next: () => void) => {
          closed = once(res, 'close')
          next()
        }),
      )
      const connection = await RawConnection.open(port)
      const body = JSON.stringify(call('count'))
      connection
        .send([...HEAD, `Content-Length: ${body.length + 1}`, '', body].join('\r\n'))
        .catch(() => undefined)
      while (closed === undefined) await new Promise(setImmediate)
      connection.close()
      await closed
      await new Promise(setImmediate)
      expect(called).to.equal(0)
    })
  })

  describe('CORS headers', () => {
    const ORIGIN = 'http://localhost:5173'

    const DECISIONS: readonly (readonly [
      what: string,
      origin: McpCorsOptions['origin'],
      allowed: string | undefined,
    ])[] = [
      ['for it', ORIGIN, ORIGIN],
      ['for others', ['https://other.example'], undefined],
      ['against every origin', false, undefined],
      ['by a function for it', (origin, callback) => callback(null, origin === ORIGIN), ORIGIN],
      ['by a function against it', (_, callback) => callback(null, false), undefined],
      ['by a function that says nothing', (_, callback) => callback(null), undefined],
    ]
    for (const [what, origin, allowed] of DECISIONS) {
      it(`mcpHandler() does not set CORS headers if mcpCors() decided ${what}`, async () => {
        const app = appWith(adapterWith(), mcpCors({ origin } as McpCorsOptions))
        const preflight = request(app).options('/mcp').set('Access-Control-Request-Method', 'POST')
        for (const response of [
          await post(app).set('Origin', ORIGIN).expect(200),
          await request(app).get('/mcp').set('Origin', ORIGIN),
          await preflight.set('Origin', ORIGIN).expect(204),
        ])
          expect(response.headers['access-control-allow-origin']).to.equal(allowed)
      })
    }

    it('mcpHandler() does not set CORS headers if other middleware set the origin', async () => {
      const own: NodeMiddleware = (_req, res, next) => {
        res.setHeader('Access-Control-Allow-Origin', ORIGIN)
        next?.()
      }
      const { headers } = await request(appWith(adapterWith(), own))
        .options('/mcp')
        .set({ Origin: ORIGIN, 'Access-Control-Request-Method': 'POST' })
        .expect(204)
      expect(headers['access-control-allow-origin']).to.equal(ORIGIN)
      expect(headers['access-control-allow-headers']).to.match(/^Authorization,/)
    })
  })

  describe('streams', () => {
    it('a stream is written as it is produced, until the client disconnects', async () => {
      let closed: Promise<unknown> | undefined
      const watch = (_req: unknown, res: NodeJS.EventEmitter, next: () => void) => {
        closed = once(res, 'close')
        next()
      }
      const { origin } = await listen(appWith(adapterWith(), watch))
      const abort = new AbortController()
      const response = await fetch(`${origin}/mcp`, {
        headers: { ...AUTHORIZATION, accept: 'text/event-stream' },
        signal: abort.signal,
      })
      expect(response.status).to.equal(200)
      expect(response.headers.get('content-type')).to.match(/^text\/event-stream/)
      abort.abort()
      await closed
    })

    it('a stream is written completely, and no faster than the client reads', async () => {
      const { origin } = await listen(appWith())
      const times = 8_000_000
      const response = await fetch(`${origin}/mcp`, {
        method: 'POST',
        headers: { ...AUTHORIZATION, ...ACCEPT, 'content-type': 'application/json' },
        body: JSON.stringify(call('repeat', { times })),
      })
      expect(response.status).to.equal(200)
      expect((await response.text()).split('x')).to.have.length.above(times)
    })
  })

  describe('an adapter without OAuth behind mcpAuth(oauthOptions)', () => {
    const open = createMcpAdapter({ router })

    it('an adapter without OAuth behind mcpAuth(oauthOptions) gets the user and checks its scopes', async () => {
      const options = oauthOptions(
        { scopeImplies: { 'mcp:admin': ['mcp:write'] } },
        { clientId: 'cli', scopes: ['mcp:admin'] },
      )
      const app = appWith(open, mcpAuth(options))
      expect((await post(app, call('whoami')).expect(200)).text).to.include('cli')
      expect((await post(app, call('write')).expect(200)).text).to.include('written')
      const poor = appWith(open, mcpAuth(oauthOptions()))
      const { body } = await post(poor, call('write')).expect(403)
      expect(body).to.include({ error: 'insufficient_scope', scope: 'mcp:write' })
    })
  })
})
