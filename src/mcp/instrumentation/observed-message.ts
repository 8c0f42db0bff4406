import { methodNamed, namesUri } from '../methods.ts'

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
  const isUnknown = id === undefined && methodNamed(method) === undefined
  return {
    ...(method !== undefined && { 'mcp.method.name': isUnknown ? '_OTHER' : method }),
    ...(id !== undefined && { 'jsonrpc.request.id': id }),
    ...(version !== undefined && { 'jsonrpc.protocol.version': version }),
    ...(tool !== undefined && { 'gen_ai.tool.name': tool, 'gen_ai.operation.name': 'execute_tool' }),
    ...(prompt !== undefined && { 'gen_ai.prompt.name': prompt }),
    ...(resource !== undefined && { 'mcp.resource.uri': resource }),
  }
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
