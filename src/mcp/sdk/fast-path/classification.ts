import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  classifyInboundRequest,
  type InboundHttpRequest,
  type JSONRPCRequest,
  LOG_LEVEL_META_KEY,
  type MessageClassification,
  PROTOCOL_VERSION_META_KEY,
} from '@modelcontextprotocol/server'
import { LRUCache } from 'lru-cache'

/** What the headers of a POST say of its message. */
export type MessageHeaders = Omit<InboundHttpRequest, 'httpMethod' | 'body'>

/** What the SDK makes of the envelope (`params._meta`) of a modern request, or that there is none, as in 2025 revisions. */
export type Classification = MessageClassification | 'legacy'

/** What is remembered of envelopes: so many, and none longer than that in JSON. */
const MAX_KNOWN = 1_000
const MAX_LENGTH = 1_024

const known = new LRUCache<string, MessageClassification>({ max: MAX_KNOWN })

/**
 * What the SDK takes a body for, where it is one well-formed request; undefined for everything else.
 *
 * A client sends the same envelope with every request, and judging it costs more than reading the body. So it is judged
 * when it first comes; where it comes again in a message that has the shape of a request, only the headers are left, which
 * the caller has to compare with the message.
 * @param headers are asked for where the SDK has to judge.
 */
export function classifyRequest(headers: () => MessageHeaders, body: unknown): Classification | undefined {
  const envelope = hasShapeOfRequest(body) ? envelopeOf(body) : undefined
  if (envelope === 'none') return 'legacy'
  const before = envelope === undefined ? undefined : known.get(envelope)
  if (before !== undefined) return before
  const outcome = classifyInboundRequest({ httpMethod: 'POST', ...headers(), body })
  if (outcome.kind === 'modern' && outcome.messageKind === 'request') {
    if (envelope !== undefined && envelope.length <= MAX_LENGTH) known.set(envelope, outcome.classification)
    return outcome.classification
  }
  return outcome.kind === 'legacy' && outcome.reason === 'no-claim' ? 'legacy' : undefined
}

const REQUEST_MEMBERS: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params'])

/** Whether a body is a JSON-RPC request, whatever its envelope holds. It may be one, too, where this says no. */
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

/** The envelope as JSON; undefined where it holds more than is the same in every request of a client. */
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
