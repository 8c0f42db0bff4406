import type { JSONRPCMessage, McpServer, RequestId, Server, Transport } from '@modelcontextprotocol/server'
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

interface HookedServer {
  connect(transport: Transport): Promise<void>
  [property: symbol]: ((transport: Transport) => void) | undefined
}

/**
 * Calls `begun` with the transport of each later connection of `server`. `connect` is the only hook of the SDK for this.
 * @param key the property in which the server keeps the function. A further call replaces it.
 */
export function onConnection(
  server: Server | McpServer,
  key: symbol,
  begun: (transport: Transport) => void,
): void {
  const hooked = server as unknown as HookedServer
  const isHooked = key in hooked
  hooked[key] = begun
  if (isHooked) return
  const { connect } = hooked
  hooked.connect = async (transport) => {
    await connect.call(hooked, transport)
    hooked[key]?.(transport)
  }
}

const WATCHER: unique symbol = Symbol('watcher')

/** Watches the next connection of `server`, but not later ones. */
export function watchMessages(server: Server | McpServer, watcher: ServerWatcher): void {
  onConnection(server, WATCHER, (transport) => {
    onConnection(server, WATCHER, () => undefined)
    watchTransport(transport, watcher)
  })
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
const OUTFLOW: unique symbol = Symbol('outflow')

/** The stream of a request. */
export interface GuardedOutflow {
  readonly outflow: Outflow
  /** The order of the requests, if the request belongs to a batch. */
  readonly turns?: BatchTurns | undefined
}

/** Returns the stream of a request by its id. Returns undefined if it has none, and for a message that belongs to no request. */
export type FindOutflow = (id: RequestId | undefined) => GuardedOutflow | undefined

/** The beginning of the SDK's error message if it cannot send a response. */
const NO_RESPONSE = 'Failed to send response'

/**
 * Makes every connection of `server` respond also if the SDK would not send a response: if a response cannot be serialized as
 * JSON, or if a handler throws a value without properties. The client would wait forever.
 * @param find finds the streams of the next connections. Notifications wait until the client of a stream can take more.
 */
export function guardResponses(server: Server | McpServer, find: FindOutflow = () => undefined): void {
  const guarded = server as { [OWED]?: PendingResponses }
  const isGuarded = OUTFLOW in server
  onConnection(server, OUTFLOW, (transport) => {
    guarded[OWED] = new PendingResponses(transport, find)
  })
  if (isGuarded) return
  const protocol = 'server' in server ? server.server : server
  const { onerror } = protocol
  protocol.onerror = (error) => {
    onerror?.call(protocol, error)
    if (error.message.startsWith(NO_RESPONSE)) guarded[OWED]?.lose()
  }
}

/** The requests of one connection without a response. */
class PendingResponses {
  readonly #ids = new Set<RequestId>()
  readonly #transport: Transport
  readonly #find: FindOutflow
  #lost = 0

  constructor(transport: Transport, find: FindOutflow) {
    this.#transport = transport
    this.#find = find
    const { send, onmessage, onclose } = transport
    transport.onmessage = (message, extra) => {
      const deliver = (): void => onmessage?.call(transport, message, extra)
      if ('method' in message && 'id' in message) {
        const { id } = message
        const begin = (): void => {
          this.#ids.add(id)
          deliver()
        }
        const turns = find(id)?.turns
        if (turns === undefined) begin()
        else turns.take(id, begin)
        return
      }
      // The SDK does not respond to a canceled request.
      if ('method' in message && message.method === 'notifications/cancelled')
        this.#ended(message.params?.requestId as RequestId)
      // An earlier request may wait for this message.
      deliver()
    }
    transport.onclose = () => {
      find(undefined)?.turns?.clear()
      onclose?.call(transport)
    }
    transport.send = async (message, options) => {
      const sent = jsonSafe(message)
      const { outflow, turns } = find('method' in sent ? options?.relatedRequestId : sent.id) ?? {}
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

  #ended(id: RequestId): void {
    this.#ids.delete(id)
    this.#find(id)?.turns?.end(id)
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
async function sendWithoutKeeping(
  response: JSONRPCMessage,
  send: (response: JSONRPCMessage) => Promise<void>,
): Promise<void> {
  const kept = { ...response }
  await send(kept)
  if ('result' in kept) kept.result = {}
}
