import { Transform, type TransformCallback, type Writable } from 'node:stream'
import { checkDepth } from '../wire/json-rpc.ts'
import { roomIn } from './stdio-outflow.ts'

const LINE_FEED = 10

/** The size of the buffer for a line that does not arrive as a whole. It doubles as needed. */
const INITIAL_BUFFER = 8192

/** While more bytes wait for a client that does not read, nothing is read from it. */
const MAX_UNSENT_BYTES = 4 * 1024 * 1024

/** The key `id`, which every request has, or an escape that may hide it. */
const MAY_HAVE_ID = /"id"|\\u/

export interface LineSplitterProps {
  /** The maximum length of a line in bytes, without its line feed. */
  readonly maxBytes: number
  /** The stream of the responses. */
  readonly output: Writable
  /** Called for a line that is dropped, because it is too long or nested too deep. */
  readonly onDropped: (problem: 'too-long' | 'too-deep') => void
}

/** Splits input into lines, in linear time and in the memory of one line. Each chunk that it passes on is one line. */
export class LineSplitter extends Transform {
  readonly #props: LineSplitterProps
  #buffer: Buffer = Buffer.alloc(0)
  /** The number of bytes of the line that have arrived. */
  #length = 0
  #isDropping = false

  constructor(props: LineSplitterProps) {
    super({ readableObjectMode: true })
    this.#props = props
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#split(chunk).then(() => done(), done)
  }

  async #split(chunk: Buffer): Promise<void> {
    let start = 0
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      this.#append(chunk.subarray(start, end))
      start = end + 1
      const line = this.#endLine()
      if (line === undefined) continue
      // A cancellation does not wait behind its request.
      if (MAY_HAVE_ID.test(line)) await this.#room()
      if (this.destroyed) return
      this.push(Buffer.from(`${line}\n`))
    }
    this.#append(chunk.subarray(start))
  }

  /** Resolves when quick responses to the lines before are written, and the client can take more. */
  async #room(): Promise<void> {
    await new Promise(setImmediate)
    await roomIn(this.#props.output, MAX_UNSENT_BYTES)
  }

  #append(part: Buffer): void {
    if (this.#isDropping) return
    const length = this.#length + part.length
    if (length > this.#props.maxBytes) {
      this.#isDropping = true
      this.#length = 0
      this.#buffer = Buffer.alloc(0)
      this.#props.onDropped('too-long')
      return
    }
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, this.#buffer.length * 2, INITIAL_BUFFER))
      this.#buffer.copy(larger, 0, 0, this.#length)
      this.#buffer = larger
    }
    part.copy(this.#buffer, this.#length)
    this.#length = length
  }

  /** Returns the line, unless it is dropped or empty. */
  #endLine(): string | undefined {
    const line = this.#buffer.toString('utf8', 0, this.#length)
    this.#length = 0
    if (this.#buffer.length > INITIAL_BUFFER) this.#buffer = Buffer.alloc(0)
    if (this.#isDropping) {
      this.#isDropping = false
      return undefined
    }
    if (checkDepth(line) === 'too-deep') {
      this.#props.onDropped('too-deep')
      return undefined
    }
    return line.trim() === '' ? undefined : line
  }
}
