import type { BodyMemory, BodyRead } from '../../base/http/body-reader.ts'
import type { PlainResponse } from '../../base/http/plain-response.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import type { McpRequest } from './mcp-request.ts'
import { decodedHeader } from './request-headers.ts'

const MAX_BATCH = 100

/** The messages of a body. */
export interface ReceivedMessages {
  /** The message, or the batch. */
  readonly body: unknown
  readonly messages: readonly unknown[]
  /** Frees the memory that was reserved for the messages. Must be called when they are served. */
  readonly release?: () => void
}

/** The messages of a body, or the response to a body that cannot be served. */
export type ParsedMessages = ReceivedMessages | { readonly response: PlainResponse }

/**
 * Parses a body into JSON-RPC messages. Only revision 2025-03-26 has batches. A request without `MCP-Protocol-Version`
 * counts as one of that revision.
 * @param client the connection. It decides about the response to a body that could not be read.
 * @param memory the memory for the messages
 */
export function parseMessages(
  read: BodyRead,
  revision: string | undefined,
  client: { readonly disconnected: boolean } = { disconnected: false },
  memory?: BodyMemory,
): ParsedMessages {
  const parsed = read.kind === 'text' ? parsedText(read.text, memory) : parsedValue(read, client)
  if ('response' in parsed) return parsed
  const { body } = parsed
  if (!Array.isArray(body)) return { body, messages: [body] }
  if (revision !== undefined && revision !== '2025-03-26') {
    return { response: invalidRequest('only protocol revision 2025-03-26 has batches') }
  }
  if (body.length === 0 || body.length > MAX_BATCH) {
    return { response: invalidRequest(`a batch must contain 1 to ${MAX_BATCH} messages`) }
  }
  // The SDK would serve it, but the scopes of its messages are not known.
  if (body.some(Array.isArray)) return { response: invalidRequest('a batch must not contain another batch') }
  if (!hasDistinctIds(body))
    return { response: invalidRequest('a batch must not contain two requests with the same id') }
  return { body, messages: body }
}

/** The value of a body, or the response to a body that could not be read. */
type ParsedBody = { readonly body: unknown } | { readonly response: PlainResponse }

function parsedText(text: string, memory: BodyMemory | undefined): ParsedBody {
  const bytes = parsedBytes(text)
  if (bytes === 'too-deep') return { response: TOO_DEEP }
  if (bytes === 'not-json') return { response: PARSE_ERROR }
  const full = memory?.resize(bytes)
  if (full !== undefined) return { response: full === 'busy' ? BUSY : TOO_LARGE }
  try {
    return { body: JSON.parse(text) }
  } catch {
    return { response: PARSE_ERROR }
  }
}

function parsedValue(
  read: Exclude<BodyRead, { kind: 'text' }>,
  { disconnected }: { readonly disconnected: boolean },
): ParsedBody {
  if (read.kind === 'value') return isTooDeepValue(read.value) ? { response: TOO_DEEP } : { body: read.value }
  const mayBeGone = read.kind === 'unreadable' || read.kind === 'consumed'
  return { response: mayBeGone && disconnected ? CLIENT_GONE : UNREAD[read.kind] }
}

/** Returns `true` if no two requests have the same id. A response names its request only by the id. */
function hasDistinctIds(batch: readonly unknown[]): boolean {
  const ids = batch.flatMap((message) => {
    const { id, method } = (message ?? {}) as Partial<Record<'id' | 'method', unknown>>
    return method !== undefined && (typeof id === 'string' || typeof id === 'number') ? [id] : []
  })
  return new Set(ids).size === ids.length
}

/** Returns the id of a request; `null` for any other message. The errors of the SDK have the same id. */
export function requestIdOf(message: unknown): string | number | null {
  if (!isRecord(message)) return null
  const { id, method } = message
  return typeof method === 'string' && (typeof id === 'string' || typeof id === 'number') ? id : null
}

/** Returns the response to a request with the id of a session that does not exist, has ended, or belongs to another user. */
export function sessionNotFound(): PlainResponse {
  return jsonRpcError(404, -32_001, 'Session not found')
}

