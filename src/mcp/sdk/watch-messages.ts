import type { JSONRPCMessage, McpServer, RequestId, Server, Transport } from '@modelcontextprotocol/server'
import { AsyncContext } from '../../base/runtime.ts'
import type { Outflow } from '../wire/exchange.ts'
import { internalError, jsonSafe, withBoundedError } from '../wire/json-safe.ts'

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

/** The property with the function that records a lost response of the current connection. */
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
  const guarded = server as { [OWED]?: () => void }
  const isGuarded = OUTFLOW in server
  onConnection(server, OUTFLOW, (transport) => {
    guarded[OWED] = guardTransport(transport, find)
  })
  if (isGuarded) return
  const protocol = 'server' in server ? server.server : server
  const { onerror } = protocol
  protocol.onerror = (error) => {
    onerror?.call(protocol, error)
    if (error.message.startsWith(NO_RESPONSE)) guarded[OWED]?.()
  }
}

/**
 * Keeps the requests of one connection without a response. Returns a function that records that one response is lost. The SDK does
 * not say which, so the lost requests are those that are left when all others have a response.
 */
function guardTransport(transport: Transport, find: FindOutflow): () => void {
  const ids = new Set<RequestId>()
  let lost = 0
  const { send, onmessage, onclose } = transport
  const ended = (id: RequestId): void => {
    ids.delete(id)
    find(id)?.turns?.end(id)
  }
  const makeUp = (): void => {
    if (lost === 0 || lost < ids.size) return
    lost = 0
    // Sending fails only if the client has left.
    for (const id of ids) transport.send(internalError(id)).catch(() => undefined)
  }
  transport.onmessage = (message, extra) => {
    const deliver = (): void => onmessage?.call(transport, message, extra)
    if ('method' in message && 'id' in message) {
      const { id } = message
      const begin = (): void => {
        ids.add(id)
        deliver()
      }
      const turns = find(id)?.turns
      if (turns === undefined) begin()
      else turns.take(id, begin)
      return
    }
    // The SDK does not respond to a canceled request.
    if ('method' in message && message.method === 'notifications/cancelled')
      ended(message.params?.requestId as RequestId)
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
      return await outflow.notify(sent, () => send.call(transport, sent, options))
    // The SDK checks whether a response is sent synchronously.
    if ('method' in sent || sent.id === undefined) return await send.call(transport, sent, options)
    if (turns?.hasWaiting === true)
      await sendWithoutKeeping(sent, (one) => send.call(transport, one, options))
    else await send.call(transport, sent, options)
    ended(sent.id)
    makeUp()
  }
  return () => {
    lost++
    makeUp()
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

/** In place of the current request, while the next one waits for the client. */
const NONE = { request: Symbol('none') } as const

/**
 * The order of the requests of a batch: each begins when the previous one has ended and the client has room for a further
 * response. Other connections get their turn in between. A small batch could otherwise cause many large responses that wait for
 * a client that does not read.
 */
export class BatchTurns {
  readonly #outflow: Pick<Outflow, 'room'>
  /** By request, the function that begins it. The number of messages in a batch is limited. */
  readonly #waiting = new Map<unknown, () => void>()
  #current: { readonly request: unknown } | undefined

  constructor(outflow: Pick<Outflow, 'room'>) {
    this.#outflow = outflow
  }

  /** `true` if a request waits for its turn. */
  get hasWaiting(): boolean {
    return this.#waiting.size > 0
  }

  /** Calls `begin` when it is the turn of `request`: at once for the first request. */
  take(request: unknown, begin: () => void): void {
    if (this.#current !== undefined) {
      // Must not begin in the context of the previous request, such as its span.
      const context = new AsyncContext('McpBatch')
      this.#waiting.set(request, () => context.runInAsyncScope(begin))
      return
    }
    this.#current = { request }
    begin()
  }

  /** Ends a request, which has a response or was canceled. Further calls have no effect. */
  end(request: unknown): void {
    this.#waiting.delete(request)
    if (this.#current?.request !== request) return
    this.#current = this.hasWaiting ? NONE : undefined
    if (this.hasWaiting) void this.#next()
  }

  /** Forgets the requests that wait, because the connection has ended. */
  clear(): void {
    this.#waiting.clear()
  }

  async #next(): Promise<void> {
    // The response passes through the streams of the SDK in microtasks. Only then does the outflow count it.
    await new Promise(setImmediate)
    await this.#outflow.room()
    const [next] = this.#waiting
    this.#current = undefined
    if (next === undefined) return
    const [request, begin] = next
    this.#waiting.delete(request)
    this.take(request, begin)
  }
}
