import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import express, { type ErrorRequestHandler, type RequestHandler } from 'express'
import request from 'supertest'
import { z } from 'zod'
import { writeResponse } from '../../src/express/node-response.ts'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpHandler } from '../../src/index.ts'
import { fromResponse, type StreamResponse } from '../../src/mcp/wire/event-stream.ts'
import type { OAuthOptions, VerifiedToken } from '../../src/oauth/options.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { RawConnection, rawRequest } from '../support/raw-http.ts'

const HOST = 'Host: 127.0.0.1'

describe('a web-standard response', () => {
  /** Serves the response of `make()` and fetches it. */
  async function served(make: () => Response, init?: RequestInit): Promise<Response> {
    const { origin } = await listen(
      async (req, res) => void writeResponse(req, res, await fromResponse(make())),
    )
    return await fetch(origin, init)
  }

  it('a web-standard response keeps status, headers, and body, with the length of JSON', async () => {
    const response = await served(() =>
      Response.json({ name: 'é' }, { status: 404, headers: { 'x-kept': 'yes' } }),
    )
    expect(response.status).to.equal(404)
    expect(response.headers.get('x-kept')).to.equal('yes')
    expect(response.headers.get('content-length')).to.equal('13')
    expect(await response.json()).to.deep.equal({ name: 'é' })
  })

  it('a web-standard response may have no body', async () => {
    const response = await served(() => new Response(null, { status: 202 }))
    expect(response.status).to.equal(202)
    expect(await response.text()).to.equal('')
  })

  it('a web-standard response to HEAD has no body', async () => {
    const response = await served(() => new Response('hello'), { method: 'HEAD' })
    expect(response.status).to.equal(200)
    expect(await response.text()).to.equal('')
  })

  it('a web-standard response does not set connection headers of Node.js', async () => {
    const headers = { connection: 'close', 'transfer-encoding': 'gzip', 'content-type': 'text/plain' }
    const response = await served(() => new Response('hello', { headers }))
    expect(response.headers.get('connection')).to.equal('keep-alive')
    expect(await response.text()).to.equal('hello')
  })

  it('a web-standard response is sent piece by piece', async () => {
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array>({
      start(given) {
        controller = given
      },
    })
    const response = await served(
      () => new Response(body, { headers: { 'content-type': 'text/event-stream' } }),
    )
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    for (const piece of ['data: 1\n\n', 'data: 2\n\n']) {
      controller?.enqueue(Buffer.from(piece))
      expect(Buffer.from((await reader.read()).value ?? []).toString()).to.equal(piece)
    }
    controller?.close()
    expect((await reader.read()).done).to.equal(true)
  })

  it('a web-standard response that fails midway does not look complete', async () => {
    const body = () =>
      new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(Buffer.from('half')),
        pull: (controller) => controller.error(new Error('the source is gone')),
      })
    const response = await served(
      () => new Response(body(), { headers: { 'content-type': 'text/event-stream' } }),
    )
    const failure = await response.text().then(
      (text) => `ended as ${text}`,
      () => 'broke off',
    )
    expect(failure).to.equal('broke off')
  })

  it('a web-standard response is canceled when the client disconnects, before or while it is read', async () => {
    const cancelled: string[] = []
    let cancel: (() => void) | undefined
    const bothCancelled = new Promise<void>((resolve) => {
      cancel = () => cancelled.length === 2 && resolve()
    })
    const endless = (name: string): StreamResponse => ({
      status: 200,
      headers: {},
      body: new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(Buffer.alloc(65_536)),
        cancel() {
          cancelled.push(name)
          cancel?.()
        },
      }),
    })
    const { port } = await listen((req, res) => {
      if (req.url === '/during') return void writeResponse(req, res, endless('during'))
      res.once('close', () => void writeResponse(req, res, endless('before')))
      res.write('x')
    })
    for (const path of ['/during', '/before']) {
      const { close } = await openAndRead(port, path)
      close()
    }
    await bothCancelled
    expect(cancelled).to.have.members(['during', 'before'])
  })
})

/** A client that reads the first bytes of a response and then stops. */
async function openAndRead(port: number, path: string): Promise<{ close: () => void }> {
  const abort = new AbortController()
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: abort.signal })
  await response.body?.getReader().read()
  return { close: () => abort.abort() }
}

