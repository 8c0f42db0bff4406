import { AsyncContext } from '../../../base/runtime.ts'
import type { Outflow } from '../../wire/exchange.ts'

/** In place of the current request, while the next one waits for the client. */
const NONE = { request: Symbol('none') } as const

/**
 * The order of the requests of a batch: each begins when the previous one has ended and the client has room for a further
 * response. Other connections get their turn in between. A small batch could otherwise cause many large responses that wait for
 * a client that does not read.
 */
export class BatchTurns {
  readonly #outflow: Pick<Outflow, 'room'>
  /** By request, the function that begins it. The number of messages in a batch is limited. */
  readonly #waiting = new Map<unknown, () => void>()
  #current: { readonly request: unknown } | undefined

  constructor(outflow: Pick<Outflow, 'room'>) {
    this.#outflow = outflow
  }

  /** `true` if a request waits for its turn. */
  get hasWaiting(): boolean {
    return this.#waiting.size > 0
  }

  /** Calls `begin` when it is the turn of `request`: at once for the first request. */
  take(request: unknown, begin: () => void): void {
    if (this.#current !== undefined) {
      // Must not begin in the context of the previous request, such as its span.
      const context = new AsyncContext('McpBatch')
      this.#waiting.set(request, () => context.runInAsyncScope(begin))
      return
    }
    this.#current = { request }
    begin()
  }

  /** Ends a request, which has a response or was canceled. Further calls have no effect. */
  end(request: unknown): void {
    this.#waiting.delete(request)
    if (this.#current?.request !== request) return
    this.#current = this.hasWaiting ? NONE : undefined
    if (this.hasWaiting) void this.#next()
  }

  /** Forgets the requests that wait, because the connection has ended. */
  clear(): void {
    this.#waiting.clear()
  }

  async #next(): Promise<void> {
    // The response passes through the streams of the SDK in microtasks. Only then does the outflow count it.
    await new Promise(setImmediate)
    await this.#outflow.room()
    const [next] = this.#waiting
    this.#current = undefined
    if (next === undefined) return
    const [request, begin] = next
    this.#waiting.delete(request)
    this.take(request, begin)
  }
}
