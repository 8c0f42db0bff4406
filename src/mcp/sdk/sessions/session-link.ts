import { randomUUID } from 'node:crypto'
import type {
  JSONRPCMessage,
  JSONRPCRequest,
  McpServer,
  MessageExtraInfo,
  Server,
  Transport,
  TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { Subscriptions } from '../../operations/subscriptions.ts'

/** The side of a session that its links use. */
export interface SessionSide {
  readonly id: string
  readonly subscriptions: Subscriptions
  /** Sends a message of the server to the client. */
  sendFrom(link: SessionLink, message: JSONRPCMessage, options?: TransportSendOptions): Promise<void>
  /** Called when a server has closed its connection. */
  closedBy(link: SessionLink): void
  setSupportedProtocolVersions(versions: string[]): void
}

/** Returns the scopes that a request needs, as `McpServer` declares them to its transport. */
type ScopeChallengeResolver = (context: { request: JSONRPCRequest; authInfo?: object }) => unknown

/**
 * The connection between a session and one of its servers. A session may have several servers in turn behind the same
 * transport, because a token that permits other things gets another server.
 */
export class SessionLink implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: <T extends JSONRPCMessage>(message: T, extra?: MessageExtraInfo) => void
  readonly sessionId: string
  readonly server: Server | McpServer
  /** The authority for which the server was made. See `SessionHost.authorityOf`. */
  readonly authority: string
  /** The number of JSON-RPC and HTTP requests that the server is working on. */
  uses = 0
  resolveChallenge: ScopeChallengeResolver | undefined
  readonly #session: SessionSide
  /** The requests that the session itself has sent to the server, by id. */
  readonly #own = new Map<unknown, { resolve(): void; reject(error: Error): void }>()
  #isClosed = false

  constructor(session: SessionSide, server: Server | McpServer, authority: string) {
    this.#session = session
    this.sessionId = session.id
    this.server = server
    this.authority = authority
  }

  async start(): Promise<void> {
    // There is nothing to start.
  }

  async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (this.#isClosed) return
    const own = 'id' in message && !('method' in message) ? this.#own.get(message.id) : undefined
    if (own === undefined) return await this.#session.sendFrom(this, message, options)
    if ('error' in message)
      own.reject(new Error(`The server of a session returned an error: ${message.error.message}`))
    else own.resolve()
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#session.setSupportedProtocolVersions(versions)
  }

  setScopeChallengeResolver(resolver: ScopeChallengeResolver): void {
    this.resolveChallenge = resolver
  }

  /** Sends the server a request of the session itself. Rejects if the server responds with an error. */
  async ask(method: string, params: unknown, extra: MessageExtraInfo): Promise<void> {
    const id = randomUUID()
    try {
      await new Promise<void>((resolve, reject) => {
        this.#own.set(id, { resolve, reject })
        this.onmessage?.({ jsonrpc: '2.0', id, method, params } as JSONRPCRequest, extra)
      })
    } finally {
      this.#own.delete(id)
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const { reject } of this.#own.values())
      reject(new Error('The server of a session has closed its connection'))
    this.#session.closedBy(this)
    this.onclose?.()
  }
}
