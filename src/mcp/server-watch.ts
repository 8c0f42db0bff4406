import type { JSONRPCMessage, McpServer, Server, Transport } from '@modelcontextprotocol/server'

/** Sees the messages between the SDK's transport and its server. */
export interface ServerWatcher {
  /** A message has come; `deliver` hands it on, and has to be called once. */
  readonly delivered: (message: JSONRPCMessage, deliver: () => void) => void
  /** A message goes out. */
  readonly sent: (message: JSONRPCMessage) => void
}

/** Where the hook of a server finds who watches its next connection. */
const WATCHER: unique symbol = Symbol('watcher')

interface WatchedServer {
  connect(transport: Transport): Promise<void>
  [WATCHER]?: ServerWatcher | undefined
}

/** Watches the next connection of `server`, and no later one. The SDK has no hook for it but `connect`. */
export function watchServer(server: Server | McpServer, watcher: ServerWatcher): void {
  const watched: WatchedServer = server
  const isHooked = WATCHER in watched
  watched[WATCHER] = watcher
  if (isHooked) return
  const { connect } = watched
  watched.connect = async function connectWatched(transport) {
    const watching = watched[WATCHER]
    watched[WATCHER] = undefined
    await connect.call(watched, transport)
    if (watching !== undefined) watchTransport(transport, watching)
  }
}

function watchTransport(transport: Transport, { delivered, sent }: ServerWatcher): void {
  const { send, onmessage } = transport
  transport.send = (message, options) => {
    sent(message)
    return send.call(transport, message, options)
  }
  transport.onmessage = (message, extra) =>
    delivered(message as JSONRPCMessage, () => onmessage?.call(transport, message, extra))
}
