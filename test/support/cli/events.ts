/** A stream of server-sent events. */
export interface ServerSentEvents {
  /** The latest ID. */
  readonly lastId: string | undefined
  /** Resolves with the data of the next event of a type. Skips other events. */
  next(type: string): Promise<unknown>
  close(): void
}

export async function startServerSentEvents(url: string, lastId?: string): Promise<ServerSentEvents> {
  const ending = new AbortController()
  const response = await fetch(url, {
    signal: ending.signal,
    headers: lastId === undefined ? {} : { 'last-event-id': lastId },
  })
  const pieces = messagesOf(response)
  let latest = lastId
  return {
    get lastId() {
      return latest
    },
    async next(type) {
      for (;;) {
        const { value, done } = await pieces.next()
        if (done === true) throw new Error(`the stream ended before ${type}`)
        const fields = Object.fromEntries(value.split('\n').map((line) => line.split(/: ?(.*)/s, 2)))
        latest = fields.id ?? latest
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
