import type { ReceivedBody } from './received-body.ts'

const LINE_FEED = 0x0a

/** Returns the data of an event of an event stream. Comments and other fields are left out. */
function dataOf(event: string): string {
  return event
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => (line.startsWith('data: ') ? line.slice('data: '.length) : line.slice('data:'.length)))
    .join('\n')
}

/** The maximum number of events that are read. A server sends few of them before a response. */
const MAX_EVENTS = 1_000

/** Reads the events of a body while it arrives. Reads each byte once, whatever the size of the chunks. */
export class EventReader {
  readonly #body: ReceivedBody
  /** The start of the current event, and of its current line. */
  #event = 0
  #line = 0
  #count = 0
  /** The index up to which all line feeds have been processed. */
  #searched = 0

  constructor(body: ReceivedBody) {
    this.#body = body
  }

  /** `true` if the maximum number of events was read. */
  get isFull(): boolean {
    return this.#count === MAX_EVENTS
  }

  /** Returns the data of the next complete event, or `undefined` if more bytes are needed or the reader is full. */
  next(): string | undefined {
    while (!this.isFull) {
      const end = this.#body.indexOf(LINE_FEED, this.#searched)
      if (end === -1) {
        this.#searched = this.#body.length
        return undefined
      }
      const isBlank = end - this.#line <= 1 && this.#body.text(this.#line, end).trim() === ''
      this.#searched = end + 1
      this.#line = end + 1
      if (!isBlank) continue
      const data = dataOf(this.#body.text(this.#event, end))
      this.#event = end + 1
      this.#count++
      return data
    }
    return undefined
  }

  /** Returns the data of the event that the end of the body cut off. */
  last(): string {
    return dataOf(this.#body.text(this.#event))
  }
}
