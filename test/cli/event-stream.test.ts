import { expect } from 'chai'
import { EventReader } from '../../cli/doctor/event-stream.ts'
import { ReceivedBody } from '../../cli/doctor/received-body.ts'

/** Reads a stream that arrives in chunks of this size. Returns the events, and the data of the last one without its end. */
function readIn(text: string, size: number): { events: string[]; last: string; isFull: boolean } {
  const body = new ReceivedBody()
  const reader = new EventReader(body)
  const bytes = Buffer.from(text)
  const events: string[] = []
  for (let at = 0; at < bytes.length; at += size) {
    body.append(bytes.subarray(at, at + size))
    for (let data = reader.next(); data !== undefined; data = reader.next()) events.push(data)
  }
  return { events, last: reader.last(), isFull: reader.isFull }
}

describe('EventReader', () => {
  for (const [what, text, events, last] of [
    ['an event', 'data: a\n\n', ['a'], ''],
    ['an event with CRLF', 'data: a\r\n\r\n', ['a'], ''],
    ['two events', 'data: a\n\ndata: b\n\n', ['a', 'b'], ''],
    ['several lines of data', 'data: a\ndata: b\n\n', ['a\nb'], ''],
    ['data without a space', 'data:a\n\n', ['a'], ''],
    ['data with two spaces', 'data:  a\n\n', [' a'], ''],
    ['comments and other fields', ':x\nid: 1\nevent: b\ndata: a\ndatax: c\n\n', ['a'], ''],
    ['an event without data', 'id: 1\n\ndata: a\n\n', ['', 'a'], ''],
    ['a line of one character', 'data: a\nx\n\n', ['a'], ''],
    ['an event that the end cuts off', 'data: a\n\ndata: é', ['a'], 'é'],
    ['an event without its blank line', 'data: a\n', [], 'a'],
  ] as const)
    it(`a reader reads ${what}, in chunks of any size`, () => {
      for (const size of [1, 2, 3, 7, 100])
        expect(readIn(text, size), String(size)).to.deep.equal({ events, last, isFull: false })
    })

  it('a reader reads 1,000 events', () => {
    expect(readIn('data: a\n\n'.repeat(999), 50)).to.deep.include({ isFull: false, last: '' })
    const { events, isFull } = readIn('data: a\n\n'.repeat(1_001), 5_000)
    expect([events.length, isFull]).to.deep.equal([1_000, true])
  })
})

describe('ReceivedBody', () => {
  it('a body has all bytes, whatever the size of the chunks', () => {
    for (const sizes of [
      [16_384],
      [16_383, 1],
      [16_384, 1],
      [16_384, 50_000],
      [1, 40_000, 1],
      [10_000, 10_000, 20_000, 1],
    ]) {
      const body = new ReceivedBody()
      let expected = ''
      for (const [index, size] of sizes.entries()) {
        const text = String(index).repeat(size)
        expected += text
        body.append(Buffer.from(text))
      }
      expect([body.length, body.text() === expected]).to.deep.equal([expected.length, true])
    }
  })

  it('a body finds only the bytes that have arrived', () => {
    const body = new ReceivedBody()
    body.append(Buffer.from('abcabc'))
    expect([body.indexOf(0x61, 0), body.indexOf(0x61, 1), body.indexOf(0x61, 4)]).to.deep.equal([0, 3, -1])
    expect([body.text(1, 3), body.text(4), body.text(2, 100)]).to.deep.equal(['bc', 'bc', 'cabc'])
  })
})
