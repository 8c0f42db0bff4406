import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { constants } from 'node:http2'
import { request as httpsRequest } from 'node:https'
import { createRequire } from 'node:module'
import { text } from 'node:stream/consumers'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { z } from 'zod'
import { KitMcpRouter, mcpAuth, mcpHandler, type NodeMiddleware } from '../../src/index.ts'
import { type CreateMcpAdapterOptions, createMcpAdapter } from '../../src/mcp/adapter.ts'
import { endpointOf } from '../../src/mcp/endpoint-of.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { Http2Exchange, listenHttp2 } from '../support/http2.ts'
import { listen } from '../support/listen.ts'
import { call, definedOf, eventsOf, legacy, modern, rpc, type WireRequest } from '../support/mcp/wire.ts'
import { RawConnection } from '../support/raw-http.ts'
import { runs } from '../support/runs.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'
import { until } from '../support/until.ts'

/** Express 4. Its declarations are not installed; the members in use are the same in Express 5. */
const express4: typeof express = createRequire(import.meta.url)('express4')

interface Answered {
  readonly status: number
  readonly message: any
}

/** A server that receives each chunk of a body as it was sent. */
interface Target {
  send(headers: WireRequest['headers'], chunks: readonly Buffer[], unfinished?: boolean): Promise<Answered>
  close(): Promise<void>
}

type Setup = Omit<CreateMcpAdapterOptions, 'router'>

const router = KitMcpRouter.create().tool(
  'echo',
  { description: 'x', input: z.looseObject({ text: z.string().optional() }) },
  (args) => args.text ?? 'nothing',
)

function answered(status: number, said: string): Answered {
  return { status, message: said.startsWith('{') ? JSON.parse(said) : eventsOf(said).at(-1) }
}

/** HTTP/1.1 on a raw connection: each part is one chunk (RFC 9112 §7.1). */
async function onHttp1(middleware: readonly unknown[], app?: typeof express): Promise<Target> {
  const { port } = await listen(
    app === undefined
      ? (middleware[0] as NodeMiddleware)
      : app()
          .set('env', 'test')
          .use('/mcp', ...(middleware as RequestHandler[])),
  )
  return {
    async send(headers = {}, chunks, unfinished = false) {
      const connection = await RawConnection.open(port)
      const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}`)
      const frames = chunks.flatMap((chunk) =>
        chunk.length === 0 ? [] : [`${chunk.length.toString(16)}\r\n${chunk.toString('latin1')}\r\n`],
      )
      const head = ['POST /mcp HTTP/1.1', 'Host: 127.0.0.1', 'Transfer-Encoding: chunked', ...lines, '', '']
      const last = unfinished ? '' : '0\r\n\r\n'
      const { status, body } = await connection.send(head.join('\r\n') + frames.join('') + last)
      connection.close()
      return answered(status, body)
    },
    close: async () => undefined,
  }
}

/** HTTP/2: each part is one frame. */
async function onHttp2(middleware: NodeMiddleware, secure: boolean): Promise<Target> {
  const served = await listenHttp2(middleware, secure)
  const session = await served.connect()
  return {
    async send(headers = {}, chunks, unfinished = false) {
      const exchange = new Http2Exchange(session, definedOf(headers))
      for (const chunk of chunks) exchange.stream.write(chunk)
      if (!unfinished) exchange.stream.end()
      const [status, { text: said }] = await Promise.all([exchange.status, exchange.closed])
      return answered(status, said)
    },
    close: () => served.close(),
  }
}

/** HTTP/1.1 over TLS, on a server that also speaks HTTP/2. */
async function onHttp1OfHttp2(middleware: NodeMiddleware): Promise<Target> {
  const served = await listenHttp2(middleware, true)
  return {
    async send(headers = {}, chunks, unfinished = false) {
      const outgoing = httpsRequest(`https://127.0.0.1:${served.port}/mcp`, {
        method: 'POST',
        agent: false,
        rejectUnauthorized: false,
        headers: definedOf(headers),
      })
      outgoing.on('error', () => undefined)
      for (const chunk of chunks) outgoing.write(chunk)
      if (!unfinished) outgoing.end()
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      const said = await text(response)
      outgoing.destroy()
      return answered(response.statusCode ?? 0, said)
    },
    close: () => served.close(),
  }
}

