import type { IncomingMessage } from 'node:http'
import { retryAfterMs } from '../../../base/http/retry-after.ts'
import { messageOf } from '../target-reason.ts'

/** The maximum size of a response that is read, in bytes. */
const MAX_KEPT = 65_536

/** The statuses after which the exporter retries a request itself. */
const REPEATED_BY_EXPORTER = [429, 502, 503, 504]

/** A wait that is longer than any timeout, in seconds. */
const NEVER = String(2 ** 31)

/** The response of a collector, which is read while the exporter reads it. */
export class OtlpResponse {
  readonly status: number
  /** The pause that the collector asks for, in milliseconds. */
  readonly waitMs: number | undefined
  readonly #isProtobuf: boolean
  readonly #chunks: Buffer[] = []
  #bytes = 0

  /**
   * Must be called before the exporter reads the response. If the exporter would retry, on timers that keep the process
   * alive, its `retry-after` header is replaced with a wait that is longer than its timeout, so that it fails at once.
   */
  constructor(response: IncomingMessage) {
    this.status = response.statusCode ?? 0
    const { headers } = response
    this.waitMs = retryAfterMs({ retryAfter: headers['retry-after'], date: headers.date })
    this.#isProtobuf = /^application\/x-protobuf\b/i.test(headers['content-type'] ?? '')
    if (REPEATED_BY_EXPORTER.includes(this.status)) headers['retry-after'] = NEVER
    response.on('data', (chunk: Buffer) => this.#keep(chunk))
  }

  get accepted(): boolean {
    return this.status >= 200 && this.status < 300
  }

  /**
   * Returns the number of records that the collector rejected although it accepted the request (partial success). Returns 0
   * if the body is empty, not OTLP, or longer than 64 KiB.
   */
  rejectedRecords(): number {
    if (!this.accepted) return 0
    const body = this.#body()
    const rejected = this.#isProtobuf ? fieldAt(body, [1, 1]) : rejectedInJson(body)
    return Number.isSafeInteger(rejected) && Number(rejected) > 0 ? Number(rejected) : 0
  }

  /** Returns the message of the collector, which is not redacted, if there is one. */
  message(): unknown {
    const body = this.#body()
    if (!this.#isProtobuf) return messageOf(body.toString())
    // `error_message` of `partial_success`, or `message` of `google.rpc.Status`.
    const text = fieldAt(body, this.accepted ? [1, 2] : [2])
    return text instanceof Buffer ? text.toString() : undefined
  }

  #body(): Buffer {
    return this.#bytes > MAX_KEPT ? Buffer.alloc(0) : Buffer.concat(this.#chunks)
  }

  #keep(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes <= MAX_KEPT) this.#chunks.push(chunk)
  }
}

/** Reads `{ partialSuccess: { rejectedLogRecords } }`, which is a number or a string. */
function rejectedInJson(body: Buffer): number {
  try {
    const response: { partialSuccess?: { rejectedLogRecords?: unknown } } | null = JSON.parse(body.toString())
    return Number(response?.partialSuccess?.rejectedLogRecords ?? 0)
  } catch {
    return 0
  }
}

/** Returns the field of a protobuf message at a path of field numbers: a number, its bytes, or `undefined`. */
function fieldAt(message: Buffer, [field, ...path]: readonly number[]): number | Buffer | undefined {
  const value = fieldOf(message, field as number)
  if (path.length === 0) return value
  return value instanceof Buffer ? fieldAt(value, path) : undefined
}

/** Returns the first field of a protobuf message with a number. */
function fieldOf(message: Buffer, field: number): number | Buffer | undefined {
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let scale = 1; at < message.length; scale *= 128) {
      const byte = message[at++] as number
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
    return Number.NaN
  }
  while (at < message.length) {
    const tag = varint()
    let value: number | Buffer
    if (tag % 8 === 0) {
      value = varint()
    } else if (tag % 8 === 2) {
      const length = varint()
      if (!(at + length <= message.length)) return undefined
      value = message.subarray(at, at + length)
      at += length
    } else {
      return undefined
    }
    if (tag >> 3 === field) return value
  }
  return undefined
}
