import { once } from 'node:events'
import { connect } from 'node:net'
import { expect } from 'chai'
import { call, definedOf, legacy, send } from '../mcp/wire.ts'
import { startResourceProgram } from './resource-program.ts'

const PROGRAM = new URL('../../attacks/resources/bodies.program.js', import.meta.url)

const { headers = {}, body = '' } = legacy(call('hello'), { authorization: 'Bearer good' })

/** A call, padded to `size` bytes and cut into chunks of 1 byte (RFC 9112 §7.1). */
function* requestInBytes(size: number): Generator<Buffer> {
  const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}`)
  const head = ['POST /mcp HTTP/1.1', 'Host: 127.0.0.1', 'Transfer-Encoding: chunked', ...lines, '', '']
  yield Buffer.from(head.join('\r\n') + [...String(body)].map((byte) => `1\r\n${byte}\r\n`).join(''))
  const perWrite = 16_384
  const padding = Buffer.from('1\r\n \r\n'.repeat(perWrite))
  let left = size - String(body).length
  for (; left >= perWrite; left -= perWrite) yield padding
  yield Buffer.concat([padding.subarray(0, left * 6), Buffer.from('0\r\n\r\n')])
}

/** Sends the request and returns the status line of the response. */
async function attack(port: number, size: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  // After an error, the status never arrives.
  socket.on('error', () => undefined)
  let said = ''
  socket.setEncoding('latin1').on('data', (text: string) => {
    said += text
  })
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  for (const bytes of requestInBytes(size)) {
    if (said !== '' || socket.destroyed) break
    if (!socket.write(bytes)) await Promise.race([once(socket, 'drain').catch(() => undefined), closed])
  }
  while (!said.includes('\r\n') && !socket.destroyed)
    await Promise.race([once(socket, 'data').catch(() => undefined), closed])
  socket.destroy()
  return said.slice(0, said.indexOf('\r\n'))
}

/** Sends bodies of about `maxBodyBytes` in chunks of 1 byte to an adapter in a small heap. */
export function bodyFlood(maxBodyBytes: number): void {
  for (const protection of ['oauth', 'no OAuth'] as const)
    it(`memory of bodies: 2 connections send ${maxBodyBytes >> 10} KiB in chunks of 1 byte, 1 sends 1 byte more: ${protection}: 200 and 413, and a valid request succeeds`, async () => {
      const program = await startResourceProgram(PROGRAM, { args: [String(maxBodyBytes), protection] })
      const sizes = [maxBodyBytes, maxBodyBytes, maxBodyBytes + 1]
      const statuses = await Promise.all(sizes.map((size) => attack(program.port, size)))
      expect(statuses).to.deep.equal(['HTTP/1.1 200 OK', 'HTTP/1.1 200 OK', 'HTTP/1.1 413 Payload Too Large'])
      await program.expectSurvival(
        async () => {
          const { status, message } = await send(program.port, { headers, body })
          expect(status).to.equal(200)
          expect(message.result.content[0].text).to.equal('hello')
        },
        { maxRssMiB: 192 },
      )
    })
}
