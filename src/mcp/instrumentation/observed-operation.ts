import { performance } from 'node:perf_hooks'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import {
  type LowCardinality,
  lowCardinality,
  messageAttributes,
  type ObservedMessage,
  present,
} from './observed-message.ts'
import type { RpcError } from './outcomes.ts'
import type { RequestEvents } from './request-events.ts'
import type { Span, SpanEnd } from './tracing.ts'

/** The maximum length of an error message on a span. */
const MAX_DESCRIPTION = 256

/** The JSON-RPC errors that are mistakes of the client. By the conventions, they are not errors of the server. */
const CLIENT_ERRORS: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32602, -32002])

/** One message of a request and its span. If no message is known, the request itself. */
export class Operation {
  readonly message: ObservedMessage
  /** The result of `performance.now()` when the server received the message. */
  deliveredAt: number | undefined
  /** Milliseconds from the request to the response to the message. */
  respondedAfter: number | undefined
  error: RpcError | undefined
  hasToolError = false
  /** The result of a tool, if results are recorded. */
  result: unknown
  /** The attributes of each message of the request. */
  readonly #shared: Readonly<Record<string, string>>
  readonly #isKnown: boolean
  readonly #events: RequestEvents
  readonly #span: Span | undefined

  /** Begins the span. @param isKnown `true` if the called tool exists */
  constructor(events: RequestEvents, message: ObservedMessage, isKnown: boolean) {
    const { request, shared } = events
    this.message = message
    this.#events = events
    this.#shared = events.sharedAttributes
    this.#isKnown = isKnown
    this.#span = tryOrUndefined(() =>
      shared.tracing?.start(() => ({
        name: spanName(request, lowCardinality(message, false, isKnown)),
        attributes: {
          ...this.attributes,
          ...network(request),
          ...(shared.recordsClientAddress && present({ 'client.address': request.clientAddress })),
        },
        meta: message.meta,
        admits: (text) => events.redactor.isFree(text),
        startedAtMs: events.startedAtMs,
      })),
    )
  }

  get attributes(): Record<string, string> {
    return { ...messageAttributes(this.message), ...this.#shared }
  }

  /** Runs `fn` once, inside the span unless that fails. */
  run<T>(fn: () => T): T {
    return this.#span === undefined ? fn() : this.#span.run(fn)
  }

  /** Ends the span. @param attributes those of the span in addition to those of the operation */
  end(status: number, attributes: Readonly<Record<string, string>>): void {
    const span = this.#span
    if (span !== undefined) tryOrUndefined(() => span.end(this.#endOf(span, status, attributes)))
  }

  #endOf(span: Span, status: number, attributes: Readonly<Record<string, string>>): SpanEnd {
    const { message, error } = this
    const { redactor, request, startedAt } = this.#events
    const isServed = error === undefined && status < 400
    // A notification has no response, whether the server knows its method or not.
    const isAnswered = isServed && this.respondedAfter !== undefined
    const names = lowCardinality(message, isAnswered, this.#isKnown)
    const outcome = outcomeOf(status, error, this.hasToolError)
    const failed = 'error.type' in outcome
    const isMeasured = message.method !== undefined && message.isUnread !== true
    return {
      name: spanName(request, names),
      attributes: {
        ...attributes,
        ...outcome,
        ...httpStatus(request, status),
        ...(span.isRecorded && this.#events.payloadTexts(message.args, this.result)),
      },
      measured: isMeasured ? this.#measured(names, isServed, outcome) : undefined,
      durationMs: this.respondedAfter ?? performance.now() - startedAt,
      failed,
      description:
        failed && typeof error?.message === 'string'
          ? redactor.cut(error.message, MAX_DESCRIPTION)
          : undefined,
    }
  }

  #measured(
    { method, target }: LowCardinality,
    isServed: boolean,
    outcome: Record<string, string>,
  ): Record<string, string> {
    const { request, protocolVersion, client } = this.#events
    const { tool } = this.message
    return {
      ...present({
        'mcp.method.name': method ?? '_OTHER',
        [tool === undefined ? 'gen_ai.prompt.name' : 'gen_ai.tool.name']: target,
        'gen_ai.operation.name': tool === undefined ? undefined : 'execute_tool',
        // A refused request may name any version.
        'mcp.protocol.version': isServed ? protocolVersion : undefined,
        'mcp.client.name': client?.label,
      }),
      ...outcome,
      ...network(request),
    }
  }
}

function outcomeOf(
  status: number,
  error: RpcError | undefined,
  hasToolError: boolean,
): Record<string, string> {
  if (error !== undefined) {
    const code = String(error.code)
    return {
      'rpc.response.status_code': code,
      ...(!CLIENT_ERRORS.has(error.code) && { 'error.type': code }),
    }
  }
  if (hasToolError) return { 'error.type': 'tool_error' }
  return status >= 400 ? { 'error.type': String(status) } : {}
}

/** Returns the name of a span: the method and its target or, without a method, `MCP` and the HTTP method. */
function spanName(request: McpRequest, { method, target }: LowCardinality): string {
  if (method !== undefined) return target === undefined ? method : `${method} ${target}`
  return ['POST', 'GET', 'DELETE'].includes(request.method) ? `MCP ${request.method}` : 'MCP'
}

/** Returns the status of the response as an attribute. Messages over stdio do not have one. */
export function httpStatus({ transport }: McpRequest, status: number): Record<string, number> {
  return transport === 'pipe' ? {} : { 'http.response.status_code': status }
}

function network({ transport, httpVersion }: McpRequest): Record<string, string> {
  if (transport === 'pipe') return { 'network.transport': 'pipe' }
  return {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    ...(httpVersion && { 'network.protocol.version': httpVersion.replace(/\.0$/, '') }),
  }
}
