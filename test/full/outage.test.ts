import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { freePort } from '../support/free-port.ts'
import { redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'

const PROGRAM = fileURLToPath(new URL('outage-program.js', import.meta.url))

/** A target that is away until `recover` is called. */
interface Target {
  readonly port: number
  recover(): Promise<void>
  /** Returns `true` if the last event has arrived. */
  hasLast(): Promise<boolean>
  close(): Promise<void>
}

/** Returns a server that accepts requests and does not respond, or that refuses connections if `isDown`. */
async function startServer(isDown: boolean): Promise<Target> {
  const held: ServerResponse[] = []
  let isAway = true
  let latest = ''
  const server = createServer(async (request, response) => {
    let body = ''
    try {
      for await (const chunk of request) body = `${body.slice(-10_000)}${chunk}`
    } catch {
      return // A time limit of the transport has ended the request.
    }
    latest += body.includes('last') ? 'last' : ''
    if (isAway) held.push(response)
    else response.end()
  })
  server.on('clientError', (_, socket) => socket.destroy())
  const port = await freePort()
  const listen = async () => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  if (!isDown) await listen()
  return {
    port,
    async recover() {
      isAway = false
      if (isDown) await listen()
      for (const response of held.splice(0)) response.end()
    },
    hasLast: async () => latest !== '',
    async close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function startStore(): Promise<Target> {
  const server = await startRedis()
  await server.kill()
  return {
    port: server.port,
    recover: () => server.start(),
    async hasLast() {
      const redis = new Redis(server.port)
      const [[, fields] = []] = (await redis.xrevrange('telemetry:events', '+', '-', 'COUNT', 1)) as [
        string,
        string[],
      ][]
      redis.disconnect()
      return fields?.[1] === 'last'
    },
    close: () => server.stop(),
  }
}

describe('an outage of a target, with large events and a heap of 256 MB', function () {
  this.timeout(600_000)
  const ALL = ['strings', 'two-byte strings', 'control characters', 'objects', 'arrays', 'new keys']
  const outages: Readonly<
    Record<string, { readonly shapes: readonly string[]; readonly isDown: boolean }[]>
  > = {
    http: [
      { shapes: ALL, isDown: false },
      { shapes: ['strings'], isDown: true },
    ],
    'http in batches': [{ shapes: ['strings', 'two-byte strings', 'control characters'], isDown: false }],
    otlp: [
      { shapes: ALL, isDown: false },
      { shapes: ['strings'], isDown: true },
    ],
    'otlp in protobuf': [{ shapes: ['strings', 'objects'], isDown: false }],
    chat: [{ shapes: ['strings'], isDown: false }],
    redis: [{ shapes: ALL, isDown: true }],
  }
  for (const [target, ways] of Object.entries(outages)) {
    for (const { shapes, isDown } of ways) {
      for (const shape of shapes) {
        const outage = isDown ? 'is down' : 'accepts requests and does not respond'
        it(`the process survives events of ${shape} while its target (${target}) ${outage}, and its last event arrives`, async function () {
          if (target === 'redis') skipIf(this, redisMissing())
          const server = target === 'redis' ? await startStore() : await startServer(isDown)
          const args = ['--max-old-space-size=256', PROGRAM, target, shape, String(server.port)]
          const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] })
          let errors = ''
          child.stderr.setEncoding('utf8').on('data', (text) => {
            errors += text
          })
          const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
          const next = async () => {
            const { value } = await lines.next()
            expect(value, errors.slice(-2_000)).to.be.a('string')
            const { accepted, delivered, failed, dropped, pending } = JSON.parse(value)
            expect(accepted).to.equal(delivered + failed + dropped + pending)
            return { failed, dropped, pending }
          }
          try {
            expect((await next()).dropped).to.equal(20)
            await server.recover()
            child.stdin.write('recovered\n')
            expect(await next()).to.include({ dropped: 20, pending: 0 })
            expect(await server.hasLast()).to.equal(true)
          } finally {
            child.kill('SIGKILL')
            await server.close()
          }
        })
      }
    }
  }
})
