import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, get, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer, get as getOverTls, Agent as TlsAgent } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import express from 'express'
import { gracefulShutdown } from '../../../src/base/shutdown/graceful-shutdown.ts'
import { createMcpAdapter, KitMcpRouter, KitTelemetry, mcpHandler } from '../../../src/index.ts'
import { InMemoryTransportAdapter } from '../../../src/telemetry/transports/in-memory.ts'
import { Http2Exchange, listenHttp2 } from '../../support/http2.ts'
import { TaskClient } from '../../support/mcp/tasks.ts'
import { call, legacy, modern, send, signalled } from '../../support/mcp/wire.ts'
import { keepingEvents } from '../../support/telemetry/recording.ts'

/** A connection, and everything that was received on it. */
class Wire {
  readonly socket: Socket
  text = ''
  readonly ended: Promise<unknown>

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.setEncoding('latin1').on('data', (chunk: string) => {
      this.text += chunk
    })
    this.socket.on('error', () => undefined)
    this.ended = once(this.socket, 'close')
    // A connection may fail before the test waits for its end.
    this.ended.catch(() => undefined)
  }

  write(...lines: string[]): void {
    this.socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  }

  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.text)) {
      if (this.socket.destroyed) throw new Error(`closed after: ${this.text}`)
      await Promise.race([once(this.socket, 'data'), this.ended])
    }
    return this.text
  }
}

