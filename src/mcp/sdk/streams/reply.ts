import type { HttpResponse, PlainResponse } from '../../../http/plain-response.ts'
import type { ClientConnection } from '../../wire/client-connection.ts'
import { OPEN } from '../../wire/event-stream.ts'
import { EventOutlet } from './event-outlet.ts'
import type { StreamClock } from './stream-clock.ts'

export interface ReplyOptions {
  readonly client: Pick<ClientConnection, 'onDisconnect'>
  readonly clock: StreamClock
  readonly headers: Readonly<Record<string, string>>
  /** The event that begins the stream. None by default. */
  readonly first?: string
  /** Called once, when the client has disconnected or the stream has ended. */
  readonly onEnd: () => void
}

/** The response to a POST. It is an event stream unless it is complete before the stream begins. */
export class Reply {
  readonly response: Promise<HttpResponse>
  /** The stream that the client reads. A client that resumes it gets another one. */
  outflow: EventOutlet
  readonly #options: ReplyOptions
  #respond: ((response: HttpResponse) => void) | undefined

  constructor(options: ReplyOptions) {
    this.#options = options
    this.outflow = new EventOutlet({ onEnd: options.onEnd, isDirect: true })
    this.response = new Promise((resolve) => {
      this.#respond = resolve
    })
  }

  /** Begins the stream, unless it has begun. */
  begin(): void {
    this.#begin(this.#options.first || OPEN)
  }

  /** Sends an event, and begins the stream for it if necessary. */
  write(event: string): void {
    if (this.#respond === undefined) this.outflow.write(event)
    else this.#begin(`${this.#options.first ?? ''}${event}`)
  }

  /** Sends the last event. @param whole the response if the stream has not begun. It consists of the events by default. */
  end(event: string, whole?: PlainResponse): void {
    const { first = '', headers } = this.#options
    if (this.#respond !== undefined) {
      this.#give(whole ?? { status: 200, headers, body: first + event })
      return
    }
    this.outflow.write(event)
    this.outflow.end()
  }

  /** Ends the stream early. @param whole the response if the stream has not begun */
  close(whole: PlainResponse): void {
    this.#give(whole)
    this.outflow.end()
  }

  /** Ends the stream, and sends what comes next to another one, if there is one. */
  release(next: EventOutlet = this.outflow): void {
    this.begin()
    this.outflow.end()
    this.outflow = next
  }

  #begin(text: string): void {
    if (this.#respond === undefined) return
    const { outflow } = this
    const { client, clock, headers } = this.#options
    client.onDisconnect(() => outflow.end())
    this.#give(new Response(outflow.open(clock, text), { headers }))
  }

  #give(response: HttpResponse): void {
    this.#respond?.(response)
    this.#respond = undefined
  }
}
