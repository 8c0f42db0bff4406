import { types } from 'node:util'

export interface BodyLimits {
  /** The maximum size of a body in bytes. */
  readonly maxBytes: number
  /** The time in milliseconds within which the whole body must arrive. */
  readonly timeoutMs: number
}

/** The limits of a body for which no others are configured: 4 MiB within 30 s. */
export const DEFAULT_BODY_LIMITS: BodyLimits = { maxBytes: 4 * 1024 * 1024, timeoutMs: 30_000 }

/** The memory that is reserved for one body. */
export interface BodyMemory {
  /** Reserves so many bytes in all, instead of those before. @returns the reason why this is not possible, if any */
  resize(bytes: number): 'too-large' | 'busy' | undefined
}

/** The text of a body, its value if a body parser has parsed it, or the reason why it could not be read. */
export type BodyRead =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'too-large' | 'timeout' | 'unreadable' | 'ambiguous' | 'encoded' | 'busy' | 'consumed' }

/** Receives a body. Calls after the first that settles the read have no effect. */
export interface BodySink {
  /** `true` if the outcome is known, so that further chunks are ignored. */
  readonly isSettled: boolean
  /**
   * Adds a part of the body: bytes in any form, or a string.
   * @param encoding the encoding of a string. Defaults to UTF-8.
   */
  chunk(chunk: unknown, encoding?: BufferEncoding | null): void
  /** Called when the body is complete. Returns its bytes. */
  end(): Uint8Array
  /** Called when the body cannot be read to its end. */
  broken(): void
}

/**
 * Starts to write a body to `sink`.
 * @returns a function that stops it. It is called once, when the read is settled.
 */
export type BodySource = (sink: BodySink) => () => void

/** Reads a body within its limits. It never rejects, and keeps no chunk after the read is settled. */
export function readBody(
  source: BodySource,
  { maxBytes, timeoutMs }: BodyLimits,
  memory?: BodyMemory,
): Promise<BodyRead> {
  return new Promise((resolve) => {
    const bytes = new BodyBytes(maxBytes, memory)
    let stop: (() => void) | undefined
    let settled = false
    const settle = (read: BodyRead): void => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      stop?.()
      resolve(read)
    }
    const timer = setTimeout(() => settle({ kind: 'timeout' }), timeoutMs)
    stop = source({
      get isSettled() {
        return settled
      },
      chunk(chunk, encoding) {
        if (settled) return
        const outcome = bytes.add(chunk, encoding)
        if (outcome !== 'added') settle({ kind: outcome })
      },
      end() {
        const whole = settled ? NO_BYTES : bytes.whole
        settle({ kind: 'text', text: whole.toString('utf8') })
        return whole
      },
      broken: () => settle({ kind: 'unreadable' }),
    })
    // The source may have settled the read before it returned.
    if (settled) stop()
  })
}

const NO_BYTES = Buffer.alloc(0)

/** The smallest buffer that chunks are copied into. */
const MIN_CAPACITY = 4_096

/** A chunk that keeps more memory than this alive, beyond its own bytes, is copied. */
const MAX_SLACK = 65_536

/**
 * The bytes of a body. Memory does not depend on the size of its chunks. A single chunk is kept as it is. Several chunks are
 * copied into one buffer, which doubles its size, up to the limit, when it is full.
 */
export class BodyBytes {
  readonly #maxBytes: number
  readonly #memory: BodyMemory | undefined
  #size = 0
  #only: Buffer | undefined
  #buffer: Buffer | undefined

  constructor(maxBytes: number, memory?: BodyMemory) {
    this.#maxBytes = maxBytes
    this.#memory = memory
  }

  add(chunk: unknown, encoding?: BufferEncoding | null): 'added' | 'too-large' | 'unreadable' | 'busy' {
    // A character takes at least half a byte in any encoding. A string that is too long is not converted.
    if (typeof chunk === 'string' && chunk.length / 2 > this.#maxBytes) return 'too-large'
    const bytes = bytesOf(chunk, encoding)
    if (bytes === undefined) return 'unreadable'
    if (bytes.length === 0) return 'added'
    if (bytes.length > this.#maxBytes - this.#size) return 'too-large'
    const isKept = this.#size === 0 && bytes.buffer.byteLength - bytes.length <= MAX_SLACK
    const refused = isKept ? this.#memory?.resize(bytes.length) : this.#copy(bytes)
    if (refused !== undefined) return refused
    if (isKept) this.#only = bytes
    this.#size += bytes.length
    return 'added'
  }

  get whole(): Buffer {
    return this.#only ?? this.#buffer?.subarray(0, this.#size) ?? NO_BYTES
  }

  #copy(bytes: Buffer): ReturnType<BodyMemory['resize']> {
    const size = this.#size + bytes.length
    if (this.#buffer === undefined || size > this.#buffer.length) {
      const capacity = Math.min(this.#maxBytes, Math.max(MIN_CAPACITY, 2 * size))
      const refused = this.#memory?.resize(capacity)
      if (refused !== undefined) return refused
      // A pooled buffer would share its memory with others.
      const larger = Buffer.allocUnsafeSlow(capacity)
      const previous = this.#only ?? this.#buffer
      previous?.copy(larger, 0, 0, this.#size)
      this.#only = undefined
      this.#buffer = larger
    }
    bytes.copy(this.#buffer, this.#size)
    return undefined
  }
}

/** Returns the bytes of a chunk, without a copy if possible; `undefined` if it is neither bytes nor a string. */
function bytesOf(chunk: unknown, encoding: BufferEncoding | null = 'utf8'): Buffer | undefined {
  if (Buffer.isBuffer(chunk)) return chunk
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding ?? 'utf8')
  if (ArrayBuffer.isView(chunk)) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  return types.isAnyArrayBuffer(chunk) ? Buffer.from(chunk) : undefined
}

/** The number of chunks after which other requests and timers get their turn. */
const CHUNKS_PER_TURN = 1_024

/**
 * Reads a web-standard body.
 * @param signal aborts when the client disconnects; a host may then leave the stream as it is.
 */
export function webSource(body: ReadableStream<unknown>, signal: AbortSignal): BodySource {
  return (sink) => {
    const reader = body.getReader()
    void pump(reader, sink)
    if (signal.aborted) sink.broken()
    else signal.addEventListener('abort', sink.broken, { once: true })
    return () => {
      signal.removeEventListener('abort', sink.broken)
      // The body is not needed any more, whether or not its source can be canceled.
      reader.cancel().catch(() => undefined)
    }
  }
}

async function pump(reader: ReadableStreamDefaultReader<unknown>, sink: BodySink): Promise<void> {
  try {
    for (let count = 1; !sink.isSettled; count++) {
      const { done, value } = await reader.read()
      if (done) return void sink.end()
      sink.chunk(value)
      if (count % CHUNKS_PER_TURN === 0) await new Promise(setImmediate)
    }
  } catch {
    sink.broken()
  }
}
