import type { BodyLimits } from '../http/body-reader.ts'
import type { PlainResponse } from '../http/plain-response.ts'
import type { Decision } from '../oauth/decision.ts'
import type { Gate, GateRequest } from '../oauth/gate.ts'
import type { VerifyContext } from '../oauth/options.ts'
import { FAILED_RESPONSE } from '../oauth/refusal-responses.ts'
import type { Instrumentation } from './instrumentation/instrumented-request.ts'
import { neededScopes, type ScopedOperations } from './router/operation-scopes.ts'
import { calledId, receivesResult, toolResult } from './wire/challenge-result.ts'
import type { Exchange } from './wire/exchange.ts'
import type { ReceivedMessages } from './wire/json-rpc.ts'
import type { McpRequest } from './wire/mcp-request.ts'
import { RefusedBodies } from './wire/refused-bodies.ts'
import { NO_TELEMETRY } from './wire/request-telemetry.ts'

/** An authenticated request, or the response to a request that was refused. */
export type AuthenticationResult = { readonly exchange: Exchange } | { readonly response: PlainResponse }

export interface AuthenticatorProps {
  /** Undefined if OAuth is disabled. */
  readonly gate: Gate | undefined
  /** Creates the context of a request if OAuth is disabled. Otherwise the gate creates it. */
  readonly makeContext: (request: GateRequest) => VerifyContext | Promise<VerifyContext>
  /** The operations that declare scopes. */
  readonly operations?: ScopedOperations | undefined
  readonly instrumentation?: Instrumentation | undefined
  /** The limits of the body of a refused request, which is read only for `challengeInResult`. */
  readonly bodyLimits: BodyLimits
}

/** Authenticates requests, checks the scopes of their tokens, and reports both to telemetry. */
export class Authenticator {
  readonly gate: Gate | undefined
  readonly #props: AuthenticatorProps
  readonly #refusedBodies: RefusedBodies

  constructor(props: AuthenticatorProps) {
    this.gate = props.gate
    this.#props = props
    this.#refusedBodies = new RefusedBodies(props.bodyLimits)
  }

  /** Verifies the token of a request. If OAuth is disabled, only creates its context. Does not check scopes. */
  async authenticate(request: McpRequest): Promise<AuthenticationResult> {
    const { gate } = this
    const { instrumentation, makeContext } = this.#props
    if (instrumentation?.loading !== undefined) await instrumentation.loading
    const telemetry = instrumentation?.begin(request) ?? NO_TELEMETRY
    if (gate === undefined) {
      try {
        const context = await telemetry.run(async () => makeContext(request))
        return { exchange: { gate, auth: undefined, context, telemetry } }
      } catch (cause) {
        telemetry.decided({ outcome: 'failed', cause })
        return { response: FAILED_RESPONSE }
      }
    }
    const decision = await telemetry.run(() => gate.authenticate(request))
    if (decision.outcome !== 'accepted') {
      telemetry.decided(decision)
      return { response: await this.#refusal(gate, decision, request) }
    }
    const { auth, context } = decision
    telemetry.identify(auth)
    return { exchange: { gate, auth, context, telemetry } }
  }

  /** Returns the scopes that the operations of these messages need, in addition to those of the endpoint. */
  operationScopes(messages: readonly unknown[]): readonly string[] {
    const { operations } = this.#props
    return operations === undefined ? [] : neededScopes(operations, messages)
  }

  /**
   * Refuses a request whose token lacks scopes.
   * @param operation the scopes that the challenge names, in addition to those of the endpoint
   * @param received the messages of the request, if its body has been read
   */
  async refuseScopes(
    { auth, gate, telemetry }: Exchange,
    request: McpRequest,
    operation: readonly string[],
    received?: ReceivedMessages,
  ): Promise<PlainResponse> {
    if (gate === undefined) return FAILED_RESPONSE
    const refusal = await gate.limited(gate.insufficientScope(operation, auth?.scopes), request)
    telemetry.decided(refusal)
    return await this.#refusal(gate, refusal, request, received)
  }

  /** Returns the response to a request that is not accepted: the gate's, or a tool result if `challengeInResult` asks for it. */
  async #refusal(
    gate: Gate,
    decision: Exclude<Decision, { outcome: 'accepted' }>,
    request: McpRequest,
    received?: ReceivedMessages,
  ): Promise<PlainResponse> {
    const { challengeInResult } = gate.options
    if (challengeInResult === false || !receivesResult(challengeInResult, request))
      return gate.responseTo(decision, request)
    const challenge = gate.challengeResult(decision, request)
    if (challenge === undefined) return gate.responseTo(decision, request)
    const parsed = received ?? (await this.#refusedBodies.receive(request))
    const messages = parsed !== undefined && 'body' in parsed ? parsed : undefined
    const id = messages && calledId(messages.body)
    if (id !== undefined) return toolResult(id, challenge, request)
    const response = gate.responseTo(decision, request)
    const isCut =
      parsed !== undefined && 'response' in parsed && parsed.response.headers.Connection !== undefined
    return isCut ? { ...response, headers: { ...response.headers, Connection: 'close' } } : response
  }
}
