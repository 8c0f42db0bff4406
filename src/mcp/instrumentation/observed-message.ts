import { isRecord } from '../../base/options/value-kinds.ts'
import { methodNamed, namesUri } from '../methods.ts'
import type { ObservedClient } from '../wire/exchange.ts'

/** The parts of a JSON-RPC message that are recorded. Strings of the client are redacted and shortened. */
export interface ObservedMessage {
  readonly method?: string | undefined
  readonly id?: string | undefined
  readonly tool?: string | undefined
  readonly prompt?: string | undefined
  readonly resource?: string | undefined
  /** The member `jsonrpc`, if it is not `2.0`. */
  readonly version?: string | undefined
  /** `params._meta`, in which a traced client sends its span. */
  readonly meta?: unknown
  /** The arguments of a tool. */
  readonly args?: unknown
  /** `true` if only the header `Mcp-Method` describes the message, because it was not read. */
  readonly isUnread?: boolean
}

/** Removes secrets from a string, and shortens it to `max` characters. */
type Redact = (text: string, max: number) => string

/** The member of `params._meta` in 2026-07-28. Written here, because the gate works without the SDK. */
const CLIENT_INFO_META_KEY = 'io.modelcontextprotocol/clientInfo'

/** The label of a client that is not known, so that metrics have few values. */
const OTHER = '_OTHER'

/** The maximum length of an attribute whose value a client has sent. */
const MAX_TEXT = 128
const MAX_URI = 1024

export const NO_MESSAGE: ObservedMessage = {}

/** Returns the parts of a JSON-RPC message that are recorded. */
export function observedMessage(message: unknown, redact: Redact): ObservedMessage {
  if (typeof message !== 'object' || message === null) return NO_MESSAGE
  const { method, id, jsonrpc, params } = message as Partial<Record<'method' | 'id' | 'jsonrpc', unknown>> & {
    params?: Partial<Record<'name' | 'uri' | '_meta' | 'arguments', unknown>> | null
  }
  const known = methodNamed(method)
  const isToolCall = known?.names === 'tool'
  return {
    method: clientText(method, redact),
    id: clientText(typeof id === 'number' ? String(id) : id, redact),
    tool: isToolCall ? clientText(params?.name, redact) : undefined,
    prompt: known?.names === 'prompt' ? clientText(params?.name, redact) : undefined,
    resource: namesUri(known) ? clientText(params?.uri, redact, MAX_URI) : undefined,
    version: jsonrpc === '2.0' ? undefined : clientText(jsonrpc, redact),
    meta: params?._meta,
    args: isToolCall ? params?.arguments : undefined,
  }
}

/**
 * Returns how a client calls itself in `initialize` (2025), or in `params._meta` of a request (2026-07-28). Returns undefined if
 * the messages do not tell. All messages of a request are of one client.
 * @param known the names that metrics may have
 */
export function observedClient(
  messages: readonly unknown[],
  known: ReadonlySet<unknown>,
  redact: Redact,
): ObservedClient | undefined {
  for (const message of messages) {
    const { method, params } = isRecord(message) ? message : {}
    const { clientInfo, _meta } = isRecord(params) ? params : {}
    const info =
      method === 'initialize' ? clientInfo : isRecord(_meta) ? _meta[CLIENT_INFO_META_KEY] : undefined
    if (!isRecord(info)) continue
    const { name } = info
    const label = typeof name !== 'string' ? undefined : known.has(name) ? name : OTHER
    return { name: clientText(name, redact), version: clientText(info.version, redact), label }
  }
  return undefined
}

/**
 * Returns the message of a request that is refused before it is read. Only a method of the protocol is recorded, because the
 * client may not have a valid token.
 */
export function unreadMessage(method: string | undefined): ObservedMessage {
  return methodNamed(method) !== undefined ? { method, isUnread: true } : NO_MESSAGE
}

/** Returns a string that a client has sent, redacted and shortened. Returns undefined for other values. */
export function clientText(value: unknown, redact: Redact, max: number = MAX_TEXT): string | undefined {
  return typeof value === 'string' ? redact(value, max) : undefined
}

/**
 * Returns the attributes of a message by the OpenTelemetry conventions for MCP. The unknown method of a notification, to which
 * no server responds with an error, is `_OTHER`.
 */
export function messageAttributes(message: ObservedMessage): Record<string, string> {
  const { method, id, tool, prompt, resource, version } = message
  const isUnknown = id === undefined && method !== undefined && methodNamed(method) === undefined
  return present({
    'mcp.method.name': isUnknown ? OTHER : method,
    'jsonrpc.request.id': id,
    'jsonrpc.protocol.version': version,
    'gen_ai.tool.name': tool,
    'gen_ai.operation.name': tool === undefined ? undefined : 'execute_tool',
    'gen_ai.prompt.name': prompt,
    'mcp.resource.uri': resource,
  })
}

/** Returns the attributes that have a value. */
export function present<Value>(
  attributes: Readonly<Record<string, Value | undefined>>,
): Record<string, Value> {
  const found: Record<string, Value> = {}
  for (const name in attributes) {
    const value = attributes[name]
    if (value !== undefined) found[name] = value
  }
  return found
}

/** The method and the target of a message, if they are names of which there are few. */
export interface LowCardinality {
  readonly method: string | undefined
  readonly target: string | undefined
}

/**
 * Returns the names by which spans and metrics of a message are grouped. A client cannot choose others than those that exist.
 * @param isAnswered `true` if the server has responded without an error, so that the method and its target exist
 * @param isKnown `true` if the target is known to exist, whether the server has responded or not
 */
export function lowCardinality(
  { method, tool, prompt }: ObservedMessage,
  isAnswered: boolean,
  isKnown: boolean,
): LowCardinality {
  if (method === undefined || !(isAnswered || methodNamed(method) !== undefined))
    return { method: undefined, target: undefined }
  return { method, target: isAnswered || isKnown ? (tool ?? prompt) : undefined }
}

/** Methods, other than `tools/call`, that run code of the application. */
const APPLICATION_METHODS: ReadonlySet<string | undefined> = new Set([
  'prompts/get',
  'resources/read',
  'completion/complete',
])

/** Returns `true` if a message other than `tools/call` runs code of the application. */
export function runsApplication({ method }: ObservedMessage): boolean {
  return APPLICATION_METHODS.has(method)
}
