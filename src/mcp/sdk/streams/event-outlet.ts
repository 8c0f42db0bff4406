import type { JSONRPCNotification } from '@modelcontextprotocol/server'
import type { HttpResponse, PlainResponse } from '../../../base/http/plain-response.ts'
import { AsyncContext } from '../../../base/runtime.ts'
import {
  type ClientConnection,
  EVENT_STREAM_HEADERS,
  KEEP_ALIVE,
  KEEP_ALIVE_MS,
  OPEN,
  type StreamResponse,
} from '../../wire/event-stream.ts'
import type { Outflow } from '../../wire/exchange.ts'

/** While fewer bytes wait for the client, it can take more. */
const ROOM_BYTES = 64 * 1024

/** While more bytes wait, progress notifications and log messages are dropped. A stream of GET ends. */
const MAX_UNSENT_BYTES = 1024 * 1024

const PROGRESS = 'notifications/progress'
const LOG = 'notifications/message'

/** The log message in place of those that are dropped. */
const DROPPED = 'Log messages are dropped, because the client does not read fast enough.'

const encoder = new TextEncoder()

const bytesOf = (message: JSONRPCNotification): number => Buffer.byteLength(JSON.stringify(message))

/** Changes the stream of a transport of the SDK that is relayed. */
export interface StreamFilter {
  /** Returns the chunk to send instead of one of the transport, if there is one. */
  chunk(chunk: Uint8Array): Uint8Array | undefined
  /** Called when the stream of the transport has ended. It must end the outlet. */
  end(): void
  /** Called when the outlet has ended. */
  stop(): void
}

export interface EventOutletOptions {
  /** Called once, when the client has disconnected or the stream has ended. */
  readonly onEnd?: (() => void) | undefined
  /** Ends the stream when too many bytes wait for a client that does not read. The client can open another stream. */
  readonly endsWhenFull?: boolean | undefined
  /** Sends no comments, because other messages keep the stream open. */
  readonly isSilent?: boolean | undefined
  /** `true` if all events are written here. Otherwise, `notify` counts them until a transport of the SDK has sent them. */
  readonly isDirect?: boolean | undefined
  /** Ends the stream when its token expires, in seconds since 1970. */
  readonly expiresAt?: number | undefined
}

/**
 * The body of an event stream. It counts the bytes that its client has not read yet. Written events are never dropped; `notify`
 * is for messages that may wait or be dropped.
 */
export class EventOutlet implements Outflow {
  readonly #options: EventOutletOptions
  readonly body: ReadableStream<Uint8Array>
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #source: ReadableStreamDefaultReader<Uint8Array> | undefined
  #filter: StreamFilter | undefined
  #isOpen = true
  #stopWatching: (() => void) | undefined
  /** Resolves when the client can take more. All callers share the promise. */
  #room: Promise<void> | undefined
  #giveRoom: (() => void) | undefined
  /** `true` if log messages were dropped since the client could take more. */
  #dropsLogs = false
  /** The bytes of the notifications that were passed to a transport of the SDK, which may not have sent them yet. */
  #handedBytes = 0

