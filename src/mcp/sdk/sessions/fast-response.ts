import type { HttpResponse, PlainResponse } from '../../../http/plain-response.ts'

/** The time after which a call gets an event stream of its own, in milliseconds. */
const FAST_MS = 50

/**
 * The HTTP response to a call on the fast path of a session, which does not pass through the transport of the SDK: its event
 * stream costs more than the call. A call that takes longer, or that sends something before its result, is opened: the
 * transport begins its stream, and the client can resume it.
 */
export class FastResponse {
  /** The HTTP response. */
  readonly response: Promise<HttpResponse>
  readonly #open: () => Promise<HttpResponse>
  readonly #timer: NodeJS.Timeout
  #resolve: ((response: HttpResponse | Promise<HttpResponse>) => void) | undefined
  #opened: Promise<void> | undefined
  #closeStream: (() => void) | undefined

  /** @param open lets the transport of the SDK begin the event stream of the call */
  constructor(open: () => Promise<HttpResponse>) {
    this.#open = open
    this.response = new Promise((resolve) => {
      this.#resolve = resolve
    })
    // The caller gets the error from `response`.
    this.#timer = setTimeout(() => this.open().catch(() => undefined), FAST_MS).unref()
  }

  /** `true` until the event stream is begun. */
  get isFast(): boolean {
    return this.#opened === undefined
  }

  /** Responds without an event stream. */
  respond(response: PlainResponse): void {
    clearTimeout(this.#timer)
    this.#resolve?.(response)
    this.#resolve = undefined
  }

  /** Ends the wait for the result. Nothing is responded. */
  stop(): void {
    clearTimeout(this.#timer)
  }

  /** Begins the event stream. Resolves when messages can be sent on it. */
  open(): Promise<void> {
    this.#opened ??= this.#begin()
    return this.#opened
  }

  /** Receives the function with which the transport ends the event stream before the result. */
  begun(closeStream: (() => void) | undefined): void {
    this.#closeStream = closeStream
  }

  /** Ends the event stream before the result. The client resumes it later. */
  closeStream(): void {
    this.open().then(
      () => this.#closeStream?.(),
      () => undefined,
    )
  }

  async #begin(): Promise<void> {
    clearTimeout(this.#timer)
    const opening = this.#open()
    this.#resolve?.(opening)
    this.#resolve = undefined
    await opening
  }
}
