import type { AuthInfo } from '../../oauth/auth-info.ts'
import { LazyRequest } from '../../oauth/inputs.ts'
import type { KitContext } from '../router/context.ts'
import type { MiddlewareCall, OperationKind } from '../router/middleware.ts'

/** The operation that a call names, and its validated arguments. */
export interface NamedOperation {
  readonly kind: OperationKind
  readonly name: string
  readonly uri?: string
  readonly args: unknown
}

/** Implements `MiddlewareCall` with the context of the handler. Every member is an own property. */
export class OperationCall extends LazyRequest implements MiddlewareCall {
  readonly kind: OperationKind
  readonly name: string
  declare readonly uri?: string
  readonly args: Readonly<Record<string, unknown>>
  readonly auth: AuthInfo | undefined
  readonly context: unknown
  readonly signal: AbortSignal
  readonly session: KitContext['session'] | undefined

  constructor(context: KitContext, { kind, name, uri, args }: NamedOperation) {
    super(context)
    this.kind = kind
    this.name = name
    if (uri !== undefined) this.uri = uri
    this.args = args as Readonly<Record<string, unknown>>
    this.auth = context.auth
    this.context = context.context
    this.signal = context.signal
    this.session = context.session
  }
}