describe('gracefulShutdown', () => {
  let server: Server
  let wires: Wire[]

  beforeEach(() => {
    wires = []
  })
  afterEach(() => {
    for (const { socket } of wires) socket.destroy()
    server?.closeAllConnections()
    server?.close()
  })

  async function open<Stats>(
    listener: RequestListener,
    options: Parameters<typeof gracefulShutdown<Stats>>[1] = {},
  ) {
    server = createServer(listener)
    const shutdown = gracefulShutdown<Stats>(server, { timeoutMs: 4000, ...options })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const wire = (): Wire => {
      const one = new Wire(port)
      wires.push(one)
      return one
    }
    return { shutdown, port, wire }
  }

  /** A listener that responds to `/slow` on demand, and to everything else at once. */
  function slowly() {
    const begun = signalled()
    const go = signalled()
    const listener: RequestListener = async (req, res) => {
      if (req.url === '/slow') {
        begun.resolve()
        await go.promise
      }
      res.end(`answer to ${req.url}`)
    }
    return { begun: begun.promise, go: go.resolve, listener }
  }

  it('a server without requests closes at once', async () => {
    const { shutdown } = await open((_req, res) => res.end())
    expect(await shutdown.close()).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    expect(server.listening).to.equal(false)
  })

  for (const [what, ends, status] of [
    ['ends in time', true, 'completed'],
    ['does not end in time', false, 'failed'],
  ] as const) {
    it(`a task that ${what} is ${status} when the shutdown is complete, also for telemetry`, async () => {
      const started = signalled()
      const ended = signalled()
      const { telemetry, transport: events } = keepingEvents()
      const router = KitMcpRouter.create().tool('job', { description: 'x', task: 'required' }, () => {
        started.resolve()
        return ended.promise
      })
      const adapter = createMcpAdapter({ router, telemetry })
      server = createServer(mcpHandler(adapter))
      const { tasks } = adapter
      const shutdown = gracefulShutdown(server, { tasks, telemetry, timeoutMs: ends ? 5_000 : 200 })
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const { port } = server.address() as AddressInfo
      await new TaskClient({ send: (request) => send(port, request) }).start('job')
      await started.promise
      const closed = shutdown.close()
      if (ends) ended.resolve()
      await closed
      const names = events.getEvents().map(({ name }) => name)
      expect(names).to.include(`kit.mcp.task.${status}`)
      if (ends) expect(tasks.running).to.equal(0)
      ended.resolve()
    })
  }

  it('a server that never listened closes', async () => {
    server = createServer()
    expect(await gracefulShutdown(server).close()).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
  })

  it('idle keep-alive connections, and those that never sent anything, are closed', async () => {
    const { shutdown, wire } = await open((_req, res) => res.end('hello'), { timeoutMs: 500 })
    const [used, silent] = [wire(), wire()]
    await once(silent.socket, 'connect')
    used.write('GET / HTTP/1.1', 'Host: a')
    await used.until(/hello/)
    expect(await shutdown.close()).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    await Promise.all([used.ended, silent.ended])
  })

  it('with idleGraceMs, a request on each idle connection is served, and new connections are refused', async () => {
    const { shutdown, wire } = await open((_req, res) => res.end('hello'), { idleGraceMs: 1_000 })
    const [used, other, silent] = [wire(), wire(), wire()]
    await once(silent.socket, 'connect')
    for (const one of [used, other]) {
      one.write('GET / HTTP/1.1', 'Host: a')
      await one.until(/hello/)
    }
    const closing = shutdown.close()
    await new Promise((resolve) => setTimeout(resolve, 50))
    for (const one of [used, other]) {
      one.write('GET / HTTP/1.1', 'Host: a')
      await one.until(/hello[\s\S]*Connection: close[\s\S]*hello/i)
      await one.ended
    }
    const late = wire()
    const [refused] = await once(late.socket, 'error')
    expect(refused.code).to.equal('ECONNREFUSED')
    expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    await silent.ended
  })

  it('a running request finishes, and its response has Connection: close', async () => {
    const { begun, go, listener } = slowly()
    const { shutdown, wire } = await open(listener)
    const one = wire()
    one.write('GET /slow HTTP/1.1', 'Host: a')
    await begun
    const closing = shutdown.close()
    go()
    expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    await one.ended
    expect(one.text).to.match(/^HTTP\/1.1 200 OK\r\n/)
    expect(one.text).to.match(/\r\nConnection: close\r\n/i)
    expect(one.text).to.match(/answer to \/slow/)
  })

  it('a connection whose response promised keep-alive is closed', async () => {
    const go = signalled()
    const { shutdown, wire } = await open(async (_req, res) => {
      res.write('first half, ')
      await go.promise
      res.end('second half')
    })
    const one = wire()
    one.write('GET / HTTP/1.1', 'Host: a')
    await one.until(/first half/)
    const closing = shutdown.close()
    go.resolve()
    expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    await one.ended
    expect(one.text)
      .to.match(/Connection: keep-alive/i)
      .and.match(/second half\r\n0\r\n\r\n$/)
  })

  it('all requests of a pipeline are served before the connection closes', async () => {
    const { begun, go, listener } = slowly()
    const { shutdown, wire } = await open(listener)
    const one = wire()
    one.write(
      'GET /slow HTTP/1.1',
      'Host: a',
      '',
      'GET /b HTTP/1.1',
      'Host: a',
      '',
      'GET /slow HTTP/1.1',
      'Host: a',
    )
    await begun
    const closing = shutdown.close()
    // Another request arrives during the shutdown.
    one.write('GET /slow HTTP/1.1', 'Host: a')
    await new Promise((resolve) => setTimeout(resolve, 50))
    go()
    expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    await one.ended
    expect(one.text.match(/answer to \/(?:slow|b)/g)).to.deep.equal([
      'answer to /slow',
      'answer to /b',
      'answer to /slow',
      'answer to /slow',
    ])
    expect(one.text.match(/Connection: [\w-]+/gi)?.at(-1)).to.match(/close/i)
  })

  it('new connections are refused during the shutdown', async () => {
    const { begun, go, listener } = slowly()
    const { shutdown, wire } = await open(listener)
    wire().write('GET /slow HTTP/1.1', 'Host: a')
    await begun
    const closing = shutdown.close()
    const late = wire()
    const [error] = await once(late.socket, 'error')
    expect(error).to.have.property('code', 'ECONNREFUSED')
    go()
    await closing
  })

  it('a request that has begun is awaited, and one that never completes is not', async () => {
    const { shutdown, wire } = await open((req, res) => res.end(`answer to ${req.url}`))
    const [resumed, stalled] = [wire(), wire()]
    for (const one of [resumed, stalled]) one.socket.write('GET /half HTTP/1.1\r\n')
    await new Promise((resolve) => setTimeout(resolve, 50))
    const closing = shutdown.close()
    resumed.write('Host: a')
    await resumed.ended
    expect(resumed.text).to.match(/answer to \/half/)
    expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    await stalled.ended
    expect(stalled.text).to.not.match(/answer/)
  })

  it('a request that never ends is cut at the deadline, and is part of the report', async () => {
    const cut = signalled()
    const begun = signalled()
    const { shutdown, wire } = await open(
      (_req, res) => {
        res.once('close', () => cut.resolve())
        begun.resolve()
      },
      { timeoutMs: 100 },
    )
    const one = wire()
    one.write('GET / HTTP/1.1', 'Host: a')
    await begun.promise
    expect(await shutdown.close()).to.deep.equal({ openConnections: 1, pendingRequests: 1 })
    await Promise.all([one.ended, cut.promise])
  })

  for (const [when, isBefore] of [
    ['before', true],
    ['after', false],
  ] as const) {
    it(`an upgraded connection stays open until the deadline if upgrades are accepted ${when} the call`, async () => {
      const accept = (_req: IncomingMessage, socket: Socket): void => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
        socket.on('data', (data) => socket.write(data))
      }
      server = createServer((_req, res) => res.end())
      if (isBefore) server.on('upgrade', accept)
      const shutdown = gracefulShutdown(server, { timeoutMs: 2_500 })
      if (!isBefore) server.on('upgrade', accept)
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const one = new Wire((server.address() as AddressInfo).port)
      wires.push(one)
      one.write('GET / HTTP/1.1', 'Host: a', 'Connection: Upgrade', 'Upgrade: x')
      await one.until(/101/)
      const closing = shutdown.close()
      // Longer than idle connections stay open.
      await new Promise((resolve) => setTimeout(resolve, 1_500))
      one.write('still there')
      await one.until(/still there/)
      expect(await closing).to.deep.equal({ openConnections: 1, pendingRequests: 0 })
      await one.ended
    })
  }

  it('upgrades are accepted only while the application accepts them', async () => {
    const { wire } = await open((_req, res) => res.end('not upgraded'))
    const accept = (): void => undefined
    server.on('upgrade', accept).off('upgrade', accept)
    expect(server.listenerCount('upgrade')).to.equal(0)
    const one = wire()
    one.write('GET / HTTP/1.1', 'Host: a', 'Connection: Upgrade', 'Upgrade: x')
    await one.until(/not upgraded/)
  })

  describe('of HTTP/2', () => {
    for (const secure of [false, true]) {
      const name = secure ? 'over TLS' : 'without encryption'

      it(`a call over HTTP/2 that takes longer than the idle time finishes, and the connection closes: ${name}`, async () => {
        const [begun, go] = [signalled(), signalled()]
        const served = await listenHttp2(async (_req, res) => {
          begun.resolve()
          await go.promise
          res.end('done')
        }, secure)
        const shutdown = gracefulShutdown(served.server, { timeoutMs: 6_000 })
        const session = await served.connect()
        const idle = await served.connect()
        const exchange = new Http2Exchange(session)
        exchange.stream.end()
        await begun.promise
        const closing = shutdown.close()
        if (!idle.destroyed) await once(idle, 'close')
        await new Promise((resolve) => setTimeout(resolve, 1_500))
        go.resolve()
        expect(await exchange.status).to.equal(200)
        expect((await exchange.closed).text).to.equal('done')
        expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
      })

      it(`event streams over HTTP/2 are ended, and other requests are cut at the deadline: ${name}`, async () => {
        const served = await listenHttp2((req, res) => {
          if (req.method === 'GET')
            res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
        }, secure)
        const shutdown = gracefulShutdown(served.server, { timeoutMs: 300 })
        const session = await served.connect()
        const stream = new Http2Exchange(session, { ':method': 'GET' })
        const stuck = new Http2Exchange(session)
        stuck.stream.end()
        expect(await stream.status).to.equal(200)
        const closing = shutdown.close()
        expect(await stream.closed).to.deep.equal({ text: 'data: 1\n\n', rstCode: 0 })
        expect(await closing).to.deep.equal({ openConnections: 1, pendingRequests: 1 })
        await stuck.closed
      })
    }
  })

  it('a connection over TLS is counted once', async () => {
    // The TLS handshake is not completed, but the connection exists.
    const tls = createTlsServer()
    const shutdown = gracefulShutdown(tls, { timeoutMs: 50 })
    await once(tls.listen(0, '127.0.0.1'), 'listening')
    const one = new Wire((tls.address() as AddressInfo).port)
    wires.push(one)
    await Promise.all([once(tls, 'connection'), once(one.socket, 'connect')])
    expect(await shutdown.close()).to.deep.equal({ openConnections: 1, pendingRequests: 0 })
    await one.ended
  })

  it('a request over TLS finishes, and an idle connection is closed', async () => {
    // A pre-shared key replaces certificates.
    const psk = { psk: Buffer.from('0123456789abcdef'), identity: 'test' }
    const common = { ciphers: 'PSK-AES128-GCM-SHA256', maxVersion: 'TLSv1.2' as const }
    const { begun, go, listener } = slowly()
    const tls = createTlsServer({ ...common, pskCallback: () => psk.psk }, listener)
    const shutdown = gracefulShutdown(tls, { timeoutMs: 3000 })
    await once(tls.listen(0, '127.0.0.1'), 'listening')
    const { port } = tls.address() as AddressInfo
    const agent = new TlsAgent({ keepAlive: true })
    const ask = async (path: string): Promise<[string | undefined, string]> => {
      const options = { ...common, host: '127.0.0.1', port, path, agent, pskCallback: () => psk }
      const asking = getOverTls({ ...options, checkServerIdentity: () => undefined })
      const [res] = (await once(asking, 'response')) as [IncomingMessage]
      return [res.headers.connection, (await res.setEncoding('utf8').toArray()).join('')]
    }
    const slow = ask('/slow')
    await begun
    expect(await ask('/idle')).to.deep.equal(['keep-alive', 'answer to /idle'])
    const closing = shutdown.close()
    go()
    expect(await slow).to.deep.equal(['close', 'answer to /slow'])
    expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    agent.destroy()
  })

  describe('event streams', () => {
    for (const [how, begin] of [
      ['setHeader', (res) => res.setHeader('Content-Type', 'text/event-stream').flushHeaders()],
      ['writeHead', (res) => res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })],
    ] as [string, (res: Parameters<RequestListener>[1]) => void][]) {
      it(`an event stream is ended, not cut, whatever its source is (${how})`, async () => {
        const { shutdown, wire } = await open((_req, res) => {
          begin(res)
          res.write('data: 1\n\n')
          const timer = setInterval(() => res.write('data: tick\n\n'), 1)
          res.once('close', () => clearInterval(timer))
        })
        const one = wire()
        one.write('GET / HTTP/1.1', 'Host: a')
        await one.until(/data: tick/)
        expect(await shutdown.close()).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
        await one.ended
        expect(one.text).to.match(/\r\n0\r\n\r\n$/)
      })
    }

    it('an event stream gets the last message of a listener of the signal', async () => {
      const { shutdown, wire } = await open((_req, res) => {
        res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
        shutdown.signal.addEventListener('abort', () => res.end('event: bye\ndata: 2\n\n'))
      })
      const one = wire()
      one.write('GET / HTTP/1.1', 'Host: a')
      await one.until(/data: 1/)
      expect(shutdown.signal.aborted).to.equal(false)
      await shutdown.close()
      await one.ended
      expect(one.text).to.match(/event: bye\ndata: 2\n\n\r\n0\r\n\r\n$/)
    })

    it('an event stream that is opened during the shutdown is ended', async () => {
      const begun = signalled()
      const go = signalled()
      const { shutdown, wire } = await open(async (_req, res) => {
        begun.resolve()
        await go.promise
        res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: late\n\n')
      })
      const one = wire()
      one.write('GET / HTTP/1.1', 'Host: a')
      await begun.promise
      shutdown.signal.addEventListener('abort', () => setTimeout(go.resolve, 20))
      const closing = shutdown.close()
      expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
      await one.ended
      expect(one.text).to.match(/data: late\n\n\r\n0\r\n\r\n$/)
    })

    describe('of MCP', () => {
      it('a listening MCP stream is ended, and the stream of a call ends with its call', async () => {
        const begun = signalled()
        const go = signalled()
        const router = KitMcpRouter.create().tool(
          'slow',
          { description: 'Waits' },
          async (_args, context) => {
            await context.progress(1)
            begun.resolve()
            await go.promise
            return 'done'
          },
        )
        const heads = [signalled(), signalled()]
        const serve = mcpHandler(createMcpAdapter({ router }))
        const { shutdown, port } = await open((req, res) => {
          if (req.headers['mcp-method'] === undefined && req.method === 'POST') return serve(req, res)
          const head = heads[req.method === 'GET' ? 0 : 1]
          const write = res.write.bind(res) as (chunk: unknown) => boolean
          res.write = (chunk: unknown) => {
            head?.resolve()
            return write(chunk)
          }
          serve(req, res)
        })
        const listening: Promise<{ status: number; text: string }>[] = [
          send(port, {
            method: 'GET',
            headers: { accept: 'text/event-stream', 'mcp-protocol-version': '2025-11-25' },
          }),
          send(port, modern('subscriptions/listen', { notifications: { toolsListChanged: true } })),
        ]
        const calling = send(port, legacy(call('slow')))
        await begun.promise
        // Both streams have sent their first event before they are ended.
        await Promise.all(heads.map(({ promise }) => promise))
        const closing = shutdown.close()
        const [standing, subscribed] = await Promise.all(listening)
        expect(standing?.text).to.equal(': open\n\n')
        expect(subscribed?.text).to.contain('notifications/subscriptions/acknowledged')
        go.resolve()
        const answer = await calling
        expect(answer.message.result.content).to.deep.equal([{ type: 'text', text: 'done' }])
        expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
      })
    })
  })

  describe('readiness', () => {
    it('the readiness probe responds with 503 before the server closes, which serves requests during the delay', async () => {
      server = createServer()
      const shutdown = gracefulShutdown(server, { readinessDelayMs: 150 })
      const app = express()
      app.get('/ready', shutdown.readiness())
      app.get('/work', (_req, res) => void res.json({ worked: true }))
      server.on('request', app)
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const { port } = server.address() as AddressInfo
      const ask = async (path: string) => {
        const res = await fetch(`http://127.0.0.1:${port}${path}`)
        return [res.status, await res.json()]
      }
      expect(shutdown.ready).to.equal(true)
      expect(await ask('/ready')).to.deep.equal([200, { status: 'ready' }])
      const closing = shutdown.close()
      expect(shutdown.ready).to.equal(false)
      expect(await ask('/ready')).to.deep.equal([503, { status: 'closing' }])
      expect(await ask('/work')).to.deep.equal([200, { worked: true }])
      expect(await closing).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
    })
  })

  describe('telemetry', () => {
    it('telemetry is flushed after the last request, and is part of the report', async () => {
      const events = new InMemoryTransportAdapter()
      const telemetry = KitTelemetry.create()
        .withService('test')
        .withEnvironment('test')
        .addTransport(events)
        .build()
      const { begun, go, listener } = slowly()
      const { shutdown, wire } = await open(
        async (req, res) => {
          res.once('close', () => telemetry.emit('request.done', { level: 'error' }))
          await listener(req, res)
        },
        { telemetry },
      )
      wire().write('GET /slow HTTP/1.1', 'Host: a')
      await begun
      const closing = shutdown.close()
      go()
      const report = await closing
      expect(report.telemetry).to.deep.equal(telemetry.stats())
      expect(report.telemetry).to.include({ emitted: 1, droppedAfterShutdown: 0 })
    })

    it('telemetry has its share of the time, even if a request never ends, and records the cut request', async () => {
      let given = 0
      let closed = false
      const begun = signalled()
      const telemetry = {
        shutdown: async ({ timeoutMs }: { timeoutMs: number }) => {
          given = timeoutMs
          if (!closed) throw new Error('too early')
        },
        stats: () => ({ closed }),
      }
      const { shutdown, wire } = await open(
        (_req, res) => {
          res.once('close', () => {
            closed = true
          })
          begun.resolve()
        },
        { telemetry, timeoutMs: 500 },
      )
      wire().write('GET / HTTP/1.1', 'Host: a')
      await begun.promise
      const report = await shutdown.close()
      expect(report).to.deep.equal({ openConnections: 1, pendingRequests: 1, telemetry: { closed: true } })
      expect(given).to.be.greaterThan(0).and.at.most(100)
    })

    for (const [how, stop] of [
      ['fails', () => Promise.reject(new Error('no'))],
      [
        'throws',
        () => {
          throw new Error('no')
        },
      ],
      ['never ends', () => new Promise(() => undefined)],
    ] as const) {
      it(`telemetry that ${how} does not delay the shutdown`, async () => {
        const telemetry = { shutdown: stop, stats: () => 'stats' }
        const { shutdown } = await open((_req, res) => res.end(), { telemetry, timeoutMs: 100 })
        expect(await shutdown.close()).to.deep.equal({
          openConnections: 0,
          pendingRequests: 0,
          telemetry: 'stats',
        })
      })
    }
  })

  it('telemetry whose stats() throws does not stop the shutdown', async () => {
    const stats = (): never => {
      throw new Error('no')
    }
    const telemetry = { shutdown: async () => undefined, stats }
    const { shutdown } = await open((_req, res) => res.end(), { telemetry })
    expect(await shutdown.close()).to.deep.equal({ openConnections: 0, pendingRequests: 0 })
  })

  it('close() waits for onClosed, even if it fails', async () => {
    const seen: unknown[] = []
    const { shutdown } = await open((_req, res) => res.end(), {
      onClosed: async (report) => {
        seen.push(report)
        throw new Error('no')
      },
    })
    const report = await shutdown.close()
    expect(seen).to.deep.equal([report])
  })

  describe('signals', () => {
    const started = () => {
      const file = fileURLToPath(new URL('graceful-shutdown-process.js', import.meta.url))
      const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
      let said = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text
      })
      const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, said }))
      const until = async (pattern: RegExp): Promise<string> => {
        while (!pattern.test(said)) await once(child.stdout, 'data')
        return (pattern.exec(said) as RegExpExecArray)[1] as string
      }
      return { child, ended, until }
    }

    it('SIGTERM ends the process with code 0 without losing a request', async () => {
      const { child, ended, until } = started()
      const port = Number(await until(/port (\d+)/))
      const answered = new Promise<IncomingMessage>((resolve) => get({ port, path: '/slow' }, resolve))
      await until(/(begun)/)
      child.kill('SIGTERM')
      await until(/(closing)/)
      await get({ port, path: '/' }).on('error', () => undefined)
      const res = await answered
      expect(await res.setEncoding('utf8').toArray()).to.deep.equal(['done'])
      const { code, said } = await ended
      expect(code).to.equal(0)
      expect(said.match(/event \S+/g)).to.deep.equal(['event request.done'])
      expect(said).to.match(/"openConnections":0,"pendingRequests":0/)
    })

    it('a second signal ends the process at once', async () => {
      const { child, ended, until } = started()
      const port = Number(await until(/port (\d+)/))
      get({ port, path: '/never' }).on('error', () => undefined)
      await until(/(begun)/)
      child.kill('SIGINT')
      await until(/(closing)/)
      child.kill('SIGTERM')
      expect((await ended).code).to.equal(128 + 15)
    })
  })

  describe('options', () => {
    it('gracefulShutdown installs no signal handlers by default', () => {
      const before = process.listenerCount('SIGTERM')
      gracefulShutdown(createServer())
      expect(process.listenerCount('SIGTERM')).to.equal(before)
    })
  })
})
