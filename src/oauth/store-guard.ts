import { memberOf } from '../base/options/describe-value.ts'
import { isPromiseLike } from '../base/options/value-kinds.ts'
import { within } from '../base/within.ts'

/** The minimum time between two commands to a store that does not answer. */
const MIN_PAUSE_MS = 1_000
/** The maximum time between them. The queue of a client may keep each of them until the end of the outage. */
const MAX_PAUSE_MS = 30_000
/** The maximum size of the commands that wait for an answer. */
const MAX_WAITING_BYTES = 67_108_864
/** The size of a command without its value. Clients of Redis keep up to 4 KB for one. */
const COMMAND_BYTES = 8_192

/**
 * Sends commands to a store that nodes share, and bounds what waits for it. A store that has not answered a command in time
 * is away: it gets one command per second, and less often after ten seconds, until it answers. All others are rejected at once,
 * so that they neither wait, nor accumulate in the queue of a client. After half a minute without a command, all are sent again.
 *
 * An answer that comes late ends the outage, too. An error that comes in time is an answer, unless it is a timeout of the client.
 */
export class StoreGuard {
  readonly #timeoutMs: number
  /** The size of the commands that are not settled, including those that took too long. */
  #waitingBytes = 0
  /** Undefined while the store answers. */
  #awaySinceMs: number | undefined
  /** The time of the next command while the store is away. */
  #nextAtMs = 0

  /** @param timeoutMs the maximum time for one command */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /**
   * Calls `command`, unless the store is away.
   * @param bytes the size of the value that the command stores
   * @throws the error of the command, or a `TimeoutError` if the store is away, takes too long, or has too much to do.
   */
  async ask<T>(command: () => T | PromiseLike<T>, bytes: number = 0): Promise<T> {
    const size = COMMAND_BYTES + bytes
    if (!this.#mayAsk(size)) throw unavailable()
    const answer = command()
    if (!isPromiseLike(answer)) return answer
    this.#waitingBytes += size
    const sent = Promise.resolve(answer)
    const settled = (): void => {
      this.#waitingBytes -= size
    }
    // A late answer ends the outage, and a late error does not.
    sent.then(() => {
      settled()
      this.#awaySinceMs = undefined
    }, settled)
    try {
      return await within(sent, this.#timeoutMs, unavailable)
    } catch (error) {
      if (isTimeout(error)) this.#leave()
      else this.#awaySinceMs = undefined
      throw error
    }
  }

  #mayAsk(size: number): boolean {
    if (this.#waitingBytes > 0 && this.#waitingBytes + size > MAX_WAITING_BYTES) return false
    if (this.#awaySinceMs === undefined) return true
    const nowMs = performance.now()
    if (nowMs < this.#nextAtMs) return false
    // Nothing was asked for so long that the outage may be over.
    if (nowMs >= this.#nextAtMs + MAX_PAUSE_MS) {
      this.#awaySinceMs = undefined
      return true
    }
    const pauseMs = Math.max((nowMs - this.#awaySinceMs) / 10, MIN_PAUSE_MS)
    this.#nextAtMs = nowMs + Math.min(pauseMs, MAX_PAUSE_MS)
    return true
  }

  #leave(): void {
    if (this.#awaySinceMs !== undefined) return
    this.#awaySinceMs = performance.now()
    this.#nextAtMs = this.#awaySinceMs + MIN_PAUSE_MS
  }
}

function unavailable(): DOMException {
  return new DOMException('The store does not answer', 'TimeoutError')
}

/** Recognizes the timeouts of the guard, and those of ioredis, which keeps the command in its queue. */
function isTimeout(error: unknown): boolean {
  const [name, message] = ['name', 'message'].map((member) => memberOf(Object(error), member))
  return name === 'TimeoutError' || message === 'Command timed out'
}
