import { Transform, type Writable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { MAX_JSON_DEPTH, parsedBytes } from '../wire/json-rpc.ts'

const LINE_FEED = 10

/** While so much waits for the client, nothing is read. */
const MAX_UNREAD_BYTES = 1024 * 1024

/**
 * Splits input into lines, in linear time and in the memory of one line. Each chunk that it passes on is one line.
 * @param maxBytes the maximum length of a line, without its line feed
 * @param output the stream of the responses. While 1 MiB waits in it, nothing is read.
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
      else lines.push(Buffer.from(`${line}\n`))
      // Quick responses are written first.
      await turn()
      if (output.writableLength >= MAX_UNREAD_BYTES)
        await new Promise((resolve) => output.once('drain', resolve))
      if (lines.destroyed) return
    }
    append(chunk.subarray(start))
  }
  const lines = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      split(chunk).then(() => done(), done)
    },
  })
  return lines
}
