import type { Answer } from '../oauth/answer.ts'
import { jsonRpcError } from './rpc.ts'

const MAX_STREAMS = 1024
const KEEP_ALIVE_MS = 15_000

let open = 0

/**
 * The stream that a client of a 2025 revision opens with GET. Stateless serving has nothing to say on it
 * but that it is alive; a comment does so every 15 s. At most 1024 are open at a time, further ones get 503.
 */
export function openEventStream(): Response | Answer {
  if (open >= MAX_STREAMS) {
    const answer = jsonRpcError(503, -32_000, 'Too many event streams are open')
    return { ...answer, headers: { ...answer.headers, 'Retry-After': '5' } }
  }
  const encoder = new TextEncoder()
  let timer: NodeJS.Timeout
  open++
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(': open\n\n'))
      timer = setInterval(() => {
        // A client that does not read shall not pile them up.
        if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(': keep-alive\n\n'))
      }, KEEP_ALIVE_MS)
      timer.unref()
    },
    cancel() {
      open--
      clearInterval(timer)
    },
  })
  return new Response(body, {
    headers: {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-cache, no-transform',
      'X-Accel-Buffering': 'no',
    },
  })
}
