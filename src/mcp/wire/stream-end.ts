/** `body`, with a word when it has ended, in whatever way. */
export function withBodyEnd(body: ReadableStream<Uint8Array>, onEnd: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (!done) return controller.enqueue(value)
          onEnd()
          controller.close()
        } catch (error) {
          onEnd()
          controller.error(error)
        }
      },
      async cancel(reason) {
        onEnd()
        await reader.cancel(reason).catch(() => undefined)
      },
    },
    { highWaterMark: 0 },
  )
}

const LONGEST_TIMER_MS = 2_147_483_647

/** `body`, which ends at that moment. @param seconds since 1970 */
export function endingAt(body: ReadableStream<Uint8Array>, seconds: number): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  const leftMs = Math.min(Math.max(0, Math.ceil(seconds * 1000 - Date.now())), LONGEST_TIMER_MS)
  const timer = setTimeout(() => void reader.cancel().catch(() => undefined), leftMs).unref()
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read()
        if (!done) return controller.enqueue(value)
        clearTimeout(timer)
        controller.close()
      },
      async cancel(reason) {
        clearTimeout(timer)
        await reader.cancel(reason).catch(() => undefined)
      },
    },
    { highWaterMark: 0 },
  )
}
