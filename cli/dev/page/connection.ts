import { browser } from './browser.ts'
import type { ConsoleEvent } from './console-event.ts'
import type { StatisticsMessage } from './delivery-statistics.ts'
import type { Expected } from './facts.ts'

/** Facts that are constant while `mcp-gatekit dev` runs. */
export interface HelloMessage {
  readonly run: string
  readonly command: string
  readonly issuer?: string
}

/** The state of the server process. */
export interface ServerMessage {
  readonly state: 'starting' | 'running' | 'ended'
  readonly pid?: number
  readonly how?: string
  /** The metadata document of the server. */
  readonly expected?: Expected
  /** Disagreements in the configuration of the server. */
  readonly warnings?: readonly string[]
}

/** Receives the messages of `mcp-gatekit dev`. */
export interface ConnectionListener {
  hello(message: HelloMessage): void
  server(message: ServerMessage): void
  events(events: readonly ConsoleEvent[]): void
  statistics(message: StatisticsMessage): void
  /** Called when the connection opens or fails. It reconnects automatically. */
  connected(isConnected: boolean): void
}

/** Connects to `mcp-gatekit dev` until the page is closed. */
export function connect(listener: ConnectionListener): void {
  const source = new browser.EventSource('/events')
  const on = <Message>(type: string, handle: (message: Message) => void): void =>
    source.addEventListener(type, ({ data }) => handle(JSON.parse(data) as Message))
  on<HelloMessage>('hello', (message) => listener.hello(message))
  on<ServerMessage>('server', (message) => listener.server(message))
  on<StatisticsMessage>('statistics', (message) => listener.statistics(message))
  on<{ first: number; events: Omit<ConsoleEvent, 'number'>[] }>('events', ({ first, events }) =>
    listener.events(events.map((event, index) => ({ ...event, number: first + index }))),
  )
  source.addEventListener('open', () => listener.connected(true))
  source.addEventListener('error', () => listener.connected(false))
}
