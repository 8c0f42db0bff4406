import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { expect } from 'chai'
import { OtlpResponse } from '../../../../src/telemetry/transports/otlp/otlp-response.ts'

describe('OtlpResponse', () => {
  /** Reads a response. */
  function read(statusCode: number, type: string, ...chunks: Buffer[]) {
    const response = Object.assign(new EventEmitter(), { statusCode, headers: { 'content-type': type } })
    const read = new OtlpResponse(response as unknown as IncomingMessage)
    for (const chunk of chunks) response.emit('data', chunk)
    return read
  }
  const json = (rejectedLogRecords: unknown) =>
    Buffer.from(JSON.stringify({ partialSuccess: { rejectedLogRecords } }))

  for (const [status, accepted] of [
    [199, false],
    [200, true],
    [299, true],
    [300, false],
    [503, false],
  ] as const) {
    it(`a response with status ${status} is ${accepted ? '' : 'not '}accepted`, () => {
      const response = read(status, 'application/json', json(3))
      expect([response.accepted, response.rejectedRecords()]).to.deep.equal([accepted, accepted ? 3 : 0])
    })
  }

  for (const [what, body, expected] of [
    ['a number', json(3), 3],
    ['a string', json('3'), 3],
    ['a negative number', json(-3), 0],
    ['a fraction', json(1.5), 0],
    ['null', Buffer.from('null'), 0],
    ['no JSON', Buffer.from('{'), 0],
  ] as const) {
    it(`the rejected records of a JSON response with ${what} are ${expected}`, () => {
      expect(read(200, 'application/json; charset=utf-8', body).rejectedRecords()).to.equal(expected)
    })
  }

  for (const [what, bytes, expected] of [
    ['one byte', [0x0a, 2, 0x08, 3], 3],
    ['two bytes', [0x0a, 3, 0x08, 0xac, 0x02], 300],
    ['a field before it', [0x10, 1, 0x0a, 4, 0x10, 1, 0x08, 3], 3],
    ['a string before it', [0x0a, 5, 0x12, 1, 0x61, 0x08, 3], 3],
    ['an empty message', [0x0a, 0], 0],
    ['a length beyond its end', [0x0a, 3, 0x08, 3], 0],
    ['a number without an end', [0x0a, 2, 0x08, 0x80], 0],
    ['a field of another type', [0x0d, 0, 0, 0, 0], 0],
    ['a field that is not a message', [0x08, 3], 0],
    ['another field only', [0x10, 3], 0],
  ] as const) {
    it(`the rejected records of a protobuf response with ${what} are ${expected}`, () => {
      expect(read(200, 'application/x-protobuf', Buffer.from(bytes)).rejectedRecords()).to.equal(expected)
    })
  }

  it('a response of 64 KiB is read, and a longer one is not', () => {
    const body = json(3)
    const padded = (length: number) => [body, Buffer.alloc(length - body.length, ' ')]
    expect(read(200, 'application/json', ...padded(65_536)).rejectedRecords()).to.equal(3)
    expect(read(200, 'application/json', ...padded(65_537)).rejectedRecords()).to.equal(0)
  })
})