  constructor(options: EventOutletOptions = {}) {
    this.#options = options
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller
        },
        pull: () => this.#makeRoom(),
        cancel: (reason) => {
          // The client has left: an error of the source has no receiver.
          this.#source?.cancel(reason).catch(() => undefined)
          this.#ended()
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: ROOM_BYTES }),
    )
  }

  /** The number of bytes that wait for the client. */
  get unsentBytes(): number {
    if (!this.#isOpen) return 0
    return ROOM_BYTES - (this.#controller?.desiredSize ?? ROOM_BYTES) + this.#handedBytes
  }

  get isOpen(): boolean {
    return this.#isOpen
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
    this.#controller?.enqueue(typeof event === 'string' ? encoder.encode(event) : event)
    if (this.#options.endsWhenFull === true && this.unsentBytes >= MAX_UNSENT_BYTES) this.end()
  }

  /** Ends the stream after the events that wait. */
  end(): void {
    if (!this.#isOpen) return
    this.#ended()
    // The stream has ended: an error of the source has no receiver.
    this.#source?.cancel().catch(() => undefined)
    this.#controller?.close()
  }

  /**
   * Returns the notification to send. If too many bytes wait, progress notifications and log messages are dropped, and one log
   * message says so.
   */
  admitted(message: JSONRPCNotification): JSONRPCNotification | undefined {
    const { method, params } = message
    const unsent = this.unsentBytes
    // A single message may be larger than the limit.
    if ((method !== PROGRESS && method !== LOG) || unsent === 0) return message
    if (unsent + bytesOf(message) <= MAX_UNSENT_BYTES) return message
    if (method === PROGRESS || this.#dropsLogs) return undefined
    this.#dropsLogs = true
    return { ...message, params: { ...params, data: DROPPED } }
  }

  /**
   * Sends a notification with `send`. Resolves when the client can take more, or at once if the notification is dropped.
   */
  async notify(
    given: JSONRPCNotification,
    send: (message: JSONRPCNotification) => Promise<void>,
  ): Promise<void> {
    const message = this.admitted(given)
    if (message === undefined) return
    const bytes = this.#options.isDirect === true ? 0 : bytesOf(message)
    this.#handedBytes += bytes
    // The transport of a stream passes a notification on in microtasks.
    await send(message).finally(() => setImmediate(() => this.#passed(bytes)))
    await this.room()
  }

  /** Begins a stream without a source. @param first the first text. A comment by default. */
  open(first: string = OPEN, headers: StreamResponse['headers'] = EVENT_STREAM_HEADERS): StreamResponse {
    this.#keepOpen()
    if (first !== '') this.write(first)
    return { status: 200, headers, body: this.body }
  }

  /** Relays the stream of a transport of the SDK, which does not wait for its client. Begins with a comment if there is nothing to send. */
  relay(source: ReadableStream<Uint8Array>, filter?: StreamFilter): ReadableStream<Uint8Array> {
    this.#source = source.getReader()
    this.#filter = filter
    this.#keepOpen()
    void this.#pump(this.#source)
    return this.body
  }

  #keepOpen(): void {
    if (!this.#isOpen) return
    const comment = (): void => {
      // Comments must not accumulate for a client that does not read.
      if (this.unsentBytes === 0 && this.#options.isSilent !== true) this.write(KEEP_ALIVE)
    }
    this.#stopWatching = keepOpen(comment, this.#options.expiresAt, () => this.end())
  }

  async #pump(source: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    let isFirst = true
    setImmediate(() => isFirst && this.write(OPEN))
    try {
      for (let read = await source.read(); !read.done; read = await source.read()) {
        isFirst = false
        const chunk = this.#isOpen && this.#filter ? this.#filter.chunk(read.value) : read.value
        if (chunk !== undefined) this.write(chunk)
      }
      if (this.#filter === undefined) this.end()
      else this.#filter.end()
    } catch (error) {
      if (!this.#isOpen) return
      this.#ended()
      // The client must be able to tell a broken stream from one that has ended.
      this.#controller?.error(error)
    }
  }

  #passed(bytes: number): void {
    this.#handedBytes -= bytes
    this.#makeRoom()
  }

  #makeRoom(): void {
    if (!this.hasRoom) return
    this.#dropsLogs = false
    this.#room = undefined
    this.#giveRoom?.()
    this.#giveRoom = undefined
  }

  #ended(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#stopWatching?.()
    this.#filter?.stop()
    this.#makeRoom()
    this.#options.onEnd?.()
  }
}

export interface ReplyOptions {
  readonly client: Pick<ClientConnection, 'onDisconnect'>
  readonly headers?: Readonly<Record<string, string>>
  /** The event that begins the stream. None by default. */
  readonly first?: string
  /** Called once, when the client has disconnected or the stream has ended. */
  readonly onEnd: () => void
}

/** The response to a POST. It is an event stream unless it is complete before the stream begins. */
export class Reply {
  readonly response: Promise<HttpResponse>
  readonly #options: ReplyOptions
  #outflow: EventOutlet | undefined
  #respond: ((response: HttpResponse) => void) | undefined

  constructor(options: ReplyOptions) {
    this.#options = options
    this.response = new Promise((resolve) => {
      this.#respond = resolve
    })
  }

  /** The stream that the client reads. A client that resumes it gets another one. Most responses have none. */
  get outflow(): EventOutlet {
    this.#outflow ??= new EventOutlet({ onEnd: this.#options.onEnd, isDirect: true })
    return this.#outflow
  }

  /** Begins the stream, unless it has begun. */
  begin(): void {
    this.#begin(this.#options.first || OPEN)
  }

  /** Sends an event, and begins the stream for it if necessary. */
  write(event: string): void {
    if (this.hasBegun) this.outflow.write(event)
    else this.#begin(`${this.#options.first ?? ''}${event}`)
  }

  /** `true` if the response is a stream already. */
  get hasBegun(): boolean {
    return this.#respond === undefined
  }

  /** Sends the last event. @param whole the response if the stream has not begun. It consists of the events by default. */
  end(event: string, whole?: PlainResponse): void {
    const { first = '', headers = EVENT_STREAM_HEADERS } = this.#options
    if (this.hasBegun) {
      this.outflow.write(event)
      this.outflow.end()
    } else this.#give(whole ?? { status: 200, headers, body: first + event })
  }

  /** Ends the stream early. @param whole the response if the stream has not begun */
  close(whole: PlainResponse): void {
    this.#give(whole)
    this.#outflow?.end()
  }

  /** Ends the stream, and sends what comes next to another one, if there is one. */
  release(next: EventOutlet = this.outflow): void {
    this.begin()
    this.outflow.end()
    this.#outflow = next
  }

  #begin(text: string): void {
    if (this.hasBegun) return
    const { outflow } = this
    this.#options.client.onDisconnect(() => outflow.end())
    this.#give(outflow.open(text, this.#options.headers))
  }

  #give(response: HttpResponse): void {
    this.#respond?.(response)
    this.#respond = undefined
  }
}

/** Timers must not keep the context of the request that opens a stream. */
const context = /* @__PURE__ */ new AsyncContext('McpStreams')

/**
 * Keeps an event stream open until the returned function is called.
 * @param comment called every 15 s, to send a comment
 * @param expiresAt the expiry of the token, in seconds since 1970. By default, it does not expire.
 * @param expire called when the token has expired. It must end the stream.
 */
export function keepOpen(
  comment: () => void,
  expiresAt: number = Number.POSITIVE_INFINITY,
  expire: () => void = () => undefined,
): () => void {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const leftMs = expiresAt * 1000 - Date.now()
    timer = setTimeout(leftMs > KEEP_ALIVE_MS ? stay : expire, Math.max(0, Math.min(KEEP_ALIVE_MS, leftMs)))
    timer.unref?.()
  }
  const stay = (): void => {
    wait()
    comment()
  }
  context.runInAsyncScope(wait)
  return () => clearTimeout(timer)
}
