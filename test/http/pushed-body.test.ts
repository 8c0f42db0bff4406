import { expect } from 'chai'
import { PushedBody } from '../../src/http/pushed-body.ts'

/** Returns a body, and the number of times that it has ended. */
function begin(): { body: PushedBody; ends: () => number } {
  const body = new PushedBody()
  let ends = 0
  body.onEnd(() => ends++)
  return { body, ends: () => ends }
}

describe('PushedBody', () => {
  it('a web-standard host receives what is written before and after it reads, and then the end', async () => {
    const { body, ends } = begin()
    body.write('a')
    const text = new Response(body.toStream()).text()
    body.write('b')
    await new Promise(setImmediate)
    body.write('c')
    body.end()
    body.write('too late')
    expect([await text, ends()]).to.deep.equal(['abc', 1])
  })

  it('what waits is counted until it is taken', () => {
    const { body } = begin()
    body.write('äb')
    expect(body.waitingBytes).to.equal(3)
    expect(Buffer.from(body.take() ?? []).toString()).to.equal('äb')
    expect([body.waitingBytes, body.take()]).to.deep.equal([0, undefined])
  })

  it('what waits is delivered after the end', async () => {
    const { body } = begin()
    body.write('a')
    body.end()
    expect(await new Response(body.toStream()).text()).to.equal('a')
  })

  for (const [who, leave] of [
    ['its host cancels it', (_body, reader) => reader.cancel()],
    ['its client disconnects', (body) => body.cancel()],
  ] as const satisfies [string, (body: PushedBody, reader: ReadableStreamDefaultReader) => unknown][]) {
    it(`a body ends once, and drops what waits, when ${who}`, async () => {
      const { body, ends } = begin()
      for (const piece of ['taken', 'dropped']) body.write(piece)
      const reader = body.toStream().getReader()
      expect((await reader.read()).done).to.equal(false)
      await leave(body, reader)
      body.write('too late')
      body.end()
      expect([(await reader.read()).done, body.waitingBytes, ends()]).to.deep.equal([true, 0, 1])
    })
  }

  it('a read that waits ends when the client disconnects', async () => {
    const { body } = begin()
    const text = new Response(body.toStream()).text()
    await new Promise(setImmediate)
    body.cancel()
    expect(await text).to.equal('')
  })

  it('a listener of a body that has ended is called at once', () => {
    const { body, ends } = begin()
    body.end()
    let late = 0
    body.onEnd(() => late++)
    expect([ends(), late]).to.deep.equal([1, 1])
  })
})
