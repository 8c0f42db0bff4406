import type { PlainResponse } from '../../base/http/plain-response.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { methodNamed } from '../methods.ts'
import {
  MAX_LISTENED_URIS,
  namesRejectedUri,
  withCanonicalSubscriptions,
} from '../router/named-operations.ts'
import { jsonRpcError, type ReceivedMessages, refusedValue, requestIdOf } from '../wire/json-rpc.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { mirroredMessage } from '../wire/request-headers.ts'

/**
 * Returns the response to messages of which a server behind the gate may read another operation than the gate: values of a
 * wrong type, a URI without a canonical form, and headers that differ from the message. Returns undefined for all others.
 */
export function refusedUnclear(
  request: Pick<McpRequest, 'header'>,
  received: ReceivedMessages,
): PlainResponse | undefined {
  const long = refusedValue(request, received)
  if (long !== undefined) return long
  const { body, messages } = received
  for (const message of messages) {
    const problem = problemOf(message) ?? differenceFromHeaders(message, request)
    if (problem === undefined) continue
    const [code, text] = problem
    return jsonRpcError(400, code, text, { id: message === body ? requestIdOf(message) : null })
  }
  return undefined
}

type Problem = readonly [code: -32_600 | -32_602, text: string]

function problemOf(message: unknown): Problem | undefined {
  if (!isRecord(message)) return invalidRequest('a message must be an object')
  if (Object.hasOwn(message, '__proto__')) return invalidRequest('a member must not be named __proto__')
  const { method, params } = message
  if (method === undefined && ('result' in message || 'error' in message)) return undefined
  if (typeof method !== 'string') return invalidRequest('method must be a string')
  const names = methodNamed(method)?.names
  if (names === undefined || names === 'skills') return undefined
  if (!isRecord(params) || Object.hasOwn(params, '__proto__'))
    return invalidParams('params must be an object')
  const problem = problemOfParams(names, params)
  if (problem !== undefined) return invalidParams(problem)
  return namesRejectedUri(message) ? invalidParams('the resource URI is not valid') : undefined
}

function problemOfParams(
  names: NonNullable<NonNullable<ReturnType<typeof methodNamed>>['names']>,
  params: Readonly<Record<string, unknown>>,
): string | undefined {
  switch (names) {
    case 'tool':
    case 'prompt':
      return typeof params.name === 'string' ? undefined : 'name must be a string'
    case 'reference':
      return problemOfReference(params.ref)
    case 'subscription':
      return problemOfSubscription(params)
    default:
      return typeof params.uri === 'string' ? undefined : 'uri must be a string'
  }
}

function problemOfReference(ref: unknown): string | undefined {
  if (!isRecord(ref)) return 'ref must be an object'
  if (ref.type === 'ref/prompt') return typeof ref.name === 'string' ? undefined : 'ref.name must be a string'
  if (ref.type !== 'ref/resource') return "ref.type must be 'ref/prompt' or 'ref/resource'"
  return typeof ref.uri === 'string' ? undefined : 'ref.uri must be a string'
}

function problemOfSubscription(params: Readonly<Record<string, unknown>>): string | undefined {
  const { notifications } = params
  if (notifications === undefined) return undefined
  if (!isRecord(notifications)) return 'notifications must be an object'
  const { resourceSubscriptions: uris } = notifications
  if (uris === undefined) return undefined
  if (!Array.isArray(uris) || uris.some((uri) => typeof uri !== 'string'))
    return 'resourceSubscriptions must be an array of URIs'
  const isCanonical = 'message' in withCanonicalSubscriptions({ method: 'subscriptions/listen', params })
  return isCanonical ? undefined : `resourceSubscriptions must name at most ${MAX_LISTENED_URIS} valid URIs`
}

/** Compares a message with `Mcp-Method` and `Mcp-Name`, by which a server or a proxy may choose the operation. */
function differenceFromHeaders(message: unknown, request: Pick<McpRequest, 'header'>): Problem | undefined {
  const mirrored = mirroredMessage(request)
  const { method, params } = message as { method?: unknown; params?: Readonly<Record<string, unknown>> }
  if (mirrored.method !== undefined && mirrored.method !== method)
    return invalidRequest('Mcp-Method differs from the message')
  const { name } = mirrored.params
  const names = methodNamed(method)?.names
  const member = names === 'tool' || names === 'prompt' ? 'name' : names === 'resource' ? 'uri' : undefined
  return name === undefined || member === undefined || params?.[member] === name
    ? undefined
    : invalidRequest('Mcp-Name differs from the message')
}

function invalidRequest(why: string): Problem {
  return [-32_600, `Invalid Request: ${why}`]
}

function invalidParams(why: string): Problem {
  return [-32_602, `Invalid params: ${why}`]
}
