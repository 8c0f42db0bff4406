import { browser } from './browser.ts'
import type { ConsoleEvent } from './event-kind.ts'
import type { LedgerMessage } from './ledger.ts'

/** What stays as it is while `mcp-gatekit dev` runs. */
export interface HelloMessage {
  readonly run: string
  readonly command: string
  readonly issuer?: string
}

/** What the process of the server is at. */
export interface ServerMessage {
  readonly state: 'starting' | 'running' | 'ended'
  readonly pid?: number
  readonly how?: string
}

/** Told what comes from `mcp-gatekit dev`. */
export interface ConnectionListener {
  hello(message: HelloMessage): void
  server(message: ServerMessage): void
  events(events: readonly ConsoleEvent[]): void
  ledger(message: LedgerMessage): void
  /** Whether the connection stands. It is made anew by itself. */
  connected(stands: boolean): void
}

/** Listens for as long as the page is open. */
export function connect(listener: ConnectionListener): void {
  const source = new browser.EventSource('/events')
  const on = <Message>(type: string, tell: (message: Message) => void): void =>
    source.addEventListener(type, ({ data }) => tell(JSON.parse(data) as Message))
  on<HelloMessage>('hello', (message) => listener.hello(message))
  on<ServerMessage>('server', (message) => listener.server(message))
  on<LedgerMessage>('ledger', (message) => listener.ledger(message))
  on<{ first: number; events: Omit<ConsoleEvent, 'number'>[] }>('events', ({ first, events }) =>
    listener.events(events.map((event, index) => ({ ...event, number: first + index }))),
  )
  source.addEventListener('open', () => listener.connected(true))
  source.addEventListener('error', () => listener.connected(false))
}
