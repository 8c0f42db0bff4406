import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  classifyInboundRequest,
  type JSONRPCRequest,
  LOG_LEVEL_META_KEY,
  type MessageClassification,
  PROTOCOL_VERSION_META_KEY,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import { LRUCache } from 'lru-cache'
import { methodNamed } from '../../methods.ts'
import { MODERN_REVISION } from '../../revisions.ts'
import type { RouterTable } from '../../router/router-table.ts'
import { accepts, SERVED_TYPES } from '../../wire/accept.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'

/** A request that the fast path can serve. */
export interface FastRequest {
  readonly message: JSONRPCRequest
  readonly classification: MessageClassification
}

const LEGACY: MessageClassification = { era: 'legacy' }

/**
 * Returns `body` as a request for the fast path, if it is one: a single well-formed JSON-RPC request of a known method, whose
 * headers agree with it and do not repeat arguments. Returns undefined for every other body, which the handler of the SDK
 * serves.
 */
export function fastRequest(request: McpRequest, body: unknown, table: RouterTable): FastRequest | undefined {
  const { method, params } = (body ?? {}) as { method?: unknown; params?: Record<string, unknown> | null }
  const { isFast, names } = methodNamed(method) ?? {}
  if (isFast === undefined) return undefined
  if (names === 'tool' && table.tools.get(params?.name as string)?.declaresHeaders === true) return undefined
  const classification = classifyRequest(body)
  if (classification === undefined) return undefined
  const message = body as JSONRPCRequest
  if (classification === 'legacy')
    return isServedLegacy(request) ? { message, classification: LEGACY } : undefined
  // The modern revision has neither of these methods.
  if (isFast === 'legacy') return undefined
  const name = request.header('mcp-name')
  const headersAgree =
    classification.revision === MODERN_REVISION &&
    request.header('mcp-protocol-version') === MODERN_REVISION &&
    request.header('mcp-method') === method &&
    (names === undefined ||
      names === 'reference' ||
      (name === params?.[names === 'resource' ? 'uri' : 'name'] && isUnencoded(name)))
  return headersAgree ? { message, classification } : undefined
}

/** Returns `true` if the headers of a request without an envelope are those of a 2025 revision that the SDK serves. */
function isServedLegacy(request: McpRequest): boolean {
  const revision = request.header('mcp-protocol-version')
  return (
    (revision === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(revision)) &&
    SERVED_TYPES.every((type) => accepts(request.header('accept'), type))
  )
}

/** Returns `true` if a header value is not encoded as `=?base64?…?=`. */
function isUnencoded(value: string | undefined): boolean {
  return value !== undefined && !value.startsWith('=?')
}

/** The SDK's classification of the envelope (`params._meta`) of a modern request, or `legacy` for a request without one. */
export type Classification = MessageClassification | 'legacy'

/** The maximum number of envelopes in the cache. */
const MAX_KNOWN = 1_000
/** The maximum length of an envelope in the cache, in characters of JSON. */
const MAX_LENGTH = 1_024

const known = new LRUCache<string, MessageClassification>({ max: MAX_KNOWN })

/**
 * Returns the SDK's classification of a body that is one well-formed request. Returns undefined for any other body.
 *
 * A client sends the same envelope with every request, and classifying it costs more than reading the body. Therefore the
 * classifications of envelopes are cached. The caller must compare the headers with the message.
 */
export function classifyRequest(body: unknown): Classification | undefined {
  const envelope = hasShapeOfRequest(body) ? envelopeOf(body) : undefined
  if (envelope === 'none') return 'legacy'
  const cached = envelope === undefined ? undefined : known.get(envelope)
  if (cached !== undefined) return cached
  const outcome = classifyInboundRequest({ httpMethod: 'POST', body })
  if (outcome.kind === 'modern' && outcome.messageKind === 'request') {
    if (envelope !== undefined && envelope.length <= MAX_LENGTH) known.set(envelope, outcome.classification)
    return outcome.classification
  }
  return outcome.kind === 'legacy' && outcome.reason === 'no-claim' ? 'legacy' : undefined
}

const REQUEST_MEMBERS: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params'])

/** Returns `true` if a body is a JSON-RPC request with any envelope. May return `false` for an unusual request. */
function hasShapeOfRequest(body: unknown): body is JSONRPCRequest {
  if (!isPlain(body)) return false
  for (const member of Object.keys(body)) if (!REQUEST_MEMBERS.has(member)) return false
  const { jsonrpc, id, method, params } = body
  return (
    jsonrpc === '2.0' &&
    (typeof id === 'string' || Number.isSafeInteger(id)) &&
    typeof method === 'string' &&
    (params === undefined || isPlain(params))
  )
}

const ENVELOPE_MEMBERS: ReadonlySet<string> = new Set([
  PROTOCOL_VERSION_META_KEY,
  CLIENT_INFO_META_KEY,
  CLIENT_CAPABILITIES_META_KEY,
  LOG_LEVEL_META_KEY,
])

/** Returns the envelope as JSON, or undefined if it has members that may differ between the requests of a client. */
function envelopeOf({ params }: JSONRPCRequest): string | 'none' | undefined {
  const meta: unknown = params?._meta
  if (meta === undefined) return 'none'
  if (!isPlain(meta)) return undefined
  for (const member of Object.keys(meta)) if (!ENVELOPE_MEMBERS.has(member)) return undefined
  return JSON.stringify(meta)
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}
