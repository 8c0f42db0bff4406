import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, Agent as HttpAgent, type IncomingHttpHeaders, type Server } from 'node:http'
import { createServer as createTlsServer, Agent as HttpsAgent } from 'node:https'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import { expect } from 'chai'
import {
  CommunityChatTransportAdapter,
  HttpTransportAdapter,
  type HttpTransportOptions,
  MessengerTransportAdapter,
  TeamChatTransportAdapter,
} from '../../../../src/telemetry/index.ts'
import { HttpTarget, secondsToMs } from '../../../../src/telemetry/transports/http/http-target.ts'
import { anEvent, startCollector } from '../../../support/chat-services.ts'
import { freePort } from '../../../support/free-port.ts'
import { selfSigned } from '../../../support/self-signed.ts'
import { failure, SECRET } from '../../../support/telemetry/chat-behavior.ts'
import { expectCode } from '../../../support/telemetry/recording.ts'
import { standstill, until } from '../../../support/until.ts'

/** For arguments that do not compile. */
type Wrong = any

interface Proxy {
  readonly origin: string
  /** The first line of each request, and its credentials. */
  readonly requests: { readonly line: string; readonly headers: IncomingHttpHeaders }[]
}

describe('the connection to a target', () => {
  const servers: Server[] = []
  afterEach(async () => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections?.()
      server.close()
    }
  })

  async function listening(server: Server): Promise<number> {
    servers.push(server)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }

  const { key, cert } = selfSigned()

  async function startTls(): Promise<{ readonly origin: string; readonly paths: string[] }> {
    const paths: string[] = []
    const port = await listening(
      createTlsServer({ key, cert }, (request, response) => {
        paths.push(request.url ?? '')
        request.resume().on('end', () => response.end('ok'))
      }),
    )
    return { origin: `https://127.0.0.1:${port}`, paths }
  }

  /** A proxy for plain requests and for tunnels. */
  async function startProxy(status = 200): Promise<Proxy> {
    const requests: Proxy['requests'] = []
    const server = createServer(async (request, response) => {
      requests.push({ line: `${request.method} ${request.url}`, headers: request.headers })
      const { hostname, port, pathname, search } = new URL(request.url ?? '')
      const { 'proxy-authorization': _, ...headers } = request.headers
      const { request: send } = await import('node:http')
      const onward = send({ hostname, port, path: pathname + search, method: request.method, headers })
      onward.on('response', (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers)
        answer.pipe(response)
      })
      request.pipe(onward)
    })
    server.on('connect', ({ method, url, headers }, socket, head) => {
      requests.push({ line: `${method} ${url}`, headers })
      if (status !== 200) {
        socket.end(`HTTP/1.1 ${status} Refused\r\n\r\n`)
        return
      }
      const [hostname, port] = String(url).split(':')
      const onward = connect(Number(port), hostname, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        onward.write(head)
        onward.pipe(socket).pipe(onward)
      })
      for (const one of [socket, onward]) one.on('error', () => {})
    })
    return { origin: `http://127.0.0.1:${await listening(server)}`, requests }
  }

  async function withEnvironment<Result>(
    variables: Readonly<Record<string, string>>,
    run: () => Promise<Result>,
  ): Promise<Result> {
    Object.assign(process.env, variables)
    try {
      return await run()
    } finally {
      for (const name of Object.keys(variables)) delete process.env[name]
    }
  }

  describe('that fails', () => {
    const reasonOf = async (options: HttpTransportOptions) =>
      (await failure(HttpTransportAdapter.create(options).handle(anEvent()))).message

    it('a refused connection to a target is reported as ECONNREFUSED', async () => {
      const url = `http://127.0.0.1:${await freePort()}/${SECRET}`
      expect(await reasonOf({ url })).to.equal(
        'transport "http": the target could not be reached (ECONNREFUSED); 1 event is lost',
      )
    })

    it('a refused connection to a host with several addresses is reported as ECONNREFUSED once', async () => {
      const url = `http://localhost:${await freePort()}/${SECRET}`
      expect(await reasonOf({ url })).to.include('could not be reached (ECONNREFUSED);')
    })

    it('a host without an address is reported with the reason', async () => {
      const message = await reasonOf({ url: `https://${SECRET}.invalid/` })
      expect(message).to.match(/could not be reached \((?:ENOTFOUND|EAI_AGAIN)\);/)
      expect(message.toLowerCase()).not.to.include(SECRET.toLowerCase())
    })

    it('a self-signed certificate of a target is reported as DEPTH_ZERO_SELF_SIGNED_CERT', async () => {
      const { origin } = await startTls()
      expect(await reasonOf({ url: `${origin}/${SECRET}` })).to.include(
        'could not be reached (DEPTH_ZERO_SELF_SIGNED_CERT);',
      )
    })

    it('a target that does not speak TLS, or not HTTP, is reported with the code', async () => {
      const { origin } = await startCollector()
      expect(await reasonOf({ url: origin.replace('http:', 'https:') })).to.match(
        /could not be reached \((?:ERR_SSL_\w+|EPROTO)\);/,
      )
      const raw = createTcpServer((socket) => socket.on('error', () => {}).end('220 mail.example ESMTP\r\n'))
      const port = await listening(raw as unknown as Server)
      expect(await reasonOf({ url: `http://127.0.0.1:${port}` })).to.match(
        /could not be reached \(HPE_INVALID_\w+\);/,
      )
    })

    it('a failed connection through an agent or a dispatcher is reported with the code', async () => {
      const url = `http://127.0.0.1:${await freePort()}/${SECRET}`
      await fetch(url).catch(() => {})
      const dispatcher = (globalThis as Wrong)[Symbol.for('undici.globalDispatcher.1')]
      for (const options of [{ agent: new HttpAgent() }, { dispatcher }])
        expect(await reasonOf({ url, ...options })).to.include('could not be reached (ECONNREFUSED);')
    })
  })

  describe('with an agent', () => {
    it('an agent opens the connection to a target, and stays open at a shutdown', async () => {
      const { origin, paths } = await startTls()
      const agent = new HttpsAgent({ ca: cert, keepAlive: true })
      const transport = HttpTransportAdapter.create({ url: `${origin}/events`, agent })
      await transport.handle(anEvent())
      await transport.shutdown()
      expect(paths).to.deep.equal(['/events'])
      expect(Object.values(agent.freeSockets)).to.have.length(1)
      agent.destroy()
    })

    it('a proxy agent that reads the path when it connects can be used for a target', async () => {
      const target = await startCollector()
      const paths: string[] = []
      class LateAgent extends HttpAgent {
        // As the agents of `agent-base` do, it has no protocol of its own.
        get protocol(): string {
          return 'http:'
        }
        set protocol(_: string) {}
        override createConnection(...[options, callback]: Parameters<HttpAgent['createConnection']>) {
          return super.createConnection(options, callback)
        }
        addRequest(request: Wrong, options: Wrong) {
          setImmediate(() => {
            paths.push(request.path)
            ;(HttpAgent.prototype as Wrong).addRequest.call(this, request, options)
          })
        }
      }
      await HttpTransportAdapter.create({
        url: `${target.origin}/late`,
        agent: new LateAgent() as Wrong,
      }).handle(anEvent())
      expect(paths).to.deep.equal(['/late'])
      expect(target.requests.map(({ path }) => path)).to.deep.equal(['/late'])
    })
  })

  it('a dispatcher opens the connection to a target', async () => {
    const target = await startCollector()
    await fetch(target.origin)
    const own = (globalThis as Wrong)[Symbol.for('undici.globalDispatcher.1')]
    const seen: string[] = []
    const dispatcher = {
      dispatch(options: Wrong, handler: Wrong): boolean {
        seen.push(`${options.method} ${options.path}`)
        return own.dispatch(options, handler)
      },
    }
    const headers = { traceparent: 'the application set this' }
    await HttpTransportAdapter.create({ url: `${target.origin}/a?b=c`, dispatcher, headers }).handle(
      anEvent(),
    )
    expect(seen).to.deep.equal(['POST /a?b=c'])
    expect(target.requests.at(-1)?.json).to.deep.equal(anEvent())
    expect(target.requests.at(-1)?.headers).to.include(headers)
  })

  describe('through the proxy of the environment', () => {
    it('a request through the proxy of the environment has the whole URL', async () => {
      const proxy = await startProxy()
      const target = await startCollector()
      const HTTP_PROXY = proxy.origin.replace('//', '//ada:pw@')
      await withEnvironment({ NODE_USE_ENV_PROXY: '1', HTTP_PROXY }, async () => {
        const transport = HttpTransportAdapter.create({ url: `${target.origin}/events?a=b` })
        await transport.handle(anEvent())
        await transport.handle(anEvent())
      })
      const line = `POST ${target.origin}/events?a=b`
      expect(proxy.requests.map(({ line }) => line)).to.deep.equal([line, line])
      expect(proxy.requests[0]?.headers['proxy-authorization']).to.equal(`Basic ${btoa('ada:pw')}`)
      expect(target.requests.map(({ path }) => path)).to.deep.equal(['/events?a=b', '/events?a=b'])
      expect(target.requests[0]?.headers.host).to.equal(new URL(target.origin).host)
    })

    it('a request to a target with TLS goes through a tunnel of the proxy of the environment', async function () {
      this.timeout(60_000)
      const proxy = await startProxy()
      const tls = await startTls()
      const folder = await mkdtemp(join(tmpdir(), 'mcp-gatekit-proxy-'))
      await writeFile(join(folder, 'ca.pem'), cert)
      const index = new URL('../../../../src/telemetry/index.js', import.meta.url).href
      const program = `
        import { HttpTransportAdapter } from ${JSON.stringify(index)}
        const transport = HttpTransportAdapter.create({ url: '${tls.origin}/${SECRET}' })
        setInterval(() => {}, 1000).unref()
        await transport.handle({ name: 'a' })
        await transport.handle({ name: 'b' })`
      await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
        env: {
          ...process.env,
          NODE_V8_COVERAGE: undefined,
          NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
          NODE_USE_ENV_PROXY: '1',
          HTTPS_PROXY: proxy.origin,
        },
      })
      await rm(folder, { recursive: true })
      expect(tls.paths).to.deep.equal([`/${SECRET}`, `/${SECRET}`])
      // Both went through one tunnel.
      expect(proxy.requests.map(({ line }) => line)).to.deep.equal([`CONNECT ${new URL(tls.origin).host}`])
    })

    it('a tunnel that the proxy rejects is reported with the status of the proxy', async () => {
      const proxy = await startProxy(407)
      await withEnvironment({ NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: proxy.origin }, async () => {
        const transport = TeamChatTransportAdapter.create({ webhookUrl: `https://hooks.example/${SECRET}` })
        const { message } = await failure(transport.handle(anEvent()))
        expect(message).to.include('could not be reached (PROXY_ANSWERED_407)').and.not.to.include(SECRET)
      })
      expect(proxy.requests.map(({ line }) => line)).to.deep.equal(['CONNECT hooks.example:443'])
    })

    describe('that does not respond to CONNECT', () => {
      /** A target behind a proxy that keeps the sockets of its clients. */
      async function startSilent() {
        const sockets: Duplex[] = []
        const server = createServer().on('connect', (_request, socket) => {
          sockets.push(socket.on('error', () => undefined).resume())
        })
        const url = new URL(`http://127.0.0.1:${await listening(server)}`)
        const target = new HttpTarget(`https://hooks.example/${SECRET}`, {}, () => ({
          url,
          authorization: undefined,
        }))
        return { sockets, target }
      }
      /** The number of sockets that keep the process alive. */
      const keeping = () => process.getActiveResourcesInfo().filter((type) => type === 'TCPSocketWrap').length

      it('a request that takes too long closes its tunnel', async () => {
        const { sockets, target } = await startSilent()
        expect(await target.post(new Headers(), '{}', 50)).to.deep.equal({
          reason: 'did not respond within 50 ms',
        })
        await until(() => sockets[0]?.readableEnded === true)
        expect(sockets).to.have.length(1)
      })

      for (const when of ['before', 'after'] as const)
        it(`a request that was released ${when} its tunnel began does not keep the process alive`, async () => {
          const { sockets, target } = await startSilent()
          // The sockets of earlier tests close first.
          await standstill(keeping, 1)
          const before = keeping()
          const released = new AbortController()
          if (when === 'before') released.abort()
          const posted = target.post(new Headers(), '{}', 5_000, released.signal)
          await until(() => sockets.length === 1)
          released.abort()
          // The end of the proxy is in the same process.
          expect(keeping()).to.equal(before + 1)
          sockets[0]?.destroy()
          expect(await posted).to.have.property('reason')
        })
    })

    it('the proxy of the environment is not used for a host in NO_PROXY, nor with an agent', async () => {
      const proxy = await startProxy()
      const target = await startCollector()
      const environment = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy.origin }
      await withEnvironment({ ...environment, NO_PROXY: '127.0.0.1' }, () =>
        HttpTransportAdapter.create({ url: target.origin }).handle(anEvent()),
      )
      await withEnvironment(environment, () =>
        HttpTransportAdapter.create({ url: target.origin, agent: new HttpAgent() }).handle(anEvent()),
      )
      expect(target.requests).to.have.length(2)
      expect(proxy.requests).to.deep.equal([])
    })
  })

  describe('options', () => {
    const adapters: Readonly<Record<string, (options: Wrong) => unknown>> = {
      HttpTransportAdapter: (options) =>
        HttpTransportAdapter.create({ url: 'https://x.example', ...options }),
      TeamChatTransportAdapter: (options) =>
        TeamChatTransportAdapter.create({ webhookUrl: 'https://x.example', ...options }),
      CommunityChatTransportAdapter: (options) =>
        CommunityChatTransportAdapter.create({ webhookUrl: 'https://x.example', ...options }),
      MessengerTransportAdapter: (options) =>
        MessengerTransportAdapter.create({ botToken: '1:x', chatId: '1', ...options }),
    }
    const dispatcher = { dispatch: () => true }
    for (const [adapter, create] of Object.entries(adapters)) {
      for (const [options, problem] of [
        [{ agent: 'x' }, `${adapter}.create({ agent }) must be an http.Agent or https.Agent`],
        [{ dispatcher: {} }, `${adapter}.create({ dispatcher }) must be a dispatcher of undici`],
        [
          { agent: new HttpsAgent(), dispatcher },
          `${adapter}.create({ agent }) cannot be used together with dispatcher`,
        ],
        [
          { agent: new HttpAgent() },
          `${adapter}.create({ agent }) must be an agent for https:; received one for http:`,
        ],
      ] as const) {
        it(`a wrong connection option is rejected: ${problem.slice(0, 90)}`, () => {
          const { message } = expectCode('TELEMETRY_CONFIGURATION_INVALID', () => create(options))
          expect(message).to.include(problem)
        })
      }
    }
  })
})

describe('secondsToMs()', () => {
  for (const [seconds, ms] of [
    [1.5, 1_500],
    [0, 0],
    [1e300, Number.MAX_SAFE_INTEGER],
    [-1, undefined],
    ['1', undefined],
    [undefined, undefined],
  ] as const) {
    it(`secondsToMs() returns ${ms} for ${JSON.stringify(seconds) ?? seconds}`, () => {
      expect(secondsToMs(seconds)).to.equal(ms)
    })
  }
})
