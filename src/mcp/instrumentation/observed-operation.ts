import { performance } from 'node:perf_hooks'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import {
  type LowCardinality,
  lowCardinality,
  messageAttributes,
  type ObservedMessage,
} from './observed-message.ts'
import { runWithin } from './run-within.ts'
import type { TokenRedactor } from './token-redactor.ts'
import type { ServerSpan, SpanEnd, Tracing } from './tracing.ts'

/** The maximum length of an error message on a span. */
const MAX_DESCRIPTION = 256

/** The JSON-RPC errors that are mistakes of the client. By the conventions, they are not errors of the server. */
const CLIENT_ERRORS: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32602, -32002])

/** The error of a JSON-RPC response. */
export interface RpcError {
  readonly code: number
  readonly message: unknown
}

/** The data that all operations of one request share. */
export interface OperationRequest {
  readonly request: McpRequest
  readonly recordsClientAddress: boolean
  readonly redactor: TokenRedactor
  readonly protocolVersion: string | undefined
  /** The name of the client, out of a few. */
  readonly client: string | undefined
  /** The attributes of each message. */
  readonly attributes: Readonly<Record<string, string>>
  /** The result of `performance.now()` at the beginning. */
  readonly startedAt: number
  /** Milliseconds since 1970. */
  readonly startedAtMs: number
}

/** The end of a request. */
export interface OperationEnd {
  readonly status: number
  /** The attributes of the span in addition to those of the operation. */
  readonly attributes: Readonly<Record<string, string>>
  /** Returns further attributes. Called only if the span is recorded. */
  readonly more: () => Readonly<Record<string, string>>
}

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
  readonly #isKnown: boolean
  readonly #request: OperationRequest
  readonly #span: ServerSpan | undefined

  /** Begins the span. @param isKnown `true` if the called tool exists */
  constructor(tracing: Tracing, request: OperationRequest, message: ObservedMessage, isKnown: boolean) {
    this.message = message
    this.#request = request
    this.#isKnown = isKnown
    this.#span = tryOrUndefined(() =>
      tracing.start(() => ({
        name: spanName(request, lowCardinality(message, false, isKnown)),
        attributes: { ...this.attributes, ...network(request.request), ...clientAddress(request) },
        meta: message.meta,
        admits: (text) => request.redactor.isFree(text),
        startedAtMs: request.startedAtMs,
      })),
    )
  }

  get attributes(): Record<string, string> {
    return { ...messageAttributes(this.message), ...this.#request.attributes }
  }

  /** Runs `fn` once, inside the span unless that fails. */
  run<T>(fn: () => T): T {
    const span = this.#span
    if (span === undefined) return fn()
    return runWithin((once) => span.run(once), fn)
  }

  end(end: OperationEnd): void {
    tryOrUndefined(() => this.#span?.end((isRecorded) => this.#describe(end, isRecorded)))
  }

  #describe({ status, attributes, more }: OperationEnd, isRecorded: boolean): SpanEnd {
    const { message, error } = this
    const { redactor, startedAt } = this.#request
    const isServed = error === undefined && status < 400
    // A notification has no response, whether the server knows its method or not.
    const isAnswered = isServed && this.respondedAfter !== undefined
    const names = lowCardinality(message, isAnswered, this.#isKnown)
    const outcome = outcomeOf(status, error, this.hasToolError)
    const failed = 'error.type' in outcome
    const isMeasured = message.method !== undefined && message.isUnread !== true
    return {
      name: spanName(this.#request, names),
      attributes: {
        ...attributes,
        ...outcome,
        ...httpStatus(this.#request.request, status),
        ...(isRecorded && more()),
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
    const { request, protocolVersion, client } = this.#request
    const { tool } = this.message
    return {
      'mcp.method.name': method ?? '_OTHER',
      ...(target !== undefined && {
        [tool === undefined ? 'gen_ai.prompt.name' : 'gen_ai.tool.name']: target,
      }),
      ...(tool !== undefined && { 'gen_ai.operation.name': 'execute_tool' }),
      // A refused request may name any version.
      ...(isServed && protocolVersion !== undefined && { 'mcp.protocol.version': protocolVersion }),
      ...(client !== undefined && { 'mcp.client.name': client }),
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
function spanName({ request }: OperationRequest, { method, target }: LowCardinality): string {
  if (method !== undefined) return target === undefined ? method : `${method} ${target}`
  return ['POST', 'GET', 'DELETE'].includes(request.method) ? `MCP ${request.method}` : 'MCP'
}

/** Returns the status of the response as an attribute. Messages over stdio do not have one. */
export function httpStatus({ transport }: McpRequest, status: number): Record<string, number> {
  return transport === 'pipe' ? {} : { 'http.response.status_code': status }
}

function clientAddress({ request, recordsClientAddress }: OperationRequest): Record<string, string> {
  const address = recordsClientAddress ? request.clientAddress : undefined
  return address === undefined ? {} : { 'client.address': address }
}

function network({ transport, httpVersion }: McpRequest): Record<string, string> {
  if (transport === 'pipe') return { 'network.transport': 'pipe' }
  return {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    ...(httpVersion && { 'network.protocol.version': httpVersion.replace(/\.0$/, '') }),
  }
}
