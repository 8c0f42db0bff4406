import { PushedBody } from '../../../http/pushed-body.ts'
import { KEEP_ALIVE } from '../../wire/event-stream.ts'
import type { StreamClock, TimedStream } from './stream-clock.ts'

/** The event stream that a client opens with GET. It ends when its token expires. A comment every 15 s keeps it open until then. */
export class LongStream extends PushedBody implements TimedStream {
  /** @param expiresAt the expiry of the token, in seconds since 1970 */
  constructor(clock: StreamClock, expiresAt: number | undefined) {
    super()
    this.onEnd(clock.watch(this, expiresAt))
  }

  /** Sends a comment. Comments must not accumulate for a client that does not read. */
  keepAlive(): void {
    if (this.waitingBytes === 0) this.write(KEEP_ALIVE)
  }

  expire(): void {
    this.end()
  }
}
