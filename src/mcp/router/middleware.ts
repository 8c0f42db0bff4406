import type { CallToolResult, GetPromptResult, ReadResourceResult } from '@modelcontextprotocol/server'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { KitContext } from './context.ts'
import type { InputRequired } from './input-required.ts'
import type { Scoped } from './uris/uri-scopes.ts'

/** The kind of an operation that runs a handler of the application. */
export type OperationKind = 'tool' | 'prompt' | 'resource'

/** A tool call, a prompt get, or a resource read, as middleware receives it. */
export interface MiddlewareCall<App = unknown, User = any> {
  /** The kind of the operation. A resource template is a `resource`. */
  readonly kind: OperationKind
  /** The full name of the operation, with the prefixes of `merge()`. */
  readonly name: string
  /** The canonical URI of a resource. Absent for tools and prompts. */
  readonly uri?: string
  /** The validated arguments or, for a resource, the variables of its template. */
  readonly args: Readonly<Record<string, unknown>>
  /** The verified token. Undefined if OAuth is disabled. */
  readonly auth: AuthInfo<User> | undefined
  /** The value that the router's `.context()` returned for this request. Handlers receive the same value. */
  readonly context: App
  /** The HTTP request, without its body. */
  readonly request: Request
  /** Aborts when the client cancels the call or, outside a session, disconnects. */
  readonly signal: AbortSignal
  /** The telemetry session of this request, which is not the MCP session. Undefined if no telemetry is configured. */
  readonly session: KitContext['session'] | undefined
}

/** The MCP result of a tool call, a prompt get, or a resource read. */
export type MiddlewareResult = CallToolResult | GetPromptResult | ReadResourceResult | InputRequired

/** Runs the remaining middleware and the handler. Rejects with the error that the handler threw. May be called once. */
export type MiddlewareNext = () => Promise<MiddlewareResult>

/**
 * Code that runs around the handlers of a router. It returns the result of `next()`, or another MCP result for the same kind of
 * operation. An error that it throws is handled like an error of the handler.
 */
export type Middleware<App = unknown, User = any> = (
  call: MiddlewareCall<App, User>,
  next: MiddlewareNext,
) => MiddlewareResult | Promise<MiddlewareResult>

/** An entry of a router: its scopes, and the middleware that runs around it. */
export interface Wrapped extends Required<Scoped> {
  /** The middleware of the merged routers that the operation comes from, outermost first. Absent if there is none. */
  readonly merged?: readonly Middleware<any>[]
  /** All middleware of the operation, as one function. The table of the router sets it. Absent if there is none. */
  readonly around?: Around
}

/** Runs middleware around `run`. */
export type Around = (call: MiddlewareCall, run: MiddlewareNext) => Promise<MiddlewareResult>

/** Returns the middleware as one function, outermost first. Returns undefined if there is none. */
export function composedMiddleware(middleware: readonly Middleware[]): Around | undefined {
  return middleware.length === 0 ? undefined : (call, run) => runFrom(middleware, 0, call, run)
}

async function runFrom(
  middleware: readonly Middleware[],
  index: number,
  call: MiddlewareCall,
  run: MiddlewareNext,
): Promise<MiddlewareResult> {
  const current = middleware[index]
  if (current === undefined) return await run()
  let isCalled = false
  const result: unknown = await current(call, () => {
    const rest = isCalled
      ? Promise.reject(new TypeError('Middleware called next() more than once'))
      : runFrom(middleware, index + 1, call, run)
    isCalled = true
    // Middleware that does not wait for the promise must not cause an unhandled rejection.
    rest.catch(() => undefined)
    return rest
  })
  if (typeof result !== 'object' || result === null)
    throw new TypeError(
      `Middleware of ${call.kind} ${call.name} must return an MCP result, such as that of next()`,
    )
  return result as MiddlewareResult
}
