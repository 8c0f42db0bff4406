import type { BodyLimits } from '../base/http/body-reader.ts'
import type { PlainResponse } from '../base/http/plain-response.ts'
import type { Decision, Refusal } from '../oauth/decision.ts'
import type { Admission, Gate, GateRequest } from '../oauth/gate.ts'
import type { VerifyContext } from '../oauth/gate-values.ts'
import { type ChallengeResult, FAILED_RESPONSE } from '../oauth/refusal-responses.ts'
import type { Instrumentation } from './instrumentation/instrumentation.ts'
import { MODERN_REVISION, methodNamed } from './methods.ts'
import { arePublic, neededScopes, type ScopedOperations } from './router/named-operations.ts'
import { BodyBudget } from './wire/body-budget.ts'
import type { Exchange } from './wire/exchange.ts'
import {
  isTooLong,
  jsonRpcError,
  type ParsedMessages,
  type ReceivedMessages,
  retryLater,
} from './wire/json-rpc.ts'
import type { McpRequest } from './wire/mcp-request.ts'

/** An authenticated request, or the response to a request that was refused. */
export type AuthenticationResult = Exchange | { readonly response: PlainResponse }

/** A request that is served without a token, with its messages, or the response to a request that was refused. */
export type AdmissionResult =
  | { readonly exchange: Exchange; readonly received: ReceivedMessages }
  | { readonly response: PlainResponse }

type NotAccepted = Exclude<Decision, { outcome: 'accepted' }>

export interface AuthenticatorProps {
  /** Undefined if OAuth is disabled. */
  readonly gate: Gate | undefined
  /** Creates the context of a request if OAuth is disabled. Otherwise the gate creates it. */
  readonly makeContext: (request: GateRequest) => VerifyContext | Promise<VerifyContext>
  /** The operations that declare scopes. */
  readonly operations?: ScopedOperations | undefined
  readonly instrumentation: Instrumentation
  /** The limits of a body. That of a request without a valid token is read only for `challengeInResult` and `anonymous`. */
  readonly bodyLimits: BodyLimits
}

/** Authenticates requests, checks the scopes of their tokens, and reports both to telemetry. */
export class Authenticator {
  /** The bodies that are read or served. */
  readonly bodies: BodyBudget
  readonly #props: AuthenticatorProps

  constructor(props: AuthenticatorProps) {
    this.#props = props
    this.bodies = new BodyBudget(props.bodyLimits)
  }

