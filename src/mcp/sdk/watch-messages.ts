import type { JSONRPCMessage, McpServer, Server, Transport } from '@modelcontextprotocol/server'
import type { Outflow } from '../wire/exchange.ts'
import { internalError, jsonSafe, withBoundedError } from '../wire/json-safe.ts'
import type { BatchTurns } from './streams/batch-turns.ts'

/** Receives the messages between the SDK's transport and its server. */
export interface ServerWatcher {
  /** Called for each message of the client. It must call `deliver` once, which passes the message on. */
  readonly delivered: (message: JSONRPCMessage, deliver: () => void) => void
  /** Called for each message of the server. */
  readonly sent: (message: JSONRPCMessage) => void
}

/** The property in which a server keeps the watcher of its next connection. */
const WATCHER: unique symbol = Symbol('watcher')

interface WatchedServer {
  connect(transport: Transport): Promise<void>
  [WATCHER]?: ServerWatcher | undefined
}

/** Watches the next connection of `server`, but not later ones. `connect` is the only hook of the SDK for this. */
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
    const bounded = withBoundedError(message)
    sent(bounded)
    return send.call(transport, bounded, options)
  }
  transport.onmessage = (message, extra) =>
    delivered(message as JSONRPCMessage, () => onmessage?.call(transport, message, extra))
}

/** The property in which a server keeps the requests of its current connection without a response. */
const OWED: unique symbol = Symbol('owed')
/** The property in which a server keeps the stream of its next connection. */
const OUTFLOW: unique symbol = Symbol('outflow')

/** The stream of a connection. */
export interface GuardedOutflow {
  readonly outflow: Outflow
  /** The order of the requests, if the connection carries a single batch. */
  readonly turns?: BatchTurns
}

interface GuardedServer extends WatchedServer {
  [OWED]?: PendingResponses | undefined
  [OUTFLOW]?: GuardedOutflow | undefined
}

/** The beginning of the SDK's error message if it cannot send a response. */
const NO_RESPONSE = 'Failed to send response'

/**
 * Makes every connection of `server` respond also if the SDK would not send a response: if a response cannot be serialized as
 * JSON, or if a handler throws a value without properties. The client would wait forever.
 * @param outflow the stream of the next connection. Notifications wait until its client can take more.
 */
export function guardResponses(server: Server | McpServer, outflow?: GuardedOutflow): void {
  const guarded: GuardedServer = server
  guarded[OUTFLOW] = outflow
  if (OWED in guarded) return
  const { connect } = guarded
  const protocol = 'server' in server ? server.server : server
  const { onerror } = protocol
  guarded[OWED] = undefined
  protocol.onerror = (error) => {
    onerror?.call(protocol, error)
    if (error.message.startsWith(NO_RESPONSE)) guarded[OWED]?.lose()
  }
  guarded.connect = async function connectGuarded(transport) {
    const next = guarded[OUTFLOW]
    guarded[OUTFLOW] = undefined
    await connect.call(guarded, transport)
    guarded[OWED] = new PendingResponses(transport, next)
  }
}

/** The requests of one connection without a response. */
class PendingResponses {
  readonly #ids = new Set<string | number>()
  readonly #transport: Transport
  readonly #turns: BatchTurns | undefined
  #lost = 0

  constructor(transport: Transport, guarded: GuardedOutflow | undefined) {
    this.#transport = transport
    const { outflow, turns } = guarded ?? {}
    this.#turns = turns
    const { send, onmessage, onclose } = transport
    transport.onmessage = (message, extra) => {
      const deliver = (): void => onmessage?.call(transport, message, extra)
      if ('method' in message && 'id' in message) {
        const { id } = message
        const begin = (): void => {
          this.#ids.add(id)
          deliver()
        }
        if (turns === undefined) begin()
        else turns.take(id, begin)
        return
      }
      // The SDK does not respond to a canceled request.
      if ('method' in message && message.method === 'notifications/cancelled')
        this.#ended(message.params?.requestId as string | number)
      // An earlier request may wait for this message.
      deliver()
    }
    transport.onclose = () => {
      turns?.clear()
      onclose?.call(transport)
    }
    transport.send = async (message, options) => {
      const sent = jsonSafe(message)
      if (outflow !== undefined && 'method' in sent && !('id' in sent))
        return await outflow.notify(sent, (one) => send.call(transport, one, options))
      const settled = 'method' in sent ? undefined : outflow?.settle()
      // The SDK checks whether a response is sent synchronously.
      if (settled !== undefined) await settled
      if ('method' in sent || sent.id === undefined) return await send.call(transport, sent, options)
      if (turns?.hasWaiting === true)
        await sendWithoutKeeping(sent, (one) => send.call(transport, one, options))
      else await send.call(transport, sent, options)
      this.#ended(sent.id)
      this.#makeUp()
    }
  }

  /** Records that one response is lost. The SDK does not say which. */
  lose(): void {
    this.#lost++
    this.#makeUp()
  }

  #ended(id: string | number): void {
    this.#ids.delete(id)
    this.#turns?.end(id)
  }

  /** Responds to the lost requests: those that are left when all others have a response. */
  #makeUp(): void {
    if (this.#lost === 0 || this.#lost < this.#ids.size) return
    this.#lost = 0
    // Sending fails only if the client has left.
    for (const id of this.#ids) this.#transport.send(internalError(id)).catch(() => undefined)
  }
}

/**
 * Sends a response of a batch as an event. The transport of the SDK keeps every response until the last one of its batch, so the
 * result is removed from it when it is written.
 */
export async function sendWithoutKeeping(
  response: JSONRPCMessage,
  send: (response: JSONRPCMessage) => Promise<void>,
): Promise<void> {
  const kept = { ...response }
  await send(kept)
  if ('result' in kept) kept.result = {}
}
