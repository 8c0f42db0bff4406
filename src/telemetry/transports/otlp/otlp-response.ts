import type { IncomingMessage } from 'node:http'
import { retryAfterMs } from '../../../http/retry-after.ts'

/** As much of an answer as is kept to look for a partial success. In bytes. */
const MAX_KEPT = 65_536

/** Statuses after which the exporter repeats a request by itself. */
const REPEATED_BY_EXPORTER = [429, 502, 503, 504]

/** In seconds; longer than any timeout. */
const NEVER = String(2 ** 31)

/** What a collector answered, read while the exporter reads it. */
export class OtlpAnswer {
  readonly status: number
  /** How long the collector asks to be left alone. */
  readonly waitMs: number | undefined
  readonly #json: boolean
  readonly #chunks: Buffer[] = []
  #bytes = 0

  /**
   * Must be called before the exporter has seen the answer. Where the exporter would wait and send again, on
   * timers that keep the process alive, it is told to wait longer than it may: it gives up at once then.
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
   * How many records the collector rejected though it accepted the request: a partial success. 0 where the
   * body is empty, no OTLP, or longer than 64 KiB: the status is the collector's word, the body only takes
   * part of it back.
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

/** `{ partialSuccess: { rejectedLogRecords } }`, the number as number or as text. */
function rejectedInJson(body: Buffer): number {
  try {
    const answer: { partialSuccess?: { rejectedLogRecords?: unknown } } | null = JSON.parse(body.toString())
    return Number(answer?.partialSuccess?.rejectedLogRecords ?? 0)
  } catch {
    return 0
  }
}

/** Field 1 (`partial_success`) of the message, therein field 1 (`rejected_log_records`). */
function rejectedInProtobuf(body: Buffer): number {
  const partialSuccess = fieldOne(body)
  const rejected = partialSuccess instanceof Buffer ? fieldOne(partialSuccess) : 0
  return typeof rejected === 'number' ? rejected : 0
}

/** The first field 1 of a protobuf message: a number, or the bytes of a message. `undefined` where there is none. */
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
