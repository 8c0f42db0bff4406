import { AsyncContext } from '../../../base/runtime.ts'
import { KEEP_ALIVE_MS } from '../../wire/event-stream.ts'

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
    timer = setTimeout(serve, Math.min(KEEP_ALIVE_MS, Math.max(0, expiresAt * 1000 - Date.now())))
    timer.unref?.()
  }
  const serve = (): void => {
    if (Date.now() < expiresAt * 1000) {
      wait()
      comment()
    } else expire()
  }
  context.runInAsyncScope(wait)
  return () => clearTimeout(timer)
}
