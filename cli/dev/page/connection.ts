import type { About, ServerState } from '../events/event-log.ts'
import type { EventRow, StoryRow } from '../events/row.ts'
import { browser } from './browser.ts'
import type { StatisticsMessage } from './delivery-statistics.ts'

/** The messages of `mcp-gatekit dev`, by type. */
export interface Messages {
  /** Facts that are constant while `mcp-gatekit dev` runs. */
  hello: About & { readonly run: string }
  server: ServerState
  /** Oldest first. */
  events: readonly EventRow[]
  /** The new and changed stories of clients, oldest first. */
  stories: readonly StoryRow[]
  statistics: StatisticsMessage
}

/** Connects to `mcp-gatekit dev` until the page is closed. Reconnects automatically. */
export function connect(
  listeners: { readonly [Type in keyof Messages]: (message: Messages[Type]) => void },
  connected: (isConnected: boolean) => void,
): void {
  const source = new browser.EventSource('/events')
  for (const [type, listener] of Object.entries(listeners))
    source.addEventListener(type, ({ data }) => listener(JSON.parse(data) as never))
  source.addEventListener('open', () => connected(true))
  source.addEventListener('error', () => connected(false))
}
