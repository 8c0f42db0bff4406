import type { PolicyQuery } from '../mcp/router/authorize.ts'

/** A subject or a resource of AuthZEN. */
export interface AuthZenEntity {
  /** The type, such as `identity` or `tool`. */
  readonly type: string
  /** The identifier, which is unique among the entities of this type. */
  readonly id: string
  /** Further attributes, as JSON. */
  readonly properties?: Readonly<Record<string, unknown>> | undefined
}

/** An action of AuthZEN. */
export interface AuthZenAction {
  /** The name, such as `tools/call`. */
  readonly name: string
  /** Further attributes, as JSON. */
  readonly properties?: Readonly<Record<string, unknown>> | undefined
}

/** The question that the decision point receives about one operation. */
export interface AuthZenEvaluation {
  /** The user on whose behalf the operation runs. */
  readonly subject: AuthZenEntity
  /** The operation. */
  readonly action: AuthZenAction
  /** The tool, prompt, or resource, or the data that it uses. */
  readonly resource: AuthZenEntity
  /** Attributes of the request, as JSON. */
  readonly context?: Readonly<Record<string, unknown>> | undefined
}

/** Returns the question about an operation. The operation is denied if it throws or rejects. */
export type AuthZenMapping<App = any, User = any> = (
  query: PolicyQuery<App, User>,
) => AuthZenEvaluation | Promise<AuthZenEvaluation>
