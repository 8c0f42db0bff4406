import { Transform, type Writable } from 'node:stream'
import type { JSONRPCNotification } from '@modelcontextprotocol/server'
import type { Outflow } from '../wire/exchange.ts'
import { MAX_JSON_DEPTH, parsedBytes } from '../wire/json-rpc.ts'

const LINE_FEED = 10

/** While more bytes wait for a client that does not read, nothing is read from it. */
const MAX_UNREAD_BYTES = 4 * 1024 * 1024

/** While more bytes wait, progress notifications and log messages are dropped. */
const MAX_DROPPABLE_BYTES = 1024 * 1024

/** While fewer bytes wait for the client, it can take more. */
const ROOM_BYTES = 64 * 1024

const DROPPABLE: ReadonlySet<string> = new Set(['notifications/progress', 'notifications/message'])

/** The key `id`, which every request has, or an escape that may hide it. */
const MAY_HAVE_ID = /"id"|\\u/

/**
 * Splits input into lines, in linear time and in the memory of one line. Each chunk that it passes on is one line.
 * @param maxBytes the maximum length of a line, without its line feed
 * @param output the stream of the responses
 * @param onDropped called with the reason for a line that is dropped, because it is too long or nested too deep
 */
export function lineSplitter(
  maxBytes: number,
  output: Writable,
  onDropped: (problem: string) => void,
): Transform {
  // The line that arrives. The operating system provides the memory when it is written to.
  const buffer = Buffer.allocUnsafeSlow(maxBytes)
  // The number of bytes of the line that have arrived. Those beyond the buffer are dropped.
  let arrived = 0
  const append = (part: Buffer): void => {
    part.copy(buffer, Math.min(arrived, maxBytes))
    arrived += part.length
  }
  const split = async (chunk: Buffer): Promise<void> => {
    let start = 0
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      append(chunk.subarray(start, end))
      start = end + 1
      const length = arrived
      arrived = 0
      const line = length > maxBytes ? '' : buffer.toString('utf8', 0, length)
      if (length > maxBytes) onDropped(`A message must have at most ${maxBytes} bytes`)
      else if (parsedBytes(line) === 'too-deep')
        onDropped(`JSON must not be nested deeper than ${MAX_JSON_DEPTH} levels`)
      else if (line.trim() !== '') {
        // A cancellation does not wait behind its request. Quick responses to the lines before are written first.
        if (MAY_HAVE_ID.test(line)) {
          await new Promise(setImmediate)
          await roomIn(output, MAX_UNREAD_BYTES)
        }
        if (lines.destroyed) return
        lines.push(Buffer.from(`${line}\n`))
      }
    }
    append(chunk.subarray(start))
  }
  const lines = new Transform({
    readableObjectMode: true,
    transform(chunk: Buffer, _encoding, done) {
      split(chunk).then(() => done(), done)
    },
  })
  return lines
}

/** Resolves when fewer than `maxBytes` wait in `output`, when everything is written, or when it is closed. */
async function roomIn(output: Writable, maxBytes: number): Promise<void> {
  if (output.writableLength < maxBytes || output.destroyed) return
  await new Promise<void>((resolve) => {
    const onRoom = (): void => {
      output.off('drain', onRoom).off('close', onRoom)
      resolve()
    }
    output.on('drain', onRoom).on('close', onRoom)
  })
}

/** The output of a connection, for senders that wait until its client has read. */
export class StdioOutflow implements Outflow {
  readonly #output: Writable
  /** Resolves when the client can take more. All callers share the promise. */
  #room: Promise<void> | undefined

  constructor(output: Writable) {
    this.#output = output
  }

  get isFull(): boolean {
    return this.#output.writableLength >= MAX_DROPPABLE_BYTES
  }

  async room(): Promise<void> {
    this.#room ??= roomIn(this.#output, ROOM_BYTES).then(() => {
      this.#room = undefined
    })
    await this.#room
  }

  async notify(
    message: JSONRPCNotification,
    send: (message: JSONRPCNotification) => Promise<void>,
  ): Promise<void> {
    if (this.isFull && DROPPABLE.has(message.method)) await this.room()
    else await send(message)
  }
}