describe('a plain response', () => {
  it('a plain response keeps the headers that were set before, and adds to Vary', async () => {
    const adapter = createMcpAdapter({ router: KitMcpRouter.create(), oauth: oauthOptions() })
    const app = express()
      .use((_, res, next) => {
        res.set({ Vary: 'Accept-Encoding', 'X-Kept': 'yes' })
        next()
      })
      .use(mcpHandler(adapter) as RequestHandler)
    const { headers } = await request(app)
      .options('/')
      .set({ Origin: 'http://localhost', 'Access-Control-Request-Method': 'POST' })
      .expect(204)
    expect(headers).to.include({ vary: 'Accept-Encoding, Access-Control-Request-Headers', 'x-kept': 'yes' })
  })

  it('a plain response does not wait forever for a body that nothing reads', async () => {
    const { setTimeout: realSetTimeout } = globalThis
    // Skips five seconds.
    globalThis.setTimeout = ((run: () => void, ms: number, ...rest: []) =>
      realSetTimeout(run, ms === 5_000 ? 10 : ms, ...rest)) as typeof setTimeout
    try {
      let gone: Promise<unknown> | undefined
      const gate = mcpAuth(oauthOptions())
      const { port } = await listen((req, res) => {
        gone = once(req.socket, 'close')
        gate(req, res)
      })
      const connection = await RawConnection.open(port)
      const response = await connection.send(`POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 10\r\n\r\n`)
      expect(response.status).to.equal(401)
      await gone
    } finally {
      globalThis.setTimeout = realSetTimeout
    }
  })
})

describe('an error inside mcpHandler()', () => {
  const boom = new Error('boom')
  const broken = (res: ServerResponse) => {
    res.setHeader = () => {
      throw boom
    }
  }
  const handler = mcpHandler(createMcpAdapter({ router: KitMcpRouter.create(), oauth: oauthOptions() }))

  it('an error inside mcpHandler() reaches the error handler of Express', async () => {
    const onError: ErrorRequestHandler = (error, _req, res, _next) => {
      delete (res as Partial<ServerResponse>).setHeader
      res.status(418).end(error === boom ? 'the very error' : String(error))
    }
    const app = express()
      .use((_, res, next) => {
        broken(res)
        next()
      })
      .use(handler as RequestHandler, onError)
    const { text } = await request(app).post('/').expect(418)
    expect(text).to.equal('the very error')
  })

  it('an error inside mcpHandler() without an error handler ends the connection', async () => {
    const { port } = await listen((req, res) => {
      broken(res)
      handler(req, res)
    })
    const outcome = await rawRequest(port, { headers: [HOST] }).then(
      () => 'answered',
      () => 'ended',
    )
    expect(outcome).to.equal('ended')
  })
})

describe('a request object without raw headers', () => {
  for (const [authorization, status] of [
    ['Bearer good', 299],
    ['Bearer', 401],
    [undefined, 401],
  ] as const) {
    it(`a request object without raw headers is verified by its headers: ${authorization}`, async () => {
      const verified: unknown[] = []
      const verifyToken: OAuthOptions['verifyToken'] = ({ bearerToken, request: asked }) => {
        verified.push(asked.headers.get('x-kept'), asked.headers.get('set-cookie'))
        return { valid: bearerToken === 'good' }
      }
      const { origin } = await listen((req, res) => {
        const headers = {
          host: 'localhost',
          'x-kept': 'yes',
          'set-cookie': ['a', 'b'],
          ...(authorization && { authorization }),
        }
        const made = Object.create(req, { headers: { value: headers }, rawHeaders: { value: undefined } })
        mcpAuth(oauthOptions({ verifyToken }))(made, res, () => res.writeHead(299).end())
      })
      expect((await fetch(origin)).status).to.equal(status)
      expect(verified).to.deep.equal(['yes', 'a, b'])
    })
  }
})

describe('a client that disconnects early', () => {
  it('a client that disconnects before its token is verified has no further effect', async () => {
    let answer: ((result: VerifiedToken) => void) | undefined
    let response: ServerResponse | undefined
    let called = 0
    const router = KitMcpRouter.create().context(() => {
      called++
      return {}
    })
    const verifyToken = () =>
      new Promise<VerifiedToken>((resolve) => {
        answer = resolve
      })
    const adapter = createMcpAdapter({ router, oauth: oauthOptions({ verifyToken }) })
    const app = express().use(express.json(), (_, res, next) => {
      response = res
      next()
    })
    const { port } = await listen(app.use(mcpHandler(adapter) as RequestHandler))
    const connection = await RawConnection.open(port)
    const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    const head = `POST / HTTP/1.1\r\n${HOST}\r\nAuthorization: Bearer good\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
    connection.send(`${head}\r\n\r\n${body}`).catch(() => undefined)
    while (answer === undefined) await new Promise(setImmediate)
    connection.close()
    const res = response as ServerResponse
    if (!res.destroyed) await once(res, 'close')
    answer({ valid: true })
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect({ called, headersSent: res.headersSent }).to.deep.equal({ called: 1, headersSent: false })
  })
})

describe('mcpHandler behind middleware that has set an encoding', () => {
  for (const name of ['Ada', 'Zoë']) {
    it(`mcpHandler reads a body whose encoding middleware has set: ${name}`, async () => {
      const router = KitMcpRouter.create().tool(
        'echo',
        { description: 'Echoes', input: z.object({ name: z.string() }) },
        (args) => args.name,
      )
      const handler = mcpHandler(createMcpAdapter({ router }))
      const { origin } = await listen((req, res) => {
        req.setEncoding('utf8')
        handler(req, res)
      })
      const params = { name: 'echo', arguments: { name } }
      const response = await fetch(origin, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      })
      expect(response.status).to.equal(200)
      expect(await response.text()).to.contain(name)
    })
  }
})
