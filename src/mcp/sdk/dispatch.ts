import {
  classifyInboundRequest,
  createMcpHandler,
  type McpHttpHandler,
  type ServerNotifier,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import type { Answer } from '../../oauth/answer.ts'
import type { Exchange } from '../exchange.ts'
import type { McpIncoming } from '../incoming.ts'
import { ownerOf } from '../operations/request-state.ts'
import type { RouterTable } from '../router/router-table.ts'
import { jsonRpcError } from '../rpc.ts'
import { servedRequest } from '../served-request.ts'
import { serveLegacy, serveModern } from './direct-transport.ts'
import { EventStreams } from './event-stream.ts'
import { plainRequest } from './plain-request.ts'
import { SdkServers, type SdkServersProps } from './servers.ts'
import { McpSessions } from './sessions.ts'

const FIRST_MODERN_REVISION = '2026-07-28'

/**
 * Has the official SDK answer what was let in, by one of three ways: its server alone for plain requests, which most are;
 * a session, where they are wanted; and its handler for everything else. Plain requests are answered alike by all.
 */
export class SdkDispatch {
  /** Whether plain requests take the short way. Tests turn it off to see that both ways answer alike. */
  servesDirectly = true
  readonly #table: RouterTable | undefined
  readonly #servers: SdkServers
  readonly #handler: McpHttpHandler
  readonly #streams: EventStreams
  readonly #sessions: McpSessions | undefined

  constructor(props: SdkServersProps) {
    const { eventBus, maxBodyBytes, sessions } = props.options
    const servers = new SdkServers(props)
    this.#servers = servers
    this.#table = typeof props.router === 'function' ? undefined : props.router
    this.#handler = createMcpHandler(
      ({ requestInfo }) => servers.forRequest(requestInfo as Request, this.#streams),
      { maxRequestBodySize: maxBodyBytes, ...(eventBus !== undefined && { bus: eventBus }) },
    )
    const { bus } = this.#handler
    this.#streams = new EventStreams(bus)
    if (sessions !== undefined) {
      this.#sessions = new McpSessions(sessions, bus, {
        makeServer: (subscriptions, request) => servers.forSession(request, subscriptions),
      })
    }
  }

  get notify(): ServerNotifier {
    return this.#handler.notify
  }

  /** Answers the messages of a POST. @param body what holds them: one message, or a batch. */
  post(
    incoming: McpIncoming,
    exchange: Exchange,
    body: unknown,
    messages: readonly unknown[],
  ): Promise<Response | Answer> {
    const { auth } = exchange
    if (this.#sessions !== undefined && isLegacy(incoming, body)) {
      return this.#session(this.#sessions, incoming, exchange, body)
    }
    const table = this.#table
    const plain =
      table === undefined || !this.servesDirectly ? undefined : plainRequest(incoming, body, table)
    if (table === undefined || plain === undefined) {
      const request = servedRequest(incoming, exchange, messages)
      return this.#handler.fetch(request, { parsedBody: body, ...(auth !== undefined && { authInfo: auth }) })
    }
    const server = this.#servers.forPlain(table, exchange, this.#streams, plain)
    const call = { message: plain.message, auth, incoming }
    return plain.era === 'modern'
      ? serveModern(server, call, plain.classification)
      : serveLegacy(server, call)
  }

  /** Answers everything that has no body: GET opens a stream of 2025 revisions, DELETE ends a session. */
  async bodiless(incoming: McpIncoming, exchange: Exchange): Promise<Response | Answer> {
    const { method } = incoming
    const revision = incoming.header('mcp-protocol-version')
    const isModern = revision !== undefined && revision >= FIRST_MODERN_REVISION
    if (this.#sessions !== undefined && !isModern && (method === 'GET' || method === 'DELETE')) {
      return await this.#session(this.#sessions, incoming, exchange, undefined)
    }
    if (isModern || method !== 'GET') return methodNotAllowed(this.#sessions !== undefined)
    return this.#openStream(incoming, exchange, revision)
  }

  async #session(
    sessions: McpSessions,
    incoming: McpIncoming,
    exchange: Exchange,
    body: unknown,
  ): Promise<Response | Answer> {
    const { auth, observation } = exchange
    const tellsTools = this.#table === undefined
    try {
      return await sessions.serve({
        request: servedRequest(incoming, exchange),
        body,
        auth,
        onDisconnect: (listener) => incoming.onDisconnect(listener),
        onAnswer: observation && ((answer) => observation.answered(answer, tellsTools)),
      })
    } catch {
      // As the SDK's handler answers when a server cannot be made; telemetry has been told why.
      return jsonRpcError(500, -32_603, 'Internal server error')
    }
  }

  #openStream(incoming: McpIncoming, { auth }: Exchange, revision: string | undefined): Response | Answer {
    if (revision !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(revision)) {
      return jsonRpcError(
        400,
        -32_000,
        `Bad Request: Unsupported protocol version (supported: ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')})`,
      )
    }
    if (!/\btext\/event-stream\b|\*\/\*/i.test(incoming.header('accept') ?? '*/*')) {
      return jsonRpcError(406, -32_000, 'Not Acceptable: Client must accept text/event-stream')
    }
    return this.#streams.open({ owner: ownerOf(auth), expiresAt: auth?.expiresAt, client: incoming })
  }
}

function methodNotAllowed(hasSessions: boolean): Answer {
  const answer = jsonRpcError(405, -32_000, 'Method not allowed.')
  const methods = hasSessions ? 'GET, POST, DELETE, OPTIONS' : 'GET, POST, OPTIONS'
  return { ...answer, headers: { ...answer.headers, Allow: methods } }
}

/** Whether a POST is of a 2025 revision, as the SDK sees it. */
function isLegacy(incoming: McpIncoming, body: unknown): boolean {
  const protocolVersionHeader = incoming.header('mcp-protocol-version')
  const { kind } = classifyInboundRequest({
    httpMethod: 'POST',
    ...(protocolVersionHeader !== undefined && { protocolVersionHeader }),
    body,
  })
  return kind === 'legacy'
}
