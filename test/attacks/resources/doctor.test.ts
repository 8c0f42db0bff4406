import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Server, type Socket } from 'node:net'
import { expect } from 'chai'
import { startResourceProgram } from '../../support/attacks/resource-program.ts'

const DOCTOR = new URL('doctor.program.js', import.meta.url)
const MIB = 1024 * 1024

describe('the doctor in a small heap', function () {
  this.timeout(60_000)
  let server: Server | undefined
  const sockets = new Set<Socket>()

  /** Responds to the first request with `head` and then with `body`, `times` times. Ignores other requests. */
  async function startHostileServer(head: string, body: Buffer, times: number): Promise<string> {
    let first = true
    server = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.once('data', async () => {
        if (!first) return void socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n')
        first = false
        const closed = once(socket, 'close').catch(() => undefined)
        socket.write(head)
        for (let time = 0; time < times && !socket.destroyed; time++)
          if (!socket.write(body))
            await Promise.race([closed, new Promise((resolve) => socket.once('drain', resolve))])
        socket.end('0\r\n\r\n')
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  }

  afterEach(() => {
    for (const socket of sockets) socket.destroy()
    sockets.clear()
    server?.close()
  })

  const chunked = (type: string): string =>
    `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`
  const survives = (type: string, piece: string, times: number) => async () => {
    const url = await startHostileServer(chunked(type), Buffer.from(piece), times)
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
