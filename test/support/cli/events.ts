/** A stream of server-sent events. */
export interface ServerSentEvents {
  /** Resolves with the data of the next event of a type. Skips other events. */
  next(type: string): Promise<unknown>
  close(): void
}

export async function startServerSentEvents(url: string): Promise<ServerSentEvents> {
  const ending = new AbortController()
  const response = await fetch(url, { signal: ending.signal })
  const pieces = messagesOf(response)
  return {
    async next(type) {
      for (;;) {
        const { value, done } = await pieces.next()
        if (done === true) throw new Error(`the stream ended before ${type}`)
        const fields = Object.fromEntries(value.split('\n').map((line) => line.split(/: ?(.*)/s, 2)))
        if (fields.event === type) return JSON.parse(fields.data as string)
      }
    },
    close: () => ending.abort(),
  }
}

async function* messagesOf(response: Response): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    const messages = text.split('\n\n')
    text = messages.pop() ?? ''
    yield* messages
  }
  return undefined
}