/** The web-standard handler: each part is one chunk of the stream. */
function onWeb(setup: CreateMcpAdapterOptions): Target {
  const { server } = createMcpAdapter(setup)
  return {
    async send(headers = {}, chunks, unfinished = false) {
      let index = 0
      const body = new ReadableStream({
        pull(controller) {
          if (index < chunks.length) controller.enqueue(chunks[index++])
          else if (!unfinished) controller.close()
        },
      })
      const init = { method: 'POST', headers: definedOf(headers), body, duplex: 'half' as const }
      const response = await server(new Request('http://localhost/mcp', init))
      return answered(response.status, await response.text())
    },
    close: async () => undefined,
  }
}

const TARGETS: Readonly<Record<string, (setup: CreateMcpAdapterOptions) => Promise<Target>>> = {
  'Express 5': (setup) => onHttp1([mcpHandler(createMcpAdapter(setup))], express),
  'Express 4': (setup) => onHttp1([mcpHandler(createMcpAdapter(setup))], express4),
  'Express 5 behind mcpAuth': (setup) => {
    const adapter = createMcpAdapter({ ...setup, oauth: oauthOptions() })
    return onHttp1([mcpAuth(adapter), mcpHandler(adapter)], express)
  },
  'Express 5 behind express.json': (setup) =>
    onHttp1([express.json({ limit: '16mb' }), mcpHandler(createMcpAdapter(setup))], express),
  'Express 4 behind express.json': (setup) =>
    onHttp1([express4.json({ limit: '16mb' }), mcpHandler(createMcpAdapter(setup))], express4),
  'Express 5 behind express.text': (setup) =>
    onHttp1(
      [express.text({ limit: '16mb', type: () => true }), mcpHandler(createMcpAdapter(setup))],
      express,
    ),
  'node:http': (setup) => onHttp1([mcpHandler(createMcpAdapter(setup))]),
  'node:http with OAuth': (setup) =>
    onHttp1([mcpHandler(createMcpAdapter({ ...setup, oauth: oauthOptions() }))]),
  'node:http2': (setup) => onHttp2(mcpHandler(createMcpAdapter(setup)), false),
  'node:http2 over TLS': (setup) => onHttp2(mcpHandler(createMcpAdapter(setup)), true),
  'HTTP/1.1 on node:http2': (setup) => onHttp1OfHttp2(mcpHandler(createMcpAdapter(setup))),
  'the web-standard handler': async (setup) => onWeb(setup),
  'the web-standard handler with OAuth': async (setup) => onWeb({ ...setup, oauth: oauthOptions() }),
}

const bytesOf = (request: WireRequest): Buffer => Buffer.from(request.body as string)
const inBytes = (bytes: Buffer): Buffer[] => Array.from(bytes, (_, index) => bytes.subarray(index, index + 1))
const token = { authorization: 'Bearer good' }

/** The size of bodies that are sent in chunks of 1 byte. */
const SMALL_BODY = runs(65_536)

/** The position in a request at which the JSON is deep. */
const HERE = 'here'

