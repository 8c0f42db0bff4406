import type { AuthInfo } from '../oauth/auth-info.ts'
import type { Gate } from '../oauth/gate.ts'
import type { VerifyContext } from '../oauth/options.ts'
import type { RequestObservation } from './observation/observe.ts'

/** One request past the gate: what its handlers may know. */
export interface Exchange {
  /** The gate that let it in; undefined when OAuth is off. */
  readonly gate: Gate | undefined
  readonly auth: AuthInfo | undefined
  readonly context: VerifyContext
  readonly observation: RequestObservation | undefined
}
