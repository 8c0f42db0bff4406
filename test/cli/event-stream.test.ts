import { expect } from 'chai'
import { EventReader } from '../../cli/doctor/http-exchange.ts'

/** Reads a stream that arrives in chunks of this size. Returns the events, and the data of the last one without its end. */
function readIn(text: string, size: number): { events: string[]; last: string; isFull: boolean } {
  const reader = new EventReader()
  const events: string[] = []
  for (let at = 0; at < text.length; at += size) events.push(...reader.read(text.slice(at, at + size)))
  const { isFull } = reader
  return { events, last: reader.read('\n\n')[0] ?? '', isFull }
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
})