const arrays = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)
const objects = (levels: number): string => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`

interface Deep {
  readonly request: WireRequest
  /** The nesting levels around `HERE`, including the message. */
  readonly around: number
  readonly within: (levels: number) => string
}

/** Requests with JSON of a given depth. Each succeeds if the depth is allowed. */
const DEEP: Readonly<Record<string, Deep>> = {
  'arrays in arguments of 2025-11-25': {
    request: legacy(call('echo', { deep: HERE }), token),
    around: 3,
    within: arrays,
  },
  'objects in arguments of 2025-11-25': {
    request: legacy(call('echo', { deep: HERE }), token),
    around: 3,
    within: objects,
  },
  'arrays in arguments of 2026-07-28': {
    request: modern('tools/call', { name: 'echo', arguments: { deep: HERE } }, token),
    around: 3,
    within: arrays,
  },
  'arrays in _meta of 2025-11-25': {
    request: legacy(rpc('tools/call', { name: 'echo', arguments: {}, _meta: { deep: HERE } }), token),
    around: 3,
    within: arrays,
  },
  'objects in _meta of 2026-07-28': {
    request: modern('tools/call', { name: 'echo', _meta: { deep: HERE } }, token),
    around: 3,
    within: objects,
  },
  'client capabilities of 2026-07-28': {
    request: modern(
      'tools/call',
      {
        name: 'echo',
        _meta: { 'io.modelcontextprotocol/clientCapabilities': { experimental: { x: HERE } } },
      },
      token,
    ),
    around: 5,
    within: objects,
  },
  'objects in a batch': {
    request: legacy([call('echo', { deep: HERE })], { ...token, 'mcp-protocol-version': undefined }),
    around: 4,
    within: objects,
  },
}

/** Returns the message of a response, or the only message of a batch. */
const only = ({ message }: Answered): any => (Array.isArray(message) ? message[0] : message)

for (const [name, start] of Object.entries(TARGETS)) {
  describe(`bodies on ${name}`, () => {
    const parsesItself = !name.includes('behind express.')
    let target: Target
    beforeEach(async () => {
      target = await start({ router, maxBodyBytes: 70_000, bodyTimeoutMs: 2_000 })
    })
    afterEach(() => target.close())

    async function expectServed(): Promise<void> {
      const request = legacy(call('echo', { text: 'honest' }), token)
      const { status, message } = await target.send(request.headers, [bytesOf(request)])
      expect(status).to.equal(200)
      expect(message.result.content[0].text).to.equal('honest')
    }

    // express.json() reads the body first, with its own limit.
    if (!name.includes('express.json'))
      it(`${name}: a body of 1 byte more than allowed, in chunks of 1 byte: 413, and the next request succeeds`, async () => {
        await target.close()
        target = await start({ router, maxBodyBytes: SMALL_BODY })
        const { headers, body } = legacy(call('echo', {}), token)
        const padded = Buffer.from(String(body).padEnd(SMALL_BODY + 1))
        const { status, message } = await target.send(headers, inBytes(padded))
        expect({ status, code: message.error.code }).to.deep.equal({ status: 413, code: -32_000 })
        await expectServed()
      })

    // A body parser in front waits without a limit of time.
    if (parsesItself)
      it(`${name}: a body that never ends: 408 after bodyTimeoutMs, and the next request succeeds`, async () => {
        await target.close()
        target = await start({ router, bodyTimeoutMs: 50 })
        const { headers } = legacy('', token)
        const { status, message } = await target.send(headers, inBytes(Buffer.from('{"jsonrpc"')), true)
        expect({ status, code: message.error.code }).to.deep.equal({ status: 408, code: -32_000 })
        await expectServed()
      })

    it(`${name}: ${SMALL_BODY} bytes in chunks of 1 byte, which split characters: the body is read correctly`, async () => {
      const said = '€é🙂'.repeat(Math.floor(SMALL_BODY / 9))
      const request = legacy(call('echo', { text: said }), token)
      const { status, message } = await target.send(request.headers, inBytes(bytesOf(request)))
      expect(status).to.equal(200)
      expect(message.result.content[0].text === said).to.equal(true)
    })

    it(`${name}: a body in 1 large and many small chunks: the body is read correctly`, async () => {
      const request = legacy(call('echo', { text: 'x'.repeat(60_000) }), token)
      const bytes = bytesOf(request)
      const chunks = [bytes.subarray(0, 40_000), ...inBytes(bytes.subarray(40_000, 41_000))]
      chunks.push(Buffer.alloc(0), bytes.subarray(41_000))
      expect((await target.send(request.headers, chunks)).status).to.equal(200)
    })

    for (const [what, { request, around, within }] of Object.entries(DEEP))
      it(`${name}: JSON of 129 and of 10 000 levels: ${what}: 400 with -32600; 128 levels are accepted`, async () => {
        for (const levels of [128, 129, 10_000]) {
          const body = String(request.body).replace(JSON.stringify(HERE), within(levels - around))
          const answer = await target.send(request.headers, [Buffer.from(body)])
          expect(answer.status, `${levels} levels`).to.equal(levels === 128 ? 200 : 400)
          if (levels === 128) expect(only(answer)?.error).to.equal(undefined)
          else expect(only(answer).error.code).to.equal(-32_600)
        }
        await expectServed()
      })
  })
}

/** Requests whose responses never end, for each kind of response. */
const ENDLESS: Readonly<Record<string, { setup?: Partial<Setup>; direct?: boolean; request: WireRequest }>> =
  {
    'a call of 2025-11-25': { request: legacy(call('wait'), token) },
    'a call of 2026-07-28': { request: modern('tools/call', { name: 'wait' }, token) },
    'a call of 2025-11-25 through the SDK': { direct: false, request: legacy(call('wait'), token) },
    'a call of 2026-07-28 through the SDK': {
      direct: false,
      request: modern('tools/call', { name: 'wait' }, token),
    },
    'a call that reports progress': {
      request: modern('tools/call', { name: 'report', _meta: { progressToken: 1 } }, token),
    },
  }

function collector(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}

describe('bodies: clients that disconnect', () => {
  const COUNT = 50

  for (const secure of [false, true]) {
    for (const [what, { request, direct = true }] of Object.entries(ENDLESS))
      for (const ends of ['the stream', 'the connection'] as const)
        it(`HTTP/2${secure ? ' over TLS' : ''}: ${COUNT} × ${what}, then ${ends} is cancelled: context.signal aborts, and nothing is retained`, async () => {
          const state = { begun: 0, aborted: 0 }
          const wait = async (signal: AbortSignal): Promise<void> => {
            state.begun++
            if (!signal.aborted) await once(signal, 'abort')
            state.aborted++
          }
          const waiting = KitMcpRouter.create()
            .tool('wait', { description: 'x' }, (_args, { signal }) => wait(signal))
            .tool('report', { description: 'x' }, async (_args, { signal, progress }) => {
              await progress(1)
              await wait(signal)
            })
          const adapter = createMcpAdapter({ router: waiting, oauth: oauthOptions() })
          const service = endpointOf(adapter)
          if (service !== undefined) service.sdkHandler.usesFastPath = direct
          const handler = mcpHandler(adapter)
          const retained: WeakRef<object>[] = []
          const served = await listenHttp2((req, res) => {
            retained.push(new WeakRef(req), new WeakRef(res))
            handler(req, res)
          }, secure)
          try {
            const session = await served.connect()
            const exchanges = Array.from({ length: COUNT }, () => {
              const exchange = new Http2Exchange(session, definedOf(request.headers ?? {}))
              exchange.stream.end(request.body)
              return exchange
            })
            await until(() => state.begun === COUNT)
            if (ends === 'the connection') session.destroy()
            else for (const { stream } of exchanges) stream.close(constants.NGHTTP2_CANCEL)
            await until(() => state.aborted === COUNT)
            await Promise.all(exchanges.map(({ closed }) => closed))
            session.destroy()
            const collect = collector()
            await until(() => {
              collect()
              // The engine can keep the last few objects alive.
              return retained.filter((ref) => ref.deref() !== undefined).length <= 4
            }, 5)
          } finally {
            await served.close()
          }
        })
  }

  it('HTTP/1.1 pipelines: 5 calls on one connection that closes before any response: context.signal of every call aborts', async () => {
    const state = { begun: 0, aborted: 0 }
    const waiting = KitMcpRouter.create().tool('wait', { description: 'x' }, async (_args, { signal }) => {
      state.begun++
      if (!signal.aborted) await once(signal, 'abort')
      state.aborted++
    })
    const { port } = await listen(mcpHandler(createMcpAdapter({ router: waiting })))
    const connection = await RawConnection.open(port)
    const { headers = {}, body = '' } = legacy(call('wait'))
    const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}\r\n`)
    const one = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${body}`
    connection.sendTogether(Array.from({ length: 5 }, () => one)).catch(() => undefined)
    await until(() => state.begun === 5)
    connection.close()
    await until(() => state.aborted === 5)
  })
})

describe('bodies: the rest of a rejected body on HTTP/2', () => {
  const refused: Readonly<
    Record<string, { status: number; headers: WireRequest['headers']; chunk: string }>
  > = {
    'after 413': { status: 413, headers: legacy('', token).headers, chunk: 'x'.repeat(2_000) },
    'after 413 for its length': {
      status: 413,
      headers: legacy('', { ...token, 'content-length': '1000000' }).headers,
      chunk: 'x',
    },
    'after 408': { status: 408, headers: legacy('', token).headers, chunk: '{' },
    'after 401': { status: 401, headers: legacy('').headers, chunk: '{' },
    'after 415': {
      status: 415,
      headers: legacy('', { ...token, 'content-type': 'text/plain' }).headers,
      chunk: '{',
    },
  }
  for (const [what, { status, headers = {}, chunk }] of Object.entries(refused))
    it(`HTTP/2 bodies: a body that continues ${what}: the whole response, then RST_STREAM with NO_ERROR; the connection stays open`, async () => {
      const adapter = createMcpAdapter({
        router,
        oauth: oauthOptions(),
        maxBodyBytes: 1_000,
        bodyTimeoutMs: 30,
      })
      const served = await listenHttp2(mcpHandler(adapter))
      try {
        const session = await served.connect()
        const exchange = new Http2Exchange(session, definedOf(headers))
        exchange.stream.write(chunk)
        expect(await exchange.status).to.equal(status)
        const { text: said, rstCode } = await exchange.closed
        expect(rstCode).to.equal(constants.NGHTTP2_NO_ERROR)
        expect(JSON.parse(said)).to.have.property('error')
        const honest = legacy(call('echo', { text: 'honest' }), token)
        const next = new Http2Exchange(session, definedOf(honest.headers ?? {}))
        next.stream.end(honest.body)
        expect(await next.status).to.equal(200)
      } finally {
        await served.close()
      }
    })
})

describe('bodies: telemetry of clients that disconnect', () => {
  const setup = () => {
    const { telemetry, transport } = keepingEvents()
    const statusOf = async (): Promise<unknown> => {
      const completed = () => transport.getEvents().filter(({ name }) => name === 'kit.mcp.request.completed')
      await until(() => completed().length > 0, 1)
      return completed().map(({ attributes }) => attributes?.['http.response.status_code'])
    }
    const adapter = createMcpAdapter({ router, telemetry, oauth: oauthOptions() })
    return { adapter, statusOf }
  }
  const head = (extra: string): string => {
    const lines = Object.entries(definedOf(legacy('', token).headers ?? {})).map(
      ([name, value]) => `${name}: ${value}`,
    )
    return ['POST /mcp HTTP/1.1', 'Host: 127.0.0.1', ...lines, extra, '', ''].join('\r\n')
  }

  const onWire: Readonly<Record<string, (middleware: NodeMiddleware[]) => Promise<{ port: number }>>> = {
    'node:http': ([first, second]) =>
      listen((req, res) => first?.(req, res, second && (() => second(req, res)))),
    Express: (middleware) => listen(express().use(...(middleware as unknown as RequestHandler[]))),
  }
  for (const [name, serve] of Object.entries(onWire))
    for (const isBehindAuth of [true, false])
      for (const framing of ['Content-Length: 100', 'Transfer-Encoding: chunked'])
        for (const way of ['destroy', 'end'] as const)
          it(`disconnects: ${framing} on ${name}${isBehindAuth ? ' behind mcpAuth' : ''}, then ${way} within the body: counted once, as 499`, async () => {
            const { adapter, statusOf } = setup()
            const auth = isBehindAuth ? [mcpAuth(adapter)] : []
            let request: IncomingMessage | undefined
            const watch: NodeMiddleware = (req, res) => {
              request = req
              mcpHandler(adapter)(req, res)
            }
            const { port } = await serve([...auth, watch])
            const { connect } = await import('node:net')
            const socket = connect(port, '127.0.0.1')
            socket.on('error', () => undefined)
            socket.resume().write(head(framing) + (framing.startsWith('C') ? '{' : '1\r\n{\r\n'))
            await until(() => request?.readableDidRead === true)
            socket[way]()
            expect(await statusOf()).to.deep.equal([499])
            socket.destroy()
          })

  it('disconnects: a cancelled HTTP/2 stream within the body: counted once, as 499', async () => {
    const { adapter, statusOf } = setup()
    let reading = false
    const served = await listenHttp2((req, res) => {
      mcpHandler(adapter)(req, res)
      req.once('data', () => {
        reading = true
      })
    })
    const exchange = new Http2Exchange(await served.connect(), definedOf(legacy('', token).headers ?? {}))
    exchange.stream.write('{')
    await until(() => reading)
    exchange.stream.close(constants.NGHTTP2_CANCEL)
    expect(await statusOf()).to.deep.equal([499])
    await served.close()
  })

  for (const how of ['aborts', 'aborts and fails'])
    it(`disconnects: a request of the web-standard handler that ${how} within the body: counted once, as 499`, async () => {
      const { adapter, statusOf } = setup()
      const abort = new AbortController()
      let stream: ReadableStreamDefaultController | undefined
      const body = new ReadableStream({
        start: (controller) => {
          stream = controller
        },
      })
      const init = { method: 'POST', headers: definedOf(legacy('', token).headers ?? {}), body }
      const answering = adapter.server(
        new Request('http://localhost/mcp', { ...init, signal: abort.signal, duplex: 'half' }),
      )
      stream?.enqueue(Buffer.from('{'))
      await until(() => body.locked)
      if (how !== 'aborts') stream?.error(new Error('gone'))
      abort.abort()
      await answering
      expect(await statusOf()).to.deep.equal([499])
    })

  it('disconnects: a body that is too large, too slow, or not JSON, from a client that stays connected: counted as 413, 408, and 400', async () => {
    for (const [status, chunk, end] of [
      [413, 'x'.repeat(5_000_000), true],
      [400, '{', true],
      [408, '{', false],
    ] as const) {
      const { telemetry, transport } = keepingEvents()
      const target = await onHttp1([
        mcpHandler(createMcpAdapter({ router, telemetry, oauth: oauthOptions(), bodyTimeoutMs: 500 })),
      ])
      await target.send(legacy('', token).headers, [Buffer.from(chunk)], !end)
      const completed = () => transport.getEvents().filter(({ name }) => name.endsWith('request.completed'))
      await until(() => completed().length > 0, 1)
      expect(completed()[0]?.attributes).to.include({ 'http.response.status_code': status })
    }
  })
})
