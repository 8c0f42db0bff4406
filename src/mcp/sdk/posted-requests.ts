import { classifyInboundRequest } from '@modelcontextprotocol/server'
import { methodNamed } from '../methods.ts'
import type { McpRequest } from '../wire/mcp-request.ts'

/** Returns `true` for `events/stream`, whose response is an event stream. */
export function isEventStreamRequest(message: unknown): boolean {
  return (message as { method?: unknown } | null)?.method === 'events/stream'
}

/** Returns `true` if the first message is `subscriptions/listen`. */
export function isListening([message]: readonly unknown[]): boolean {
  const { method } = (message ?? {}) as { method?: unknown }
  return methodNamed(method)?.names === 'subscription'
}

/** A request about a task. */
export interface TaskRequest {
  readonly method: string
  readonly id: string | number
}

/** Returns `true` for a request about a task. A batch is not one: no revision has both batches and tasks. */
export function isTaskRequest(body: unknown): body is TaskRequest {
  const { method, id } = (body ?? {}) as { method?: unknown; id?: unknown }
  const isMethod = method === 'tasks/get' || method === 'tasks/update' || method === 'tasks/cancel'
  return isMethod && (typeof id === 'string' || typeof id === 'number')
}

/** A `subscriptions/listen` that names tasks. */
export interface ListenRequest extends TaskRequest {
  readonly params: { readonly _meta?: unknown; readonly notifications: { readonly taskIds: unknown[] } }
}

/** Returns the ids of the tasks that `subscriptions/listen` names, or undefined if it does not name any. */
export function watchedTaskIds(body: unknown): readonly unknown[] | undefined {
  const ids = (body as Partial<ListenRequest> | undefined)?.params?.notifications?.taskIds
  return Array.isArray(ids) && ids.length > 0 ? ids : undefined
}

/** Returns `true` if the SDK takes a POST for one of a 2025 revision. */
export function isLegacy(request: McpRequest, body: unknown): boolean {
  const protocolVersionHeader = request.header('mcp-protocol-version')
  const { kind } = classifyInboundRequest({
    httpMethod: 'POST',
    ...(protocolVersionHeader !== undefined && { protocolVersionHeader }),
    body,
  })
  return kind === 'legacy'
}