  /**
   * Verifies the token of a request. If OAuth is disabled, only creates its context. Does not check scopes.
   * @param known the messages of the request as far as they are known, for the challenge if the token is missing
   */
  async authenticate(request: McpRequest, known?: () => readonly unknown[]): Promise<AuthenticationResult> {
    const { gate } = this.#props
    const telemetry = await this.#props.instrumentation.begun(request)
    let decision: Decision | Admission
    try {
      // Only the verifier runs inside the session of the telemetry, not what follows.
      decision = await telemetry.run(() => gate?.authenticate(request) ?? this.#admitted(request))
    } catch (cause) {
      decision = { outcome: 'failed', cause }
    }
    if (decision.outcome === 'admitted')
      return { gate, auth: undefined, context: decision.context, telemetry }
    if (decision.outcome === 'accepted') {
      const { auth, context } = decision
      telemetry.identify(auth)
      return { gate, auth, context, telemetry }
    }
    telemetry.finished(decision)
    if (gate === undefined) return { response: FAILED_RESPONSE }
    try {
      const named = known === undefined ? decision : this.#withScopesOf(known(), gate, decision)
      return { response: await this.#refusal(gate, named, request) }
    } catch {
      return { response: FAILED_RESPONSE }
    }
  }

  /** Without a gate, every request is served. */
  async #admitted(request: McpRequest): Promise<Admission> {
    return { outcome: 'admitted', context: await this.#props.makeContext(request) }
  }

  /** Returns `true` for a POST without an `Authorization` header, if the gate serves public operations without a token. */
  mayAdmit(request: McpRequest): boolean {
    return (
      this.#props.gate?.options.anonymous === true &&
      request.method === 'POST' &&
      request.authorization === undefined
    )
  }

  /** Returns `true` if these messages need no token. The request must be one that `mayAdmit` allows. */
  arePublic(messages: readonly unknown[]): boolean {
    return arePublic(this.#props.operations, messages)
  }

  /**
   * Reads the body of a request that `mayAdmit` allows, and admits the request if all of its messages are public. A request
   * with any other body is refused in the same way as every request without a token.
   */
  async admit(request: McpRequest): Promise<AdmissionResult> {
    const gate = this.#props.gate as Gate
    const telemetry = await this.#props.instrumentation.begun(request)
    const parsed = await this.bodies.receiveUnverified(request)
    if (parsed === undefined) {
      const busy = retryLater(503, 'Too many requests without a token are being read')
      telemetry.finished({ status: busy.status })
      return { response: busy }
    }
    let admitted: AdmissionResult | undefined
    try {
      const messages = 'messages' in parsed ? parsed.messages : []
      const isPublic = 'messages' in parsed && this.arePublic(messages)
      const decision = await telemetry.run<Promise<Decision | Admission>>(() =>
        isPublic ? gate.admit(request) : gate.authenticate(request),
      )
      if (isPublic && decision.outcome === 'admitted') {
        const { context } = decision
        admitted = { exchange: { gate, auth: undefined, context, telemetry }, received: parsed }
        return admitted
      }
      // Without an `Authorization` header, the gate accepts nothing.
      if (decision.outcome === 'accepted' || decision.outcome === 'admitted')
        return { response: FAILED_RESPONSE }
      telemetry.finished(decision)
      const named = this.#withScopesOf(messages, gate, decision)
      return { response: await this.#refusal(gate, named, request, parsed) }
    } finally {
      if (admitted === undefined && 'release' in parsed) parsed.release?.()
    }
  }

  #withScopesOf<D extends Decision>(messages: readonly unknown[], gate: Gate, decision: D): D {
    return gate.withOperationScopes(decision, this.operationScopes(messages))
  }

  /** Returns the scopes that the operations of these messages need, in addition to those of the endpoint. */
  operationScopes(messages: readonly unknown[]): readonly string[] {
    const { operations } = this.#props
    return operations === undefined ? [] : neededScopes(operations, messages)
  }

  /**
   * Refuses a request whose token lacks scopes, or which has no token.
   * @param operation the scopes that the challenge names, in addition to those of the endpoint
   * @param received the messages of the request, if its body has been read
   */
  async refuseScopes(
    { auth, gate, telemetry }: Exchange,
    request: McpRequest,
    operation: readonly string[],
    received?: ReceivedMessages,
  ): Promise<PlainResponse> {
    if (gate === undefined)
      return jsonRpcError(403, -32_000, 'Forbidden: this operation requires scopes, but OAuth is disabled')
    const refused: Refusal =
      auth === undefined
        ? gate.withOperationScopes({ outcome: 'refused', reason: 'missing' }, operation)
        : gate.insufficientScope(operation, auth.scopes)
    const refusal = await gate.limited(refused, request)
    telemetry.finished(refusal)
    return await this.#refusal(gate, refusal, request, received)
  }

  /** Returns the response to a request that is not accepted: the gate's, or a tool result if `challengeInResult` asks for it. */
  async #refusal(
    gate: Gate,
    decision: NotAccepted,
    request: McpRequest,
    received?: ParsedMessages,
  ): Promise<PlainResponse> {
    const { challengeInResult } = gate.options
    if (challengeInResult === false || !receivesResult(challengeInResult, request))
      return gate.responseTo(decision, request)
    const challenge = gate.challengeResult(decision, request)
    if (challenge === undefined) return gate.responseTo(decision, request)
    const parsed = received ?? (await this.bodies.receiveUnverified(request))
    const messages = parsed !== undefined && 'body' in parsed ? parsed : undefined
    const id = messages && calledId(messages.body)
    if (received === undefined) messages?.release?.()
    if (id !== undefined) return toolResult(id, challenge, request)
    const response = gate.responseTo(decision, request)
    const isCut =
      parsed !== undefined && 'response' in parsed && parsed.response.headers.Connection !== undefined
    return isCut ? { ...response, headers: { ...response.headers, Connection: 'close' } } : response
  }
}

/** Names in the `User-Agent` of OpenAI's clients, which look for a challenge in the result of a tool call. */
const OPENAI = ['openai', 'chatgpt']

/** Returns `true` if a refused call of this client is answered with a tool result. */
export function receivesResult(
  challengeInResult: true | 'auto',
  request: Pick<McpRequest, 'method' | 'header'>,
): boolean {
  if (request.method !== 'POST') return false
  if (challengeInResult === true) return true
  const agent = request.header('user-agent')?.toLowerCase() ?? ''
  return OPENAI.some((name) => agent.includes(name))
}

/** Returns the id of a tool call; `undefined` for a batch, another message, or an id that MCP does not allow. */
export function calledId(body: unknown): string | number | undefined {
  if (typeof body !== 'object' || body === null) return undefined
  const { jsonrpc, method, id } = body as Partial<Record<'jsonrpc' | 'method' | 'id', unknown>>
  if (jsonrpc !== '2.0' || methodNamed(method)?.names !== 'tool') return undefined
  const isId = typeof id === 'string' ? !isTooLong(id) : Number.isSafeInteger(id)
  return isId ? (id as string | number) : undefined
}

/** Returns the result of a refused tool call, with its challenge. */
export function toolResult(
  id: string | number,
  { challenge, description, headers }: ChallengeResult,
  request: McpRequest,
): PlainResponse {
  const isModern = (request.header('mcp-protocol-version') ?? '') >= MODERN_REVISION
  return {
    status: 200,
    headers,
    body: JSON.stringify({
      jsonrpc: '2.0',
      id,
      result: {
        ...(isModern && { resultType: 'complete' }),
        content: [{ type: 'text', text: description }],
        isError: true,
        _meta: { 'mcp/www_authenticate': [challenge] },
      },
    }),
  }
}