/**
 * Returns a JSON-RPC error as an HTTP response.
 * @param options.id the id of the request, `null` if it could not be read or the message is not a request, or `undefined` to leave it out
 */
export function jsonRpcError(
  status: number,
  code: number,
  message: string,
  options: { readonly id: string | number | null | undefined } = { id: null },
): PlainResponse {
  return {
    status,
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      error: { code, message },
      ...(options.id !== undefined && { id: options.id }),
    }),
  }
}

/** Returns a refusal with the advice to try again in five seconds. */
export function retryLater(status: 429 | 503, message: string): PlainResponse {
  const response = jsonRpcError(status, -32_000, message)
  return { ...response, headers: { ...response.headers, 'Retry-After': '5' } }
}

/** The error of a request that its client has canceled. */
export const CANCELED: { readonly code: number; readonly message: string } = {
  code: -32_800,
  message: 'The request was canceled',
}

/** The response to a client that has disconnected. No client receives it; telemetry records its status. */
export const CLIENT_GONE: PlainResponse = { status: 499, headers: {} }

/** The problem of a request whose body something else has read. */
export const CONSUMED =
  'The request body was read before it reached the MCP endpoint. Mount the MCP endpoint in front of the middleware that has already read the body, or let that middleware set req.body to the parsed body.'

function invalidRequest(why: string): PlainResponse {
  return jsonRpcError(400, -32_600, `Invalid Request: ${why}`)
}

/**
 * The deepest nesting of JSON that is accepted: the number of objects and arrays around a value. The body itself is
 * level 1, be it a message or a batch; level 128 is accepted, level 129 is not.
 */
export const MAX_JSON_DEPTH = 128

const PARSE_ERROR = jsonRpcError(400, -32_700, 'Parse error: the body is not valid JSON')
const TOO_DEEP = invalidRequest(`JSON must not be nested deeper than ${MAX_JSON_DEPTH} levels`)
const TOO_LARGE = jsonRpcError(413, -32_000, 'Payload Too Large')
/** The response to a large body while others take the memory for large bodies. */
const BUSY = retryLater(503, 'Too many large requests are being served')
const TIMEOUT = jsonRpcError(408, -32_000, 'Request Timeout: the body did not arrive in time')

/** The responses to bodies that could not be read. */
const UNREAD: Readonly<Record<Exclude<BodyRead['kind'], 'text' | 'value'>, PlainResponse>> = {
  'too-large': TOO_LARGE,
  encoded: jsonRpcError(415, -32_000, 'Unsupported Media Type: no Content-Encoding is understood'),
  // The rest of the body is not read, so the connection cannot be used again.
  timeout: { ...TIMEOUT, headers: { ...TIMEOUT.headers, Connection: 'close' } },
  busy: BUSY,
  ambiguous: invalidRequest('a member occurs twice, or its name is not allowed'),
  unreadable: PARSE_ERROR,
  consumed: jsonRpcError(500, -32_603, CONSUMED),
}

/** The memory of an empty object, of an empty array, of a member's key, and of an element or member, in bytes. */
const OBJECT = 64
const ARRAY = 48
const KEY = 24
const ELEMENT = 16

/**
 * Returns about the number of bytes that a text of JSON takes on the heap when it is parsed. An array of empty objects takes 25
 * times the size of its text, and the parser needs far more memory for deeply nested text, even if it is not valid JSON. This
 * function reads the text once and allocates nothing.
 * @returns `not-json` if brackets or quotation marks do not match. The parser finds all other errors.
 */
export function parsedBytes(text: string): number | 'too-deep' | 'not-json' {
  let bytes = 2 * text.length
  let depth = 0
  let deepest = 0
  for (let index = 0; index < text.length; index++) {
    switch (text[index]) {
      case '"':
        index = endOfString(text, index)
        if (index >= text.length) return 'not-json'
        break
      case ',':
        bytes += ELEMENT
        break
      case ':':
        bytes += KEY
        break
      case '[':
      case '{':
        bytes += text[index] === '[' ? ARRAY : OBJECT
        depth++
        if (depth > deepest) deepest = depth
        break
      case ']':
      case '}':
        depth--
        if (depth < 0) return 'not-json'
    }
  }
  if (depth > 0) return 'not-json'
  return deepest > MAX_JSON_DEPTH ? 'too-deep' : bytes
}

