import type { JSONRPCNotification, LoggingLevel } from '@modelcontextprotocol/server'
import type { Outflow } from '../../wire/exchange.ts'
import { endAtExpiry } from './token-expiry.ts'

/** The client has room as long as fewer bytes wait for it. */
const ROOM_BYTES = 64 * 1024

/** Beyond so many bytes that wait, progress is dropped and log messages are counted instead of sent. */
const MAX_UNSENT_BYTES = 1024 * 1024

const PROGRESS = 'notifications/progress'
const LOG = 'notifications/message'

const SEVERITIES: readonly unknown[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
] satisfies LoggingLevel[]

const encoder = new TextEncoder()

/** The first byte of an event of the SDK (`event: message`); its comments and priming events begin otherwise. */
const EVENT_BYTE = 'e'.charCodeAt(0)

/** Log messages that were not sent because the client did not read. */
interface SkippedLogs {
  count: number
  /** The highest severity among them, so that the notice passes the level that the client has set. */
  severity: number
  readonly send: (notice: JSONRPCNotification) => Promise<void>
}

export interface EventOutletOptions {
  /** Called once, when the client has gone or the stream has ended. */
  readonly onEnd?: (() => void) | undefined
  /** Ends the stream when too many bytes wait for a client that does not read. The client can open another stream. */
  readonly endsWhenFull?: boolean | undefined
  /** Ends the stream when its token expires, in seconds since 1970. */
  readonly expiresAt?: number | undefined
}

/**
 * The body of an event stream, which knows how many bytes its client has not taken yet. What is written is never lost;
 * `notify` is for messages that may wait or be dropped.
 */
export class EventOutlet implements Outflow {
  readonly #options: EventOutletOptions
  #body: ReadableStream<Uint8Array> | undefined
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #source: ReadableStreamDefaultReader<Uint8Array> | undefined
  #isOpen = true
  #stopExpiry: (() => void) | undefined
  /** Resolves when there is room; shared by all who wait. */
  #room: Promise<void> | undefined
  #giveRoom: (() => void) | undefined
  #skipped: SkippedLogs | undefined
  /** Events that a transport of the SDK was given and that have not come out of it yet, and their bytes. */
  #handed = 0
  #handedBytes = 0

  constructor(options: EventOutletOptions = {}) {
    this.#options = options
  }

