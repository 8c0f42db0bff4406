import { once } from 'node:events'
import { expect } from 'chai'
import { startResourceProgram } from '../../support/attacks/resource-program.ts'
import { type HostileServer, startHostileServer } from '../../support/hostile-server.ts'

const DOCTOR = new URL('doctor.program.js', import.meta.url)
const MIB = 1024 * 1024

describe('the doctor in a small heap', function () {
  this.timeout(60_000)
  let server: HostileServer | undefined
  afterEach(() => server?.close())

  /** Responds to the first request with `head` and then with `body`, `times` times. Rejects other requests. */
  async function serve(head: string, body: Buffer, times: number): Promise<string> {
    server = await startHostileServer(async (socket) => {
      if (server !== undefined)
        server.misbehave = (other) => other.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n')
      const closed = once(socket, 'close').catch(() => undefined)
      socket.write(head)
      for (let time = 0; time < times && !socket.destroyed; time++)
        if (!socket.write(body))
          await Promise.race([closed, new Promise((resolve) => socket.once('drain', resolve))])
      socket.end('0\r\n\r\n')
    })
    return `${server.origin}/mcp`
  }

  const chunked = (type: string): string =>
    `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`
  const survives = (type: string, piece: string, times: number) => async () => {
    const url = await serve(chunked(type), Buffer.from(piece), times)
    const doctor = await startResourceProgram(DOCTOR, { args: [url] })
    const { heapUsed } = await doctor.expectSurvival(async () => undefined)
    expect(heapUsed).to.be.below(64 * MIB)
  }

  it(
    'doctor: memory: a JSON response of 1 MiB in chunks of 1 byte: the doctor finishes in a heap of 128 MiB',
    survives('application/json', '1\r\n \r\n'.repeat(MIB / 16), 16),
  )

  it(
    'doctor: memory: an event stream of 256 KiB in chunks of 1 byte: the doctor finishes in a heap of 128 MiB',
    survives('text/event-stream', '1\r\n:\r\n'.repeat(MIB / 16), 4),
  )

  it(
    'doctor: memory: an event stream of 256 KiB of empty events in chunks of 2 bytes: the doctor finishes in a heap of 128 MiB',
    survives('text/event-stream', '2\r\n\n\n\r\n'.repeat(MIB / 32), 4),
  )

  it(
    'doctor: memory: an endless response: the doctor stops reading after 4 MiB',
    survives('text/event-stream', `10000\r\n${':'.repeat(65_536)}\r\n`, 100_000),
  )
})
