import type { IncomingMessage } from 'node:http'
import { retryAfterMs } from '../../../http/retry-after.ts'

/** The maximum size of a response that is read for a partial success, in bytes. */
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
  readonly #json: boolean
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
    this.#json = /^application\/json\b/i.test(headers['content-type'] ?? '')
    if (REPEATED_BY_EXPORTER.includes(this.status)) headers['retry-after'] = NEVER
    if (this.accepted) response.on('data', (chunk: Buffer) => this.#keep(chunk))
  }

  get accepted(): boolean {
    return this.status >= 200 && this.status < 300
  }

  /**
   * Returns the number of records that the collector rejected although it accepted the request (partial success). Returns 0
   * if the body is empty, not OTLP, or longer than 64 KiB.
   */
  rejectedRecords(): number {
    if (this.#bytes === 0 || this.#bytes > MAX_KEPT) return 0
    const body = Buffer.concat(this.#chunks)
    const rejected = this.#json ? rejectedInJson(body) : rejectedInProtobuf(body)
    return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0
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

/** Reads field 1 (`rejected_log_records`) of field 1 (`partial_success`) of the message. */
function rejectedInProtobuf(body: Buffer): number {
  const partialSuccess = fieldOne(body)
  const rejected = partialSuccess instanceof Buffer ? fieldOne(partialSuccess) : 0
  return typeof rejected === 'number' ? rejected : 0
}

/** Returns the first field 1 of a protobuf message: a number, the bytes of a message, or `undefined`. */
function fieldOne(message: Buffer): number | Buffer | undefined {
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
    if (tag >> 3 === 1) return value
  }
  return undefined
}