  /** Made when it is first needed: most answers are no streams. */
  get body(): ReadableStream<Uint8Array> {
    this.#body ??= new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller
        },
        pull: () => this.#makeRoom(),
        cancel: (reason) => {
          this.#source?.cancel(reason).catch(() => undefined)
          this.#ended()
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: ROOM_BYTES }),
    )
    return this.#body
  }

  /** Bytes that wait for the client. */
  get unsentBytes(): number {
    if (!this.#isOpen) return 0
    return ROOM_BYTES - (this.#controller?.desiredSize ?? ROOM_BYTES) + this.#handedBytes
  }

  get isFull(): boolean {
    return this.unsentBytes >= MAX_UNSENT_BYTES
  }

  get #opened(): ReadableStreamDefaultController<Uint8Array> {
    void this.body
    return this.#controller as ReadableStreamDefaultController<Uint8Array>
  }

  get hasRoom(): boolean {
    return this.unsentBytes < ROOM_BYTES
  }

  room(): Promise<void> {
    if (this.hasRoom) return Promise.resolve()
    this.#room ??= new Promise((resolve) => {
      this.#giveRoom = resolve
    })
    return this.#room
  }

  write(event: string | Uint8Array): void {
    if (!this.#isOpen) return
    this.#opened.enqueue(typeof event === 'string' ? encoder.encode(event) : event)
    if (this.#options.endsWhenFull === true && this.isFull) this.end()
  }

  /** Ends the stream after what waits. */
  end(): void {
    if (!this.#isOpen) return
    this.#ended()
    this.#source?.cancel().catch(() => undefined)
    this.#opened.close()
  }

  /**
   * Whether a notification is to be sent. Progress that would make too much wait is not; nor is a log message, which is
   * then counted, and one notice of all of them is sent with `send` when the client has room.
   */
  admits(
    { method, params }: JSONRPCNotification,
    bytes: number,
    send: (notice: JSONRPCNotification) => Promise<void>,
  ): boolean {
    if (method !== PROGRESS && method !== LOG) return true
    const unsent = this.unsentBytes
    // A single message may be larger.
    if (unsent === 0 || unsent + bytes <= MAX_UNSENT_BYTES) return true
    if (method === LOG) {
      this.#skipped ??= { count: 0, severity: 0, send }
      this.#skipped.count++
      this.#skipped.severity = Math.max(this.#skipped.severity, SEVERITIES.indexOf(params?.level))
    }
    return false
  }

  /**
   * Sends a notification through a transport of the SDK whose stream is relayed here. Resolves when the client has room,
   * at once for one that is dropped.
   */
  async notify(
    message: JSONRPCNotification,
    send: (message: JSONRPCNotification) => Promise<void>,
  ): Promise<void> {
    const bytes = Buffer.byteLength(JSON.stringify(message))
    const hand = async (one: JSONRPCNotification, size: number): Promise<void> => {
      if (this.#isOpen) this.#hand(size)
      await send(one)
    }
    if (!this.admits(message, bytes, (notice) => hand(notice, 0))) return
    await hand(message, bytes)
    await this.room()
  }

  /** Sends the notice of skipped log messages; undefined if there are none. To be called before the answer. */
  settle(): Promise<void> | undefined {
    const skipped = this.#skipped
    if (skipped === undefined) return undefined
    this.#skipped = undefined
    const { count, severity, send } = skipped
    const are = count === 1 ? 'log message was' : 'log messages were'
    const data = `${count.toLocaleString('en-US')} ${are} dropped because the client did not read fast enough.`
    const level = SEVERITIES[severity]
    // The client may be gone by now.
    return send({ jsonrpc: '2.0', method: LOG, params: { level, data } }).catch(() => undefined)
  }

  /**
   * Takes over the stream of a transport of the SDK, which knows nothing of its client's pace.
   * @param onFirst is given the first chunk.
   */
  relay(
    source: ReadableStream<Uint8Array>,
    onFirst?: (chunk: Uint8Array) => void,
  ): ReadableStream<Uint8Array> {
    this.#source = source.getReader()
    this.#stopExpiry = endAtExpiry(this.#options.expiresAt, () => this.end())
    void this.#pump(this.#source, onFirst)
    return this.body
  }

  async #pump(
    source: ReadableStreamDefaultReader<Uint8Array>,
    onFirst: ((chunk: Uint8Array) => void) | undefined,
  ): Promise<void> {
    let isFirst = true
    try {
      for (let read = await source.read(); !read.done; read = await source.read()) {
        if (isFirst) onFirst?.(read.value)
        isFirst = false
        if (read.value[0] === EVENT_BYTE && this.#handed > 0 && --this.#handed === 0) this.#handedBytes = 0
        this.write(read.value)
      }
      this.end()
    } catch (error) {
      if (!this.#isOpen) return
      this.#ended()
      // A stream that breaks off must not look like one that has ended.
      this.#opened.error(error)
    }
  }

  /** The transport passes an event on in microtasks, or never. */
  #hand(bytes: number): void {
    if (this.#handed++ === 0) setImmediate(() => this.#passed())
    this.#handedBytes += bytes
  }

  #passed(): void {
    this.#handed = 0
    this.#handedBytes = 0
    this.#makeRoom()
  }

  #makeRoom(): void {
    if (!this.hasRoom) return
    void this.settle()
    this.#room = undefined
    this.#giveRoom?.()
    this.#giveRoom = undefined
  }

  #ended(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#stopExpiry?.()
    this.#skipped = undefined
    this.#handed = 0
    this.#handedBytes = 0
    this.#makeRoom()
    this.#options.onEnd?.()
  }
}
