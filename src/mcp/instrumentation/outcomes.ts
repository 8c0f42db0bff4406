import { cutText } from '../../base/cut-text.ts'
import type { HttpResponse } from '../../base/http/plain-response.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { ForbiddenSender, Refusal } from '../../oauth/decision.ts'
import { isJsonContentType } from '../wire/body-budget.ts'
import type { Failure, NotServed } from '../wire/exchange.ts'
import { CANCELED } from '../wire/json-rpc.ts'
import { present } from './observed-message.ts'

/** The error of a JSON-RPC response. */
export interface RpcError {
  readonly code: number
  readonly message: unknown
}

/** The codes of errors with which a request is refused, or ends canceled. Other codes mean that serving it has failed. */
const REFUSAL_CODES: ReadonlySet<number> = new Set([
  -32_700, // parse error
  -32_600, // invalid request
  -32_601, // method not found
  -32_602, // invalid params
  -32_002, // resource not found
  -32_021, // missing client capability
  -32_022, // unsupported protocol version
  -32_042, // URL elicitation required
  CANCELED.code,
])

/** Returns `true` if an error refuses a request or ends a canceled one. Otherwise serving it has failed. */
export function isRefusal({ code }: RpcError): boolean {
  return REFUSAL_CODES.has(code)
}

/** Returns the code or the name of an error, if it is one word. */
export function kindOf(cause: unknown): string | undefined {
  const words = tryOrUndefined(() => {
    const { code, name } = cause as { code?: unknown; name?: unknown }
    return [code, name]
  })
  return words?.find((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word)) as string | undefined
}

/** The maximum length of the scopes in an attribute. */
const MAX_SCOPES = 1024

/** Returns the cause of the reason `invalid` as an attribute. */
export function invalidCause(refusal: Refusal | ForbiddenSender): Record<string, string> {
  return present({
    'kit.mcp.auth.invalid.cause': 'invalidCause' in refusal ? refusal.invalidCause : undefined,
  })
}

/** Returns the attributes that explain a refusal. */
export function refusalAttributes(refusal: Refusal | ForbiddenSender): Record<string, string> {
  if (refusal.reason !== 'insufficient_scope') return invalidCause(refusal)
  return {
    'kit.mcp.auth.scopes.required': cutText(refusal.scopes.join(' '), MAX_SCOPES, '…'),
    'kit.mcp.auth.scopes.granted': cutText(refusal.granted.join(' '), MAX_SCOPES, '…'),
  }
}

/** Returns the JSON-RPC error in a response with an error status, if its body is one. */
export function rpcErrorOf({ headers, body }: HttpResponse): RpcError | undefined {
  const type = headers['Content-Type'] ?? headers['content-type'] ?? null
  if (typeof body !== 'string' || !isJsonContentType(type)) return undefined
  return tryOrUndefined(() => rpcErrorIn(JSON.parse(body)))
}

/** Returns a copy of the error of a JSON-RPC message. Reading the copy does not run code of the application. */
export function rpcErrorIn(message: object): RpcError | undefined {
  const { error } = message as { error?: Partial<RpcError> | null }
  const code = error?.code
  return typeof code === 'number' ? { code, message: error?.message } : undefined
}

/** Returns the HTTP status of the gate's response to a decision. */
export function statusOf(decision: NotServed): number {
  if (decision.outcome !== 'refused') return decision.outcome === 'unavailable' ? 503 : 500
  return REFUSAL_STATUS[decision.reason] ?? 401
}

const REFUSAL_STATUS: Readonly<Record<string, number>> = {
  insufficient_scope: 403,
  origin: 403,
  host: 403,
  rate_limited: 429,
}

/** Returns the text with which a server of the SDK reports the error that a tool has thrown. */
export function failureIn(result: object): Failure | undefined {
  const { content } = result as { content?: unknown }
  const text = Array.isArray(content) ? (content[0] as { text?: unknown } | undefined)?.text : undefined
  return typeof text === 'string' ? { thrown: text } : undefined
}
