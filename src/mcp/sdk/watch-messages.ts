import type { JSONRPCMessage, McpServer, RequestId, Server, Transport } from '@modelcontextprotocol/server'
import { methodNamed } from '../methods.ts'
import type { Outflow } from '../wire/exchange.ts'
import { internalError, jsonSafe } from '../wire/json-safe.ts'
import { guardTemplates } from './uri-guard.ts'

/** Receives the messages between the SDK's transport and its server. */
export interface ServerWatcher {
  /** Called for each message of the client. It must call `deliver` once, which passes the message on. */
  readonly delivered?: (message: JSONRPCMessage, deliver: () => void) => void
  /** Called for each response of the server, as it is sent. */
  readonly responded?: (response: JSONRPCMessage) => void
  /**
   * Returns the stream of a request by its id. Its notifications wait until its client can take more. Returns undefined if the
   * request has none, and for a notification that belongs to no request.
   */
  readonly outflowOf?: (id: RequestId | undefined) => Outflow | undefined
}

const WATCHER: unique symbol = Symbol('watcher')
/** The property with the function that records a lost response of the current connection. */
const OWED: unique symbol = Symbol('owed')

interface WatchedServer {
  connect(transport: Transport): Promise<void>
  [WATCHER]?: ServerWatcher
  [OWED]?: () => void
}

/** The beginning of the SDK's error message if it cannot send a response. */
const NO_RESPONSE = 'Failed to send response'

/**
 * Watches the next connections of `server`, instead of an earlier watcher. Makes them match resource templates in linear time, and
 * respond also if the SDK would not send a response: if a response cannot be serialized as JSON, or if a handler throws a value
 * without properties. The client would wait forever.
 */
export function watchMessages(server: Server | McpServer, watcher: ServerWatcher): void {
  const watched = server as unknown as WatchedServer
  const isWatched = WATCHER in server
  watched[WATCHER] = watcher
  if (isWatched) return
  // `connect` is the only hook of the SDK for this.
  const { connect } = watched
  watched.connect = async (transport) => {
    await connect.call(watched, transport)
    watched[OWED] = watchTransport(server, transport, watched[WATCHER] ?? {})
  }
  const protocol = 'server' in server ? server.server : server
  const { onerror } = protocol
  protocol.onerror = (error) => {
    onerror?.call(protocol, error)
    if (error.message.startsWith(NO_RESPONSE)) watched[OWED]?.()
  }
}

/**
 * Keeps the requests of one connection without a response. Returns a function that records that one response is lost. The SDK does
 * not say which, so the lost requests are those that are left when all others have a response.
 */
function watchTransport(
  server: Server | McpServer,
  transport: Transport,
  { delivered = (_message, deliver) => deliver(), responded, outflowOf }: ServerWatcher,
): () => void {
  const ids = new Set<RequestId>()
  let lost = 0
  const { send, onmessage } = transport
  const makeUp = (): void => {
    if (lost === 0 || lost < ids.size) return
    lost = 0
    // Sending fails only if the client has left.
    for (const id of ids) transport.send(internalError(id)).catch(() => undefined)
  }
  transport.onmessage = (message, extra) => {
    // The application may have added templates.
    if ('method' in message && methodNamed(message.method)?.names === 'resource') guardTemplates(server)
    if ('method' in message && 'id' in message) ids.add(message.id)
    // The SDK does not respond to a canceled request.
    if ('method' in message && message.method === 'notifications/cancelled')
      ids.delete(message.params?.requestId as RequestId)
    delivered(message, () => onmessage?.call(transport, message, extra))
  }
  transport.send = async (message, options) => {
    const sent = jsonSafe(message)
    if ('method' in sent && !('id' in sent)) {
      const outflow = outflowOf?.(options?.relatedRequestId)
      if (outflow === undefined) await send.call(transport, sent, options)
      else await outflow.notify(sent, (one) => send.call(transport, one, options))
      return
    }
    if (!('method' in sent)) responded?.(sent)
    // The SDK checks whether a response is sent synchronously.
    await send.call(transport, sent, options)
    if ('method' in sent || sent.id === undefined) return
    ids.delete(sent.id)
    makeUp()
  }
  return () => {
    lost++
    makeUp()
  }
}
