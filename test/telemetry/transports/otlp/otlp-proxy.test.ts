import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, createServer, type IncomingMessage, request, type Server } from 'node:http'
import { Agent as SecureAgent } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import {
  KitTelemetry,
  KitTelemetryError,
  OtlpTransportAdapter,
  type OtlpTransportOptions,
} from '../../../../src/telemetry/index.ts'
import { selfSigned } from '../../../support/certificates.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../../support/otlp-receiver.ts'
import { skipIf } from '../../../support/skip.ts'

describe('OtlpTransportAdapter and proxies', () => {
  const cleanups: (() => unknown)[] = []
  const variables = [
    'NODE_USE_ENV_PROXY',
    'HTTP_PROXY',
    'HTTPS_PROXY',
    'NO_PROXY',
    'OTEL_EXPORTER_OTLP_CERTIFICATE',
  ]
  const before = variables.map((name) => [name, process.env[name]] as const)
  afterEach(async () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })

  async function receive(tls?: ReturnType<typeof selfSigned>): Promise<OtlpReceiver> {
    const receiver = await startOtlpReceiver(tls === undefined ? {} : { tls })
    cleanups.push(() => receiver.close())
    return receiver
  }

  /** A forward proxy, and what it was asked for. */
  async function startProxy(): Promise<{ server: Server; asked: string[]; url: string }> {
    const asked: string[] = []
    const note = ({ method, url, headers }: IncomingMessage) =>
      asked.push(`${method} ${url} ${headers['proxy-authorization'] ?? 'without credentials'}`)
    const sockets = new Set<Socket>()
    const server = createServer((incoming, response) => {
      note(incoming)
      const { method, headers } = incoming
      const outgoing = request(incoming.url as string, { method: method as string, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers)
        answer.pipe(response)
      })
      incoming.pipe(outgoing)
    })
    server.on('connect', (incoming: IncomingMessage, socket: Socket) => {
      note(incoming)
      const { hostname, port } = new URL(`http://${incoming.url}`)
      const target = connect(Number(port), hostname, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        socket.pipe(target).pipe(socket)
      })
      for (const one of [socket, target]) {
        sockets.add(one)
        one.on('error', () => {})
      }
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    cleanups.push(() => {
      for (const socket of sockets) socket.destroy()
      server.closeAllConnections()
      server.close()
    })
    return { server, asked, url: `http://user:pass@127.0.0.1:${(server.address() as AddressInfo).port}` }
  }

  async function send(options: OtlpTransportOptions): Promise<void> {
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .addTransport(OtlpTransportAdapter.create(options))
      .build()
    for (let event = 0; event < 2; event++) {
      manager.emit('x')
      await manager.flush()
    }
    await manager.shutdown()
    expect(manager.stats().transports[0]).to.include({ delivered: 2, failed: 0 })
  }

  const envProxyMissing = process.allowedNodeEnvironmentFlags.has('--use-env-proxy')
    ? undefined
    : 'this version of Node.js does not use the proxy of the environment'
  const credentials = `Basic ${Buffer.from('user:pass').toString('base64')}`

  it('OtlpTransportAdapter sends through HTTP_PROXY if NODE_USE_ENV_PROXY is 1', async function () {
    skipIf(this, envProxyMissing)
    const receiver = await receive()
    const proxy = await startProxy()
    Object.assign(process.env, { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy.url, NO_PROXY: '' })
    await send({ url: receiver.url })
    const line = `POST ${receiver.url}/v1/logs ${credentials}`
    expect(proxy.asked).to.deep.equal([line, line])
    expect(receiver.records).to.have.length(2)
  })

  it('OtlpTransportAdapter sends through a tunnel of HTTPS_PROXY to an https collector', async function () {
    skipIf(this, envProxyMissing)
    const tls = selfSigned()
    const folder = await mkdtemp(join(tmpdir(), 'otlp-'))
    cleanups.push(() => rm(folder, { recursive: true }))
    await writeFile(join(folder, 'ca.pem'), tls.cert)
    const receiver = await receive(tls)
    const proxy = await startProxy()
    Object.assign(process.env, {
      NODE_USE_ENV_PROXY: '1',
      HTTPS_PROXY: proxy.url,
      NO_PROXY: '',
      OTEL_EXPORTER_OTLP_CERTIFICATE: join(folder, 'ca.pem'),
    })
    await send({ url: receiver.url })
    expect(proxy.asked).to.deep.equal([`CONNECT 127.0.0.1:${receiver.port} ${credentials}`])
    expect(receiver.records).to.have.length(2)
  })

  it('OtlpTransportAdapter does not use the proxy without NODE_USE_ENV_PROXY, for a host in NO_PROXY, and with an agent', async () => {
    const receiver = await receive()
    const proxy = await startProxy()
    Object.assign(process.env, { HTTP_PROXY: proxy.url, NO_PROXY: '' })
    await send({ url: receiver.url })
    Object.assign(process.env, { NODE_USE_ENV_PROXY: '1', NO_PROXY: '127.0.0.1' })
    await send({ url: receiver.url })
    Object.assign(process.env, { NO_PROXY: '' })
    await send({ url: receiver.url, agent: new Agent() })
    expect(proxy.asked).to.deep.equal([])
    expect(receiver.records).to.have.length(6)
  })

  it('OtlpTransportAdapter uses the agent of the application, or the one that its function returns, and does not destroy it', async () => {
    const receiver = await receive()
    for (const given of ['an agent', 'a function', 'a function that is late'] as const) {
      const agent = new Agent({ keepAlive: true })
      let destroyed = false
      agent.destroy = () => {
        destroyed = true
      }
      const protocols: string[] = []
      const make = (protocol: string): Agent => {
        protocols.push(protocol)
        return agent
      }
      await send({
        url: receiver.url,
        agent:
          given === 'an agent' ? agent : given === 'a function' ? make : async (protocol) => make(protocol),
      })
      expect(Object.keys(agent.freeSockets)).to.have.length(1)
      expect(protocols).to.deep.equal(given === 'an agent' ? [] : ['http:'])
      expect(destroyed).to.equal(false)
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
    }
  })

  it('OtlpTransportAdapter rejects an https.Agent for an http url', () => {
    expect(() => OtlpTransportAdapter.create({ url: 'http://127.0.0.1', agent: new SecureAgent() }))
      .to.throw(KitTelemetryError, /agent/)
      .with.property('code', 'TELEMETRY_CONFIGURATION_INVALID')
  })

  it('an agent function that throws counts as a collector that cannot be reached', async () => {
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger({ error: () => {}, warn: () => {} })
      .addTransport(
        OtlpTransportAdapter.create({
          url: 'http://127.0.0.1',
          retryBudgetMs: 0,
          agent: () => {
            throw new Error('no')
          },
        }),
      )
      .build()
    manager.emit('x')
    await manager.flush()
    const { failed, lastError } = manager.stats().transports[0] ?? expect.fail()
    expect(failed).to.equal(1)
    expect(lastError?.message).to.include('the collector could not be reached')
    await manager.shutdown()
  })
})
