import {
  isInitializeRequest,
  type JSONRPCRequest,
  type McpServer,
  type MessageExtraInfo,
  type Server,
} from '@modelcontextprotocol/server'
import type { AuthInfo } from '../../../oauth/auth-info.ts'
import type { Subscriptions } from '../../operations/subscriptions.ts'
import type { SessionCall } from './session-call.ts'
import { SessionLink, type SessionSide } from './session-link.ts'
import { type ClientState, SessionEnded } from './session-transport.ts'

/** Makes the servers of a session. */
export interface SessionHost {
  /** @param subscriptions the session */
  makeServer(subscriptions: Subscriptions, request: Request): Server | McpServer | Promise<Server | McpServer>
  /** Returns a key of what a token permits. Two tokens with the same key may share a server. */
  authorityOf(auth: AuthInfo | undefined): string
  /** `true` if a server can be closed and made again without a difference for the client. */
  readonly canMakeAgain: boolean
}

/** The maximum length of a log level that is kept, in characters. */
const MAX_LEVEL_LENGTH = 16

/**
 * The servers of one session, each behind a link. If a token permits other things than the token for which the current
 * server was made, another server takes its place. It receives the client's `initialize` and log level. Calls that are in
 * progress end at the server where they began.
 */
export class SessionServers {
  readonly #session: SessionSide
  readonly #host: SessionHost
  readonly #client: ClientState
  readonly #links = new Set<SessionLink>()
  #current: SessionLink | undefined
  /** Settles when the server that is being made is ready. Servers are made one after the other. */
  #making: Promise<unknown> | undefined
  #hasEnded = false

  constructor(session: SessionSide, host: SessionHost, client: ClientState) {
    this.#session = session
    this.#host = host
    this.#client = client
  }

  /** The link to the server that was made last. */
  get current(): SessionLink | undefined {
    return this.#current
  }

  /** Returns the link that a request with this token has leased. @param auth the token, as the SDK passes it on */
  of(auth: object | undefined): SessionLink | undefined {
    const authority = this.#host.authorityOf(auth as AuthInfo | undefined)
    const current = this.#current
    if (current?.authority === authority) return current
    return [...this.#links].find((link) => link.authority === authority)
  }

  /** `true` if a server that is made again is like the one before. A server that the application made may have a state. */
  get canBeMadeAgain(): boolean {
    return this.#host.canMakeAgain
  }

  /** Returns the link to a server for the authority of a token. The caller must give it back. */
  async lease(received: SessionCall): Promise<SessionLink> {
    const authority = this.#host.authorityOf(received.auth)
    if (this.#making === undefined && this.#current?.authority === authority) {
      this.#current.uses++
      return this.#current
    }
    const turn = (this.#making ?? Promise.resolve()).then(async () => {
      const current = this.#current
      const link = current?.authority === authority ? current : await this.#replace(authority, received)
      link.uses++
      return link
    })
    // The caller gets the error from `turn`; the next turn only waits for it.
    const settled = turn.catch(() => undefined)
    this.#making = settled
    try {
      return await turn
    } finally {
      if (this.#making === settled) this.#making = undefined
    }
  }

  /** Ends one use of a link. A previous server is closed after its last use. */
  giveBack(link: SessionLink): void {
    link.uses--
    if (link !== this.#current) closeUnused(link)
  }

  /** Keeps what a later server must know of a request that the client has sent. */
  received(request: JSONRPCRequest): void {
    if (isInitializeRequest(request)) this.#client.initialize = JSON.stringify(request.params)
    const level = request.method === 'logging/setLevel' ? request.params?.level : undefined
    if (typeof level === 'string' && level.length <= MAX_LEVEL_LENGTH) this.#client.logLevel = level
  }

  /** Records that the client has sent `notifications/initialized`. */
  initialized(): void {
    this.#client.isInitialized = true
  }

  /** Forgets a link that was closed. @returns `true` if it was the current one */
  closed(link: SessionLink): boolean {
    this.#links.delete(link)
    return link === this.#current
  }

  end(): void {
    this.#hasEnded = true
    for (const link of [...this.#links]) void link.close()
  }

  async #replace(authority: string, { request, auth }: SessionCall): Promise<SessionLink> {
    const server = await this.#host.makeServer(this.#session.subscriptions, request)
    this.#throwIfEnded()
    const previous = this.#current
    this.#current = undefined
    // An application may return the same server again, which takes one connection at a time.
    if (previous !== undefined) closeUnused(previous)
    const link = new SessionLink(this.#session, server, authority)
    this.#links.add(link)
    try {
      await server.connect(link)
      await this.#bringUpToDate(link, { request, ...(auth !== undefined && { authInfo: auth }) })
      this.#throwIfEnded()
    } catch (error) {
      void link.close()
      throw error
    }
    this.#current = link
    return link
  }

  /** Sends a new server what the client has sent to the previous one. */
  async #bringUpToDate(link: SessionLink, extra: MessageExtraInfo): Promise<void> {
    if (this.#client.initialize === undefined) return
    await link.ask('initialize', JSON.parse(this.#client.initialize), extra)
    if (this.#client.isInitialized)
      link.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' }, extra)
    // A server without logging rejects this, as the previous one did.
    if (this.#client.logLevel !== undefined)
      await link.ask('logging/setLevel', { level: this.#client.logLevel }, extra).catch(() => undefined)
  }

  #throwIfEnded(): void {
    if (this.#hasEnded) throw new SessionEnded()
  }
}

function closeUnused(link: SessionLink): void {
  if (link.uses === 0) void link.close()
}
