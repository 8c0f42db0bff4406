import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const LEGACY = { mode: 'legacy' } as const
const MODERN = { mode: { pin: '2026-07-28' } } as const

export interface Failure {
  readonly phase: string
  readonly message: string
}

/** Connects a client of the official SDK that speaks the given era of the protocol. The client ignores its own errors. */
export async function connectClient(
  url: URL,
  token: string,
  era: 'legacy' | 'modern',
  using: typeof fetch = fetch,
): Promise<Client> {
  const client = new Client(
    { name: 'load', version: '1.0.0' },
    { capabilities: { elicitation: {} }, versionNegotiation: era === 'legacy' ? LEGACY : MODERN },
  )
  client.onerror = () => undefined
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit, fetch: using }))
  return client
}

/** Wraps `fetch`. `isOpen` resolves when the event stream is open that a client of 2025 opens after `connect`. */
export function watchStream(): { readonly fetch: typeof fetch; readonly isOpen: Promise<void> } {
  let open = (): void => undefined
  const isOpen = new Promise<void>((resolve) => {
    open = resolve
  })
  return {
    isOpen,
    async fetch(input, init) {
      const response = await fetch(input, init)
      if (init?.method === 'GET' && response.ok) open()
      return response
    },
  }
}

/** Many clients, alternately of both eras, that call `greet` repeatedly. Counts requests and failures by phase. */
export class ClusterLoad {
  phase = ''
  readonly requests: Record<string, number> = {}
  readonly wrong: string[] = []
  readonly failures: Failure[] = []
  #running = true
  readonly #clients: Client[] = []
  #work: Promise<unknown> = Promise.resolve()

  async start(url: URL, tokens: readonly string[], clients: number): Promise<void> {
    const tokenOf = (index: number) => tokens[index % tokens.length] as string
    for (let index = 0; index < clients; index += 20) {
      const batch = Array.from({ length: Math.min(20, clients - index) }, (_, at) =>
        connectClient(url, tokenOf(index + at), at % 2 === 0 ? 'modern' : 'legacy'),
      )
      this.#clients.push(...(await Promise.all(batch)))
    }
    this.#work = Promise.all(this.#clients.map((client, index) => this.#callOn(client, index)))
  }

  async stop(): Promise<void> {
    this.#running = false
    await this.#work
    for (const client of this.#clients) await client.close()
  }

  async #callOn(client: Client, index: number): Promise<void> {
    for (let count = 0; this.#running; count++) {
      const name = `${index}-${count}`
      this.requests[this.phase] = (this.requests[this.phase] ?? 0) + 1
      try {
        const { content } = await client.callTool({ name: 'greet', arguments: { name } })
        const text = JSON.stringify(content)
        if (text !== JSON.stringify([{ type: 'text', text: `Hello, ${name}!` }])) this.wrong.push(text)
      } catch (error) {
        this.failures.push({ phase: this.phase, message: wordsOf(error) })
      }
      // A user waits between two calls.
      await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 300))
    }
  }
}

function wordsOf(error: unknown): string {
  const { message, cause } = error as Error
  const { code, message: why } = (cause ?? {}) as { code?: unknown; message?: unknown }
  return [message, code, why].filter((part) => part !== undefined).join(' / ')
}

/** A client that subscribes to one resource on one node and counts the updates. */
export class ClusterListener {
  updates = 0
  gaps = 0
  readonly #client: Client

  private constructor(client: Client) {
    this.#client = client
    client.setNotificationHandler('notifications/resources/updated', () => {
      this.updates++
    })
    client.setNotificationHandler('notifications/tools/list_changed', () => {
      this.gaps++
    })
  }

  static async open(
    url: URL,
    token: string,
    era: 'legacy' | 'modern',
    uri: string,
  ): Promise<ClusterListener> {
    const stream = watchStream()
    const client = await connectClient(url, token, era, stream.fetch)
    const listener = new ClusterListener(client)
    if (era === 'modern') await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] })
    else {
      await stream.isOpen
      await client.subscribeResource({ uri })
    }
    return listener
  }

  close(): Promise<void> {
    return this.#client.close()
  }
}
