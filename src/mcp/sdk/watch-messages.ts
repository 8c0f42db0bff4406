import type { JSONRPCMessage, McpServer, Server, Transport } from '@modelcontextprotocol/server'
import type { Outflow } from '../wire/exchange.ts'
import { sendable, unsendable } from '../wire/json-safe.ts'

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
export function watchMessages(server: Server | McpServer, watcher: ServerWatcher): void {
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

/** Where the hooks of a server find the answers that its present connection owes. */
const OWED: unique symbol = Symbol('owed')
/** Where they find the stream of its next connection. */
const OUTFLOW: unique symbol = Symbol('outflow')

interface GuardedServer extends WatchedServer {
  [OWED]?: OwedAnswers | undefined
  [OUTFLOW]?: Outflow | undefined
}

/** What the SDK says when it could not even make an error of what was thrown. */
const NO_ANSWER = 'Failed to send response'

/**
 * Has every connection of `server` answer also where the SDK would send nothing, so that the client waited for ever: an
 * answer that cannot be written as JSON, and a handler that throws what has no properties.
 * @param outflow of the next connection: notifications wait until its client has room.
 */
export function guardAnswers(server: Server | McpServer, outflow?: Outflow): void {
  const guarded: GuardedServer = server
  guarded[OUTFLOW] = outflow
  if (OWED in guarded) return
  const { connect } = guarded
  const protocol = 'server' in server ? server.server : server
  const { onerror } = protocol
  guarded[OWED] = undefined
  protocol.onerror = (error) => {
    onerror?.call(protocol, error)
    if (error.message.startsWith(NO_ANSWER)) guarded[OWED]?.lose()
  }
  guarded.connect = async function connectGuarded(transport) {
    const next = guarded[OUTFLOW]
    guarded[OUTFLOW] = undefined
    await connect.call(guarded, transport)
    guarded[OWED] = new OwedAnswers(transport, next)
  }
}

/** The requests of one connection that have no answer yet. */
class OwedAnswers {
  readonly #ids = new Set<string | number>()
  readonly #transport: Transport
  #lost = 0

  constructor(transport: Transport, outflow: Outflow | undefined) {
    this.#transport = transport
    const { send, onmessage } = transport
    transport.onmessage = (message, extra) => {
      if ('method' in message && 'id' in message) this.#ids.add(message.id)
      // The SDK does not answer what was cancelled.
      else if ('method' in message && message.method === 'notifications/cancelled')
        this.#ids.delete(message.params?.requestId as string | number)
      onmessage?.call(transport, message, extra)
    }
    transport.send = async (message, options) => {
      const sent = sendable(message)
      if (outflow !== undefined && 'method' in sent && !('id' in sent))
        return await outflow.notify(sent, (one) => send.call(transport, one, options))
      const settled = 'method' in sent ? undefined : outflow?.settle()
      // The SDK looks at whether an answer comes at once.
      if (settled !== undefined) await settled
      await send.call(transport, sent, options)
      if ('method' in sent || sent.id === undefined) return
      this.#ids.delete(sent.id)
      this.#makeUp()
    }
  }

  /** One answer will never come: the SDK does not say which. */
  lose(): void {
    this.#lost++
    this.#makeUp()
  }

  /** Those that are left when all others have their answer are the lost ones. */
  #makeUp(): void {
    if (this.#lost === 0 || this.#lost < this.#ids.size) return
    this.#lost = 0
    for (const id of this.#ids) this.#transport.send(unsendable(id)).catch(() => undefined)
  }
}
