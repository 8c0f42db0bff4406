import { performance } from 'node:perf_hooks'
import type { Readable, Transform, Writable } from 'node:stream'
import {
  type JSONRPCMessage,
  type JSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  ProtocolErrorCode,
  type RequestId,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { StdioServerTransport, serveStdio as serveWithSdk } from '@modelcontextprotocol/server/stdio'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { elapsedMs } from '../../base/timers.ts'
import { LazyRequest, RequestContext } from '../../oauth/inputs.ts'
import { type Events, makeEvents } from '../events/events.ts'
import type { Instrumentation } from '../instrumentation/instrumentation.ts'
import type { McpNotifier } from '../mcp-adapter.ts'
import { Confirmations } from '../operations/confirmations.ts'
import { RequestStates } from '../operations/request-state.ts'
import { MAX_SUBSCRIPTIONS, SubscribedUris } from '../operations/subscriptions.ts'
import type { ServerInfo } from '../options.ts'
import { withCanonicalUris } from '../router/named-operations.ts'
import type { RouterTable } from '../router/router-table.ts'
import { canonicalUri } from '../router/uris/canonical-uri.ts'
import { buildServer, type SdkServing } from '../sdk/build-server.ts'
import { EventOutlet } from '../sdk/streams/event-outlet.ts'
import { watchMessages } from '../sdk/watch-messages.ts'
import type { Exchange, ObservedClient, RequestTelemetry } from '../wire/exchange.ts'
import { CANCELED, CLIENT_GONE, longValueIn } from '../wire/json-rpc.ts'
import { WebMcpRequest } from '../wire/mcp-request.ts'
import { lineSplitter } from './stdio-streams.ts'

const checks = optionChecksOf('serveStdio')

/** The maximum number of requests without a response. A further one gets an error. */
const MAX_CALLS = 1024

/** The time in which `authorize` of an event type must decide. */
const AUTHORIZE_MS = 5_000

/** The time in which the client can read the end of its subscriptions when the connection is closed. */
const CLOSE_MS = 500

export interface StdioConnectionProps {
  readonly table: RouterTable
  readonly serverInfo: ServerInfo
  readonly instructions: string | undefined
  readonly instrumentation: Instrumentation
  readonly maxMessageBytes: number
  readonly input: Readable
  readonly output: Writable
}

/** A message over stdio, in the form of the requests that telemetry and the application's context read. It has no headers. */
class StdioRequest extends WebMcpRequest {
  readonly transport = 'pipe'

  constructor() {
    super(new Request('stdio:'), false)
  }
}

/** A request without a response. */
interface Call {
  readonly telemetry: RequestTelemetry
  /** Undefined while the application's context is being created. */
  exchange: Exchange | undefined
}

/** One connection over stdio: the SDK serves it, and each request has its own telemetry and its own context. */
export class StdioConnection {
  readonly notify: McpNotifier
  /** Undefined if no event type is declared. */
  readonly events: Events | undefined
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>
  #onEnd: (() => void) | undefined
  readonly #props: StdioConnectionProps
  readonly #splitter: Transform
  readonly #transport: StdioServerTransport
  readonly #states = new RequestStates(undefined)
  readonly #confirmations = new Confirmations()
  readonly #subscribed = new SubscribedUris()
  /** Counts the notifications that wait for the client. */
  readonly #outflow = new EventOutlet()
  readonly #calls = new Map<RequestId, Call>()
  readonly #sdk: { close(): Promise<void> }
  /** The server for the revision of the client. Undefined before the first message. */
  #server: Server | undefined
  /** `true` if the client listens with `subscriptions/listen`, which the SDK keeps. */
  #isModern = false
  /** The client, if telemetry observes it. */
  #client: ObservedClient | undefined
  /** The result of `performance.now()` at the first message. Undefined before. */
  #startedAt: number | undefined

  constructor(props: StdioConnectionProps) {
    const { input, output, maxMessageBytes: maxBytes } = props
    this.#props = props
    const { table, instrumentation } = props
    this.events = makeEvents(
      {
        table,
        options: undefined,
        gate: undefined,
        policy: undefined,
        authorizeTimeoutMs: AUTHORIZE_MS,
        record: (event, attributes) => instrumentation.emit(event, attributes),
      },
      checks,
    )
    this.ended = new Promise((resolve) => {
      this.#onEnd = resolve
    })
    // The transport adds listeners for each message that waits for the client.
    output.setMaxListeners(0)
    this.#splitter = lineSplitter(maxBytes, output, (problem) =>
      // The id of the message is not known.
      this.#refuse(undefined, ProtocolErrorCode.InvalidRequest, problem),
    )
    // The splitter has limited the length already. The transport closes the connection at its own limit.
    const maxBufferSize = maxBytes * 3 + 1024
    this.#transport = new StdioServerTransport(this.#splitter, output, { maxBufferSize })
    this.#sdk = serveWithSdk(({ era }) => this.#newServer(era === 'modern'), {
      transport: this.#transport,
      maxSubscriptions: MAX_SUBSCRIPTIONS,
    })
    this.#watchTransport()
    this.notify = this.#notifier()
    input.once('error', () => this.#splitter.end())
    input.pipe(this.#splitter)
  }

  /** Begins to end the connection, and aborts its requests. `ended` resolves soon, even if the client does not read. */
  close(): void {
    const late = setTimeout(() => {
      // Nothing is sent after this, so an error of either has no receiver.
      this.#server?.close().catch(() => undefined)
      this.#transport.close().catch(() => undefined)
    }, CLOSE_MS)
    this.#sdk.close().then(
      () => clearTimeout(late),
      () => undefined,
    )
  }

  #watchTransport(): void {
    const transport = this.#transport
    const { onmessage, onclose } = transport
    transport.onmessage = (message) => {
      const long = longValueIn(message)
      if (long !== undefined) {
        if ('method' in message && 'id' in message)
          this.#refuse(long.id ?? undefined, long.code, long.message)
        return
      }
      const checked = withCanonicalUris(message)
      if ('problem' in checked) this.#refuse(checked.id, ProtocolErrorCode.InvalidParams, checked.problem)
      else onmessage?.(checked.body as JSONRPCMessage)
    }
    transport.onclose = () => {
      onclose?.()
      this.#ended()
    }
  }

  #ended(): void {
    const { input, instrumentation } = this.#props
    input.unpipe(this.#splitter)
    input.pause()
    if (this.#startedAt !== undefined) {
      const revision = this.#server?.getNegotiatedProtocolVersion()
      instrumentation.sessionEnded('pipe', elapsedMs(this.#startedAt), revision, this.#client)
    }
    for (const { telemetry } of this.#calls.values()) telemetry.finished({ status: CLIENT_GONE.status })
    this.#calls.clear()
    this.#outflow.end()
    this.#onEnd?.()
  }

  async #newServer(isModern: boolean): Promise<Server> {
    const { table, serverInfo, instructions, instrumentation } = this.#props
    // A provider that is registered later is loaded during the next request.
    await instrumentation.loading
    const server = buildServer(table, (sdk) => this.#serving(sdk, server), serverInfo, {
      capabilities: table.capabilities,
      ...(instructions !== undefined && { instructions }),
    })
    watchMessages(server, {
      delivered: (message, deliver) => this.#delivered(message, deliver),
      responded: (response) => this.#responded(response),
      outflowOf: () => this.#outflow,
    })
    this.#isModern = isModern
    this.#startedAt ??= performance.now()
    this.#server = server
    return server
  }

  #serving({ mcpReq }: ServerContext, server: Server): SdkServing {
    const exchange = this.#calls.get(mcpReq.id)?.exchange
    if (exchange === undefined) throw new TypeError('A request has no exchange')
    return {
      table: this.#props.table,
      exchange,
      states: this.#states,
      confirmations: this.#confirmations,
      subscriptions: {
        subscribe: (_owner, uri) => this.#subscribed.add(uri),
        unsubscribe: (_owner, uri) => this.#subscribed.delete(uri),
      },
      events: this.events,
      sessionCapabilities: server.getClientCapabilities(),
    }
  }

  #delivered(message: JSONRPCMessage, deliver: () => void): void {
    if ('method' in message && 'id' in message) {
      this.#called(message, deliver)
      return
    }
    deliver()
    // The SDK does not respond to a canceled request. A session responds with this error.
    if ('method' in message && message.method === 'notifications/cancelled')
      this.#responded({ jsonrpc: '2.0', id: message.params?.requestId as RequestId, error: CANCELED })
  }

  #called(message: JSONRPCRequest, deliver: () => void): void {
    const { id } = message
    if (this.#calls.has(id)) {
      this.#refuse(id, ProtocolErrorCode.InvalidRequest, 'A request with the same id is in progress')
      return
    }
    if (this.#calls.size >= MAX_CALLS) {
      this.#refuse(id, -32_000, `At most ${MAX_CALLS} requests can be in progress`)
      return
    }
    const { instrumentation, table } = this.#props
    void instrumentation.loading
    const request = new StdioRequest()
    const telemetry = instrumentation.begin(request)
    telemetry.received(this.#revisionOf(message), [message], table.tools, () => this.#client)
    this.#client ??= telemetry.client
    const call: Call = { telemetry, exchange: undefined }
    this.#calls.set(id, call)
    void telemetry.run(async () => {
      try {
        const made = table.makeContext === undefined ? {} : await table.makeContext(new LazyRequest(request))
        // The client may have canceled the request, or disconnected.
        if (this.#calls.get(id) !== call) return
        const context = new RequestContext(request, made)
        call.exchange = { gate: undefined, auth: undefined, context, telemetry, outflow: this.#outflow }
        deliver()
      } catch (cause) {
        telemetry.finished({ outcome: 'failed', cause })
        if (this.#calls.get(id) !== call) return
        this.#calls.delete(id)
        this.#refuse(id, ProtocolErrorCode.InternalError, 'Internal server error')
      }
    })
  }

  #responded(response: JSONRPCMessage): void {
    if (!('id' in response) || response.id === undefined) return
    const call = this.#calls.get(response.id)
    if (call === undefined) return
    this.#calls.delete(response.id)
    call.telemetry.messageSent(response, false)
    call.telemetry.finished({ status: 200 })
  }

  #revisionOf({ method, params }: JSONRPCRequest): unknown {
    if (method === 'initialize') return params?.protocolVersion
    return this.#server?.getNegotiatedProtocolVersion() ?? params?._meta?.[PROTOCOL_VERSION_META_KEY]
  }

  #refuse(id: RequestId | undefined, code: number, message: string): void {
    const response = { jsonrpc: '2.0' as const, ...(id !== undefined && { id }), error: { code, message } }
    // Sending fails only if the client has left.
    this.#transport.send(response).catch(() => undefined)
  }

  #notifier(): McpNotifier {
    const send = (notification: (server: Server) => Promise<void>): void => {
      // Sending fails only if the client has left.
      if (this.#server !== undefined) notification(this.#server).catch(() => undefined)
    }
    const { tools, prompts, resources } = this.#props.table.capabilities
    return Object.freeze<McpNotifier>({
      toolsChanged: () => tools && send((server) => server.sendToolListChanged()),
      promptsChanged: () => prompts && send((server) => server.sendPromptListChanged()),
      resourcesChanged: () => resources && send((server) => server.sendResourceListChanged()),
      resourceUpdated: (given) => {
        const uri = canonicalUri(given) ?? given
        // The SDK knows the subscriptions of a modern client.
        if (resources && (this.#isModern || this.#subscribed.has(uri)))
          send((server) => server.sendResourceUpdated({ uri }))
      },
    })
  }
}
