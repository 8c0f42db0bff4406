import type { PlainResponse } from '../../base/http/plain-response.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { jsonRpcError, type ReceivedMessages, requestIdOf } from './json-rpc.ts'
import type { McpRequest } from './mcp-request.ts'
import { decodedHeader } from './mirrored-headers.ts'

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