/** Returns `true` if a parsed body is nested deeper than allowed, or contains itself. */
export function isTooDeepValue(value: unknown, levels: number = MAX_JSON_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  // The recursion is never deeper than `levels`.
  if (Array.isArray(value)) return value.some((item) => isTooDeepValue(item, levels - 1))
  for (const key in value) {
    if (isTooDeepValue((value as Record<string, unknown>)[key], levels - 1)) return true
  }
  return false
}

const BACKSLASH = 0x5c

/** Returns the index of the quotation mark that ends a string, or the length of the text if there is none. */
export function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return end
  }
  return text.length
}

/** The maximum length of an id, a token, or a name that a client chooses, in characters. Responses may repeat it. */
const MAX_LENGTH = 1_024

/** The headers that errors repeat. `Mcp-Name` may be a URI, for which another limit applies. */
const HEADERS = ['mcp-protocol-version', 'mcp-method', 'mcp-name'] as const

/** The member of `_meta` with the revision of a request. Also in the SDK, which is loaded later. */
const PROTOCOL_VERSION_META_KEY = 'io.modelcontextprotocol/protocolVersion'

/** An error about a value of a client. It does not contain the value. */
export interface LongValue {
  readonly code: -32_600 | -32_602
  readonly message: string
  /** The id of the request; `null` if the message is not a request, or if the id is too long. */
  readonly id: string | number | null
}

/** Returns the response to a request with an id, a token, or a name that is too long. Returns undefined for any other request. */
export function refusedValue(
  request: Pick<McpRequest, 'header'>,
  { body, messages }: ReceivedMessages,
): PlainResponse | undefined {
  for (const message of messages) {
    const long = longValueIn(message)
    if (long !== undefined)
      return jsonRpcError(400, long.code, long.message, { id: message === body ? long.id : null })
  }
  for (const name of HEADERS) {
    const value = request.header(name)
    if (!isTooLong(value) || (name === 'mcp-name' && (namesUri(body) || !isTooLong(decodedHeader(value)))))
      continue
    return jsonRpcError(400, -32_600, `Invalid Request: the header ${name} ${LIMIT}`)
  }
  return undefined
}

/** Returns the error about the first value of a message that is too long, if there is one. */
export function longValueIn(message: unknown): LongValue | undefined {
  const { id, method, params } = isRecord(message) ? message : NONE
  if (isTooLong(id)) return { code: -32_600, message: `Invalid Request: id ${LIMIT}`, id: null }
  const known = requestIdOf(message)
  if (isTooLong(method)) return { code: -32_600, message: `Invalid Request: method ${LIMIT}`, id: known }
  const name = isRecord(params) ? longParameter(params) : undefined
  return name === undefined
    ? undefined
    : { code: -32_602, message: `Invalid params: ${name} ${LIMIT}`, id: known }
}

/** Returns `true` for a string of more than 1,024 characters. */
export function isTooLong(value: unknown): boolean {
  return typeof value === 'string' && value.length > MAX_LENGTH
}

const LIMIT = `must have at most ${MAX_LENGTH} characters`
const NONE: Readonly<Record<string, unknown>> = {}

function longParameter(params: Readonly<Record<string, unknown>>): string | undefined {
  if (isTooLong(params.name)) return 'name'
  if (isTooLong(params.taskId)) return 'taskId'
  if (isTooLong(params.protocolVersion)) return 'protocolVersion'
  const { _meta: meta, ref, argument } = params
  if (isRecord(ref) && isTooLong(ref.name)) return 'ref.name'
  if (isRecord(argument) && isTooLong(argument.name)) return 'argument.name'
  if (!isRecord(meta)) return undefined
  if (isTooLong(meta.progressToken)) return '_meta.progressToken'
  return isTooLong(meta[PROTOCOL_VERSION_META_KEY]) ? `_meta["${PROTOCOL_VERSION_META_KEY}"]` : undefined
}

function namesUri(body: unknown): boolean {
  return isRecord(body) && isRecord(body.params) && typeof body.params.uri === 'string'
}
