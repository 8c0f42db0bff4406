import {
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  type MessageClassification,
  type MessageExtraInfo,
  PerRequestHTTPServerTransport,
  ProtocolErrorCode,
  type Server,
  type TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import { EVENT_STREAM_HEADERS, KEEP_ALIVE_MS, messageEvent } from '../../wire/event-stream.ts'
import type { Exchange } from '../../wire/exchange.ts'
import { CLIENT_GONE } from '../../wire/json-rpc.ts'
import { answerText } from '../../wire/json-safe.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import { EventOutlet } from '../streams/event-outlet.ts'

/** One request, and who waits for its answer. */
export interface FastCall {
  readonly message: JSONRPCRequest
  readonly exchange: Exchange
  readonly request: McpRequest
}

const JSON_HEADERS = { 'Content-Type': 'application/json' }

/** What the server says before it has asked a handler, as 2026-07-28 wants it in HTTP. */
const STATUS_BEFORE_HANDLER: ReadonlyMap<number, number> = new Map([
  [ProtocolErrorCode.ParseError, 400],
  [ProtocolErrorCode.InvalidRequest, 400],
  [ProtocolErrorCode.MethodNotFound, 404],
  [ProtocolErrorCode.UnsupportedProtocolVersion, 400],
])

/**
 * Has `server` answer one request of revision 2026-07-28, without a web request or response around it where the answer
 * is a lone message: JSON then, and an event stream when notifications come before it.
 */
export function serveModern(
  server: Server,
  call: FastCall,
  classification: MessageClassification,
): Promise<PlainResponse | Response> {
  return new ModernTransport(call, classification).serve(server)
}

/**
 * The same for a 2025-era revision, statelessly. The answer is an event stream, as the SDK's is; one that holds nothing
 * but the result is given as a text.
 */
export function serveLegacy(server: Server, call: FastCall): Promise<PlainResponse | Response> {
  return new LegacyTransport(call, { era: 'legacy' }).serve(server)
}

/**
 * The exchanges under way. A web-standard `Request` hears of its client only as long as somebody has it, and a handler that
 * waits for nothing but its signal is nobody: without this, both would be collected as garbage, and nothing ever aborted.
 */
const underWay = new Set<object>()

/**
 * The SDK's transport for one exchange, with everything it does done here. It is that class for the one thing that a
 * server looks at: which revision it is to speak.
 */
abstract class FastTransport extends PerRequestHTTPServerTransport {
  protected readonly call: FastCall
  readonly #extra: MessageExtraInfo
  /** Until the answer has begun. */
  #answer: ((answer: PlainResponse | Response) => void) | undefined
  #outlet: EventOutlet | undefined
  #keepAlive: NodeJS.Timeout | undefined
  #ended = false
  /** Whether the server is being handed the request: handlers run later. */
  #handing = false

  constructor(call: FastCall, classification: MessageClassification) {
    super({ classification })
    const { auth } = call.exchange
    this.call = call
    this.#extra = auth === undefined ? { classification } : { classification, authInfo: auth }
  }

  /** The answer that is a lone message. */
  protected abstract lone(message: JSONRPCMessage, beforeHandler: boolean): PlainResponse

  async serve(server: Server): Promise<PlainResponse | Response> {
    await server.connect(this)
    const answered = new Promise<PlainResponse | Response>((resolve) => {
      this.#answer = resolve
    })
    underWay.add(this)
    this.call.request.onDisconnect(() => void this.close())
    // Nobody would ever stop what is begun now.
    if (this.#ended) return await answered
    this.#handing = true
    try {
      this.onmessage?.(this.call.message, this.#extra)
    } catch (error) {
      await this.close()
      throw error
    }
    this.#handing = false
    return await answered
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (this.#ended) return
    const last = 'result' in message || 'error' in message
    // There is no other stream that could carry what does not belong to this request.
    if ((last ? message.id : options?.relatedRequestId) !== this.call.message.id) return
    if (last && this.#outlet === undefined) {
      this.#ended = true
      underWay.delete(this)
      clearInterval(this.#keepAlive)
      // The server is not closed: nothing of it is left but what the collector takes.
      this.#answer?.(this.lone(message, this.#handing))
      return
    }
    const event = messageEvent(last ? answerText(message) : JSON.stringify(message))
    if (last) {
      const settled = this.#outlet?.settle()
      if (settled !== undefined) await settled
      this.#write(event)
      // Once the server is done with the request: what is still under way when it closes, it aborts.
      setImmediate(() => void this.close())
      return
    }
    const outlet = this.#begun()
    const notify = async (notice: JSONRPCMessage): Promise<void> =>
      this.#write(messageEvent(JSON.stringify(notice)))
    if (
      !('id' in message) &&
      !outlet.admits(message as JSONRPCNotification, Buffer.byteLength(event), notify)
    )
      return
    outlet.write(event)
    if (outlet.hasRoom) return
    await outlet.room()
  }

  override async close(): Promise<void> {
    if (this.#ended && this.#outlet === undefined) return
    this.#ended = true
    underWay.delete(this)
    clearInterval(this.#keepAlive)
    this.#answer?.(CLIENT_GONE)
    const outlet = this.#outlet
    this.#outlet = undefined
    outlet?.end()
    this.onclose?.()
  }

  /** Begins the stream, if it has not begun, when nothing has been said for so long. */
  protected keepAlive(): void {
    this.#keepAlive ??= setInterval(() => {
      // A client that does not read shall not pile them up.
      if (this.#outlet?.hasRoom !== false) this.#write(': keepalive\n\n')
    }, KEEP_ALIVE_MS).unref()
  }

  #write(text: string): void {
    if (!this.#ended) this.#begun().write(text)
  }

  #begun(): EventOutlet {
    if (this.#outlet !== undefined) return this.#outlet
    const outlet = new EventOutlet({ onEnd: () => void this.close() })
    this.#outlet = outlet
    this.call.exchange.outflow = outlet
    this.#answer?.(new Response(outlet.body, { status: 200, headers: EVENT_STREAM_HEADERS }))
    this.keepAlive()
    return outlet
  }
}

class ModernTransport extends FastTransport {
  protected override lone(message: JSONRPCMessage, beforeHandler: boolean): PlainResponse {
    return { status: statusOf(message, beforeHandler), headers: JSON_HEADERS, body: answerText(message) }
  }
}

class LegacyTransport extends FastTransport {
  override async serve(server: Server): Promise<PlainResponse | Response> {
    this.keepAlive()
    return await super.serve(server)
  }

  protected override lone(message: JSONRPCMessage): PlainResponse {
    return {
      status: 200,
      headers: EVENT_STREAM_HEADERS,
      body: messageEvent(answerText(message)),
    }
  }
}

function statusOf(message: JSONRPCMessage, beforeHandler: boolean): number {
  if (!('error' in message)) return 200
  const { code } = message.error
  // The one whose status the specification gives wherever it comes from.
  if (code === ProtocolErrorCode.MissingRequiredClientCapability) return 400
  return (beforeHandler ? STATUS_BEFORE_HANDLER.get(code) : undefined) ?? 200
}
