import type { JSONRPCMessage, JSONRPCNotification } from '@modelcontextprotocol/server'
import type { PlainResponse, PushedResponse } from '../../../http/plain-response.ts'
import { accepts } from '../../wire/accept.ts'
import { EVENT_STREAM_HEADERS, OPEN } from '../../wire/event-stream.ts'
import { jsonRpcError } from '../../wire/json-rpc.ts'
import { MAX_UNSENT_BYTES } from '../streams/event-outlet.ts'
import { LongStream } from '../streams/long-stream.ts'
import type { StreamClock } from '../streams/stream-clock.ts'
import type { SessionCall } from './session-call.ts'
import type { SessionEvents } from './session-events.ts'

export type Notification = Pick<JSONRPCNotification, 'method'> & {
  readonly params?: { readonly uri: string }
}

/** The name of the standalone stream in the event store. */
const STANDALONE_STREAM = '_GET_stream'

const RESOURCE_UPDATED = 'notifications/resources/updated'

/** The session of a standalone stream. */
export interface StreamSession {
  readonly id: string
  readonly events: SessionEvents
  readonly clock: StreamClock
  /** The revisions that the client may name in a request. */
  readonly protocolVersions: readonly string[]
  /** Receives the error of a request that is refused. */
  onError(error: Error): void
}

/**
 * The stream that the client of a session opens with GET. It carries what the servers send outside of requests. While it is not
 * open, the messages are kept for a client that asks for them with `Last-Event-ID`. The session needs neither a server nor a
 * transport of the SDK while the stream is open.
 */
export class StandaloneStream {
  readonly #session: StreamSession
  #body: LongStream | undefined
  /** The request that opened the stream. */
  #reader: SessionCall | undefined
  /** The notifications that wait to be sent. */
  #notifications: Map<string, Notification> | undefined

  constructor(session: StreamSession) {
    this.#session = session
  }

  get isOpen(): boolean {
    return this.#body !== undefined
  }

  /** Returns `true` for a GET that opens this stream, `false` if it resumes the stream of a POST. */
  serves({ lastEventId }: SessionCall): boolean {
    return lastEventId === '' || this.#session.events.streamOf(lastEventId) === STANDALONE_STREAM
  }

  /** Opens the stream in place of an open one, beginning with the messages after `Last-Event-ID`. */
  open(received: SessionCall): PlainResponse | PushedResponse {
    const { id, events, clock } = this.#session
    const { lastEventId } = received
    const refused = received.refusalFor(events.scopesAfter(lastEventId)) ?? this.#refusal(received)
    if (refused !== undefined) return refused
    // A proxy can hold a stream open that the client has lost.
    this.close()
    const body = new LongStream(clock, received.auth?.expiresAt)
    body.onEnd(() => {
      this.#body = undefined
      this.#reader = undefined
    })
    body.write(OPEN)
    this.#body = body
    this.#reader = received
    for (const [eventId, message] of events.missedAfter(lastEventId))
      if (this.mayBeRead(message)) this.#write(eventId, message)
    return { status: 200, headers: { ...EVENT_STREAM_HEADERS, 'mcp-session-id': id }, body }
  }

  /** Ends the stream. The client can open it again. */
  close(): void {
    this.#body?.end()
  }

  /** Sends a message, or keeps it. The token that asks for a kept message is checked then. */
  send(message: JSONRPCMessage): void {
    if (this.mayBeRead(message)) this.#write(this.#session.events.store(STANDALONE_STREAM, message), message)
  }

  /** Sends a notification. A notification that still waits is not sent twice. */
  notify(notification: Notification): void {
    const isSending = this.#notifications !== undefined
    this.#notifications ??= new Map()
    this.#notifications.set(`${notification.method} ${notification.params?.uri ?? ''}`, notification)
    if (!isSending) void this.#sendNotifications(this.#notifications)
  }

  async #sendNotifications(notifications: Map<string, Notification>): Promise<void> {
    for (const [key, notification] of notifications) {
      await Promise.resolve()
      // A change from now on is sent again.
      notifications.delete(key)
      this.send({ jsonrpc: '2.0', ...notification })
    }
    this.#notifications = undefined
  }

  /** Returns `true` if the token of the stream may read the message. */
  mayBeRead(message: JSONRPCMessage): boolean {
    if (!('method' in message) || message.method !== RESOURCE_UPDATED) return true
    const uri = message.params?.uri
    return typeof uri !== 'string' || this.#reader?.permitsResource(uri) !== false
  }

  #write(eventId: string, message: JSONRPCMessage): void {
    const body = this.#body
    body?.write(`event: message\nid: ${eventId}\ndata: ${JSON.stringify(message)}\n\n`)
    // The client can open another stream.
    if (body !== undefined && body.waitingBytes >= MAX_UNSENT_BYTES) body.end()
  }

  /** Returns the refusals of a transport of the SDK, in the same words. */
  #refusal(received: SessionCall): PlainResponse | undefined {
    if (!accepts(received.header('accept'), 'text/event-stream'))
      return this.#refused(406, 'Not Acceptable: Client must accept text/event-stream')
    const version = received.header('mcp-protocol-version')
    const { protocolVersions: known } = this.#session
    if (version !== undefined && !known.includes(version))
      return this.#refused(
        400,
        `Bad Request: Unsupported protocol version: ${version} (supported versions: ${known.join(', ')})`,
      )
    return undefined
  }

  #refused(status: number, message: string): PlainResponse {
    this.#session.onError(new Error(message))
    return jsonRpcError(status, -32_000, message)
  }
}
