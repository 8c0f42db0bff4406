/** What is told of one JSON-RPC message: texts of the client, cut. */
export interface ObservedMessage {
  readonly method: string | undefined
  readonly id: string | undefined
  readonly tool: string | undefined
  readonly prompt: string | undefined
  readonly resource: string | undefined
  /** What it says in `jsonrpc`, where that is another version than 2.0. */
  readonly version: string | undefined
  /** Where a traced client puts its span. */
  readonly meta: unknown
  /** The arguments of a tool. */
  readonly args: unknown
}

/** Takes out of a text what may not be recorded, and cuts it. */
type Erase = (text: string, max: number) => string

/** Longest text of a client that is recorded as an attribute. */
const MAX_TEXT = 128
const MAX_URI = 1024

/** The methods whose `params.uri` names a resource. */
const RESOURCE_METHODS = new Set(['resources/read', 'resources/subscribe', 'resources/unsubscribe'])

/** What the protocol's revisions let a client send; other names may be anything, and are many. */
const METHODS: ReadonlySet<string> = new Set([
  ...RESOURCE_METHODS,
  'completion/complete',
  'initialize',
  'logging/setLevel',
  'notifications/cancelled',
  'notifications/initialized',
  'notifications/progress',
  'notifications/roots/list_changed',
  'ping',
  'prompts/get',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'server/discover',
  'subscriptions/listen',
  'tools/call',
  'tools/list',
])

export const NO_MESSAGE: ObservedMessage = {
  method: undefined,
  id: undefined,
  tool: undefined,
  prompt: undefined,
  resource: undefined,
  version: undefined,
  meta: undefined,
  args: undefined,
}

/**
 * What may be told of a JSON-RPC message.
 */
export function observedMessage(message: unknown, redact: Erase): ObservedMessage {
  if (typeof message !== 'object' || message === null) return NO_MESSAGE
  const { method, id, jsonrpc, params } = message as Partial<Record<'method' | 'id' | 'jsonrpc', unknown>> & {
    params?: Partial<Record<'name' | 'uri' | '_meta' | 'arguments', unknown>> | null
  }
  const isToolCall = method === 'tools/call'
  return {
    method: clientText(method, redact),
    id: clientText(typeof id === 'number' ? String(id) : id, redact),
    tool: isToolCall ? clientText(params?.name, redact) : undefined,
    prompt: method === 'prompts/get' ? clientText(params?.name, redact) : undefined,
    resource: RESOURCE_METHODS.has(method as string) ? clientText(params?.uri, redact, MAX_URI) : undefined,
    version: jsonrpc === '2.0' ? undefined : clientText(jsonrpc, redact),
    meta: params?._meta,
    args: isToolCall ? params?.arguments : undefined,
  }
}

/** A text that a client sent, fit to be recorded. */
export function clientText(value: unknown, redact: Erase, max: number = MAX_TEXT): string | undefined {
  return typeof value === 'string' ? redact(value, max) : undefined
}

/** The attributes of a message by the OpenTelemetry MCP convention. */
export function messageAttributes(message: ObservedMessage): Record<string, string> {
  const { method, id, tool, prompt, resource, version } = message
  return {
    ...(method !== undefined && { 'mcp.method.name': method }),
    ...(id !== undefined && { 'jsonrpc.request.id': id }),
    ...(version !== undefined && { 'jsonrpc.protocol.version': version }),
    ...(tool !== undefined && { 'gen_ai.tool.name': tool, 'gen_ai.operation.name': 'execute_tool' }),
    ...(prompt !== undefined && { 'gen_ai.prompt.name': prompt }),
    ...(resource !== undefined && { 'mcp.resource.uri': resource }),
  }
}

/**
 * What a message asks for, in names of which there are few, so that spans and series can be grouped by them.
 * @param isServed whether the server did it, so that its method and target do exist.
 * @param isKnown whether the target is known to exist, be it served or not.
 */
export function lowCardinality(
  { method, tool, prompt }: ObservedMessage,
  isServed: boolean,
  isKnown: boolean,
): { readonly method: string | undefined; readonly target: string | undefined } {
  if (method === undefined || !(isServed || METHODS.has(method)))
    return { method: undefined, target: undefined }
  return { method, target: isServed || isKnown ? (tool ?? prompt) : undefined }
}
