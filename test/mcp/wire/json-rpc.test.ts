import { expect } from 'chai'
import type { BodyRead } from '../../../src/http/body-reader.ts'
import { parseMessages, requestIdOf } from '../../../src/mcp/wire/json-rpc.ts'

describe('parseMessages()', () => {
  /** The number of messages, or the status and the code of the error. */
  function outcome(read: BodyRead, revision?: string): number | string {
    const parsed = parseMessages(read, revision)
    if ('messages' in parsed) return parsed.messages.length
    return `${parsed.response.status} ${JSON.parse(String(parsed.response.body)).error.code}`
  }

  const ping = (id: number) => ({ jsonrpc: '2.0', id, method: 'ping' })
  const batch = (count: number) => Array.from({ length: count }, (_, id) => ping(id))
  const text = (value: unknown): BodyRead => ({ kind: 'text', text: JSON.stringify(value) })

  for (const [what, read, revision, expected] of [
    ['one message', text(ping(1)), '2025-11-25', 1],
    ['a parsed message', { kind: 'value', value: ping(1) }, '2025-11-25', 1],
    ['a batch of 1 message', text(batch(1)), undefined, 1],
    ['a batch of 100 messages', text(batch(100)), '2025-03-26', 100],
    ['a batch of 101 messages', text(batch(101)), '2025-03-26', '400 -32600'],
    ['a batch of no messages', text([]), '2025-03-26', '400 -32600'],
    ['a batch in a later revision', text(batch(1)), '2025-06-18', '400 -32600'],
    ['a batch with one id twice', text([ping(1), ping(1)]), undefined, '400 -32600'],
    ['a batch of two notifications', text([{ method: 'a' }, { method: 'a' }]), undefined, 2],
    ['text that is not JSON', { kind: 'text', text: '{' }, undefined, '400 -32700'],
    ['a body that cannot be read', { kind: 'unreadable' }, undefined, '400 -32700'],
    ['a body that is too large', { kind: 'too-large' }, undefined, '413 -32000'],
    ['an encoded body', { kind: 'encoded' }, undefined, '415 -32000'],
    ['a body that is late', { kind: 'timeout' }, undefined, '408 -32000'],
  ] as const satisfies readonly (readonly [string, BodyRead, string | undefined, number | string])[]) {
    it(`parseMessages() returns ${expected} for ${what}`, () => {
      expect(outcome(read, revision)).to.equal(expected)
    })
  }

  it('parseMessages() leaves out a notification that cancels a request of its own batch, and no other notification', () => {
    const cancelled = (requestId: number) => ({ method: 'notifications/cancelled', params: { requestId } })
    const parsed = parseMessages(text([ping(1), cancelled(1), cancelled(2), { method: 'a' }]), undefined)
    expect('messages' in parsed && parsed.messages).to.deep.equal([ping(1), cancelled(2), { method: 'a' }])
  })
})

describe('requestIdOf()', () => {
  for (const [what, message, id] of [
    ['a request', { id: 1, method: 'ping' }, 1],
    ['a request with a string as its id', { id: 'a', method: 'ping' }, 'a'],
    ['a notification', { method: 'ping' }, null],
    ['a response', { id: 1, result: {} }, null],
    ['a message with a method that is null', { id: 1, method: null }, null],
    ['a message with an id that is an object', { id: { a: 1 }, method: 'ping' }, null],
    ['a batch', [{ id: 1, method: 'ping' }], null],
    ['null', null, null],
    ['a missing body', undefined, null],
  ] as const) {
    it(`requestIdOf() returns ${JSON.stringify(id)} for ${what}`, () => {
      expect(requestIdOf(message)).to.equal(id)
    })
  }
})
