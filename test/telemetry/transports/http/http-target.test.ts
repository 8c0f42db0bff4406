import { once } from 'node:events'
import { Agent, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { expect } from 'chai'
import { HttpTransportAdapter, type HttpTransportOptions } from '../../../../src/telemetry/index.ts'
import { selfSigned } from '../../../support/certificates.ts'
import { anEvent, startCollector } from '../../../support/chat-services.ts'
import { freePort } from '../../../support/free-port.ts'
import { failure, SECRET } from '../../../support/telemetry/chat-behavior.ts'
import { expectCode } from '../../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

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
        /could not be reached \((?:HPE_INVALID_\w+|the response is not HTTP)\);/,
      )
    })

    it('a failed connection through a dispatcher is reported with the code', async () => {
      const url = `http://127.0.0.1:${await freePort()}/${SECRET}`
      await fetch(url).catch(() => {})
      const dispatcher = (globalThis as Wrong)[Symbol.for('undici.globalDispatcher.1')]
      expect(await reasonOf({ url, dispatcher })).to.include('could not be reached (ECONNREFUSED);')
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

  it('the agent of earlier releases is rejected with a message that names dispatcher', () => {
    const { message } = expectCode('TELEMETRY_CONFIGURATION_INVALID', () =>
      HttpTransportAdapter.create({ url: 'https://x.example', agent: new Agent() } as Wrong),
    )
    expect(message).to.include('({ agent }) is not supported any longer. Set dispatcher instead')
  })
})
