import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { OperationKind } from './middleware.ts'

/** The argument of `authorize`: an operation that a client wants to use, or to see in a list. */
export interface PolicyQuery<App = unknown, User = any> {
  /**
   * `call` for a tool call, a prompt get, a resource read, a subscription to an event type, and each delivery of an event. `list`
   * for an entry of a list.
   */
  readonly purpose: 'call' | 'list'
  /** The kind of the operation: `tool`, `prompt`, `resource`, or `event`. A resource template is a `resource`. */
  readonly kind: OperationKind | 'event'
  /** The full name of the operation, with the prefixes of `merge()`. */
  readonly name: string
  /** The canonical URI of a resource. Absent for tools, prompts, and the templates in a list. */
  readonly uri?: string
  /** The validated arguments, also those of a subscription or, for a resource, the variables of its template. Absent for lists. */
  readonly args?: Readonly<Record<string, unknown>>
  /** The verified token. Undefined if OAuth is disabled. */
  readonly auth: AuthInfo<User> | undefined
  /** The value that the router's `.context()` returned for this request. */
  readonly context: App
  /** The HTTP request, without its body. */
  readonly request: Request
}

/** A denial with a reason for the client. */
export interface PolicyDenial {
  /** The text that the client receives. */
  readonly deny: string
  /** The scopes that would permit the operation. The response is then the 403 challenge for them. */
  readonly scopes?: readonly string[] | undefined
}

/** The result of `authorize`. `true` permits the operation; everything else denies it. */
export type PolicyDecision = boolean | PolicyDenial

/** Decides whether a request may use an operation, or see it in a list. If it throws or rejects, the operation is denied. */
export type Authorize<App = unknown, User = any> = (
  query: PolicyQuery<App, User>,
) => PolicyDecision | Promise<PolicyDecision>
