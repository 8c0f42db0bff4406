import { randomUUID } from 'node:crypto'
import {
  acceptedContent,
  type CacheHint,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type InputRequiredResult,
  isInputRequiredResult,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { cutText } from '../../base/cut-text.ts'
import { memberOf } from '../../base/options/describe-value.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { LazyRequest } from '../../oauth/inputs.ts'
import type { KitContext } from '../router/context.ts'
import { type InputRequired, inputRequired, stateOf } from '../router/input-required.ts'
import type { MiddlewareCall, MiddlewareResult, OperationKind, Wrapped } from '../router/middleware.ts'
import type { PromptEntry } from '../router/prompt.ts'
import type { RouterTable } from '../router/router-table.ts'
import { validate } from '../router/schemas/json-schema.ts'
import type { ToolEntry } from '../router/tool.ts'
import { KitToolError } from '../router/tool-error.ts'
import { canonicalUri } from '../router/uris/canonical-uri.ts'
import type { Exchange, TimedCall, Verdict } from '../wire/exchange.ts'
import { checkJson, plainCopy } from '../wire/json-safe.ts'
import type { Policy } from './policy.ts'
import { holderOf, type RequestStates } from './request-state.ts'
import type { Subscriptions } from './subscriptions.ts'
import type { Toolsets } from './toolsets.ts'

/** The JSON-RPC code for a prompt or a resource that the policy denies. */
export const DENIED_CODE = -32_003

/** The text that the client receives if the policy does not give one. */
export const DENIED_TEXTS: Readonly<Record<OperationKind, string>> = {
  tool: 'You are not allowed to use this tool.',
  prompt: 'You are not allowed to use this prompt.',
  resource: 'You are not allowed to read this resource.',
}

const STATE_REJECTED = 'invalid_request_state'
const NOT_FINITE = 'number_not_finite'
const REFUSED_ROUNDS = new Set<unknown>([STATE_REJECTED, NOT_FINITE])

/** The data that the operations of one request need. */
export interface Serving {
  readonly table: RouterTable
  readonly exchange: Exchange
  readonly states: RoundStates
  /** Asks users before tools run. Undefined in a task, which has been confirmed before it was created. */
  readonly confirmations?: CallConfirmations | undefined
  readonly subscriptions: Subscriptions
  /** `true` if lists leave out the operations that the token may not use. */
  readonly listOnlyPermitted?: boolean
  /** The option `toolsets`. */
  readonly toolsets?: Toolsets | undefined
  readonly cache?: CacheHint
  /** The option `authorize`. */
  readonly policy?: Policy | undefined
  /** The capabilities that the client of a session has sent. */
  readonly sessionCapabilities?: ClientCapabilities | undefined
  /** `true` in a task, whose status tells a JSON-RPC error from the error of a tool. Other calls only have tool errors. */
  readonly keepsProtocolErrors?: true
  /** Ends a call that its limits have counted already. */
  readonly endCounted?: (() => void) | undefined
}

/** Encrypts the states of rounds. */
export interface RoundStates extends Pick<RequestStates, 'seal' | 'open'> {
  /** `true` if a round has a state also if its handler does not keep one. */
  readonly isKept?: true
}

/** A call that may need a confirmation. */
export interface ConfirmableCall extends TimedCall {
  readonly params: { readonly arguments?: unknown }
}

/** The round of a call that may run, the question to the user, or the reason why the call may not run. */
export type ConfirmedRound =
  | { readonly serving: Serving; readonly sdk: SdkContext }
  | { readonly question: InputRequiredResult }
  | { readonly refusal: string }

/** Asks users before tools run. */
export interface CallConfirmations {
  /**
   * Returns the round to run, with the state and the answers of the handler only.
   * @param confirm the option of the tool
   * @param args the validated arguments
   * @throws {ProtocolError} -32602 if the state was changed, belongs to another user, or has expired.
   */
  readonly round: (
    serving: Serving,
    sdk: SdkContext,
    tool: ToolEntry,
    confirm: NonNullable<ToolEntry['confirm']>,
    call: ConfirmableCall,
    args: unknown,
  ) => Promise<ConfirmedRound>
}

/** The part of the SDK's context that a call needs. A task has one without the request that began the task. */
export type SdkContext = Pick<ServerContext, 'http'> & {
  readonly mcpReq: Pick<
    ServerContext['mcpReq'],
    'id' | 'method' | '_meta' | 'envelope' | 'inputResponses' | 'requestState' | 'signal' | 'log' | 'notify'
  >
}

/** The parts of a request that are used here. */
export interface OperationRequest {
  readonly method: string
  readonly params: object
}

/**
 * Returns the verdict on a call. A call without a verdict is denied. Returns undefined if `authorize` is not set.
 * @param operation the entry of the router's table
 */
export function checkedCall(
  { policy, exchange }: Pick<Serving, 'policy' | 'exchange'>,
  { mcpReq }: { readonly mcpReq: Pick<ServerContext['mcpReq'], 'id'> },
  kind: OperationKind,
  operation: object,
): Verdict | undefined {
  if (policy === undefined) return undefined
  const call = exchange.verdicts?.get(mcpReq.id)
  return call?.operation === operation ? call : { operation, denied: DENIED_TEXTS[kind] }
}

/** Like `checkedCall`, for a prompt or a resource. @throws {ProtocolError} -32003 if the call is denied. */
export function permittedCall(
  serving: Pick<Serving, 'policy' | 'exchange'>,
  sdk: ServerContext,
  kind: 'prompt' | 'resource',
  operation: object,
): Verdict | undefined {
  const call = checkedCall(serving, sdk, kind, operation)
  if (call !== undefined && 'denied' in call) throw new ProtocolError(DENIED_CODE, call.denied)
  return call
}

/** Returns the validated arguments of a call. @throws the error that validating them has thrown. */
export function argumentsOf(call: Verdict): unknown {
  if ('failure' in call) throw call.failure.thrown
  return 'args' in call ? call.args : undefined
}

/**
 * Validates the arguments of a call.
 * @throws {KitToolError} if those of a tool are invalid. @throws {ProtocolError} -32602 if those of a prompt are.
 */
export async function validArguments(
  kind: 'tool' | 'prompt',
  { definition, input }: Pick<ToolEntry | PromptEntry, 'definition' | 'input'>,
  given: unknown,
): Promise<unknown> {
  if (input === undefined) return {}
  const validation = await validate(input, given)
  if ('value' in validation) return validation.value
  const problem = `Invalid arguments for ${kind} ${definition.name}: ${validation.problem}`
  throw kind === 'tool' ? new KitToolError(problem) : invalidParams(problem)
}

/**
 * Runs one round of a call. Decrypts the state of the previous round, and encrypts the state for the next round.
 * @param name the name of the operation. A state is valid only for this operation.
 * @throws {ProtocolError} -32602 if the state was changed, belongs to another user, or has expired.
 */
export async function runRound<Result>(
  serving: Serving,
  sdk: SdkContext,
  name: string,
  run: (context: CallContext) => Promise<Result>,
): Promise<Result | InputRequiredResult> {
  const { exchange, states } = serving
  const holder = (): string => holderOf(exchange.auth, sdk.mcpReq.method, name)
  const given: unknown = sdk.mcpReq.requestState()
  const state = given === undefined ? undefined : await openState(states, given, holder())
  const result = await run(callContext(serving, sdk, state))
  if (!isInputRequiredResult(result)) return result
  const kept = stateOf(result)
  const { inputRequests } = result
  return {
    resultType: 'input_required',
    ...(inputRequests !== undefined && { inputRequests }),
    ...((kept !== undefined || states.isKept) && { requestState: await states.seal(kept, holder()) }),
  }
}

/** Decrypts a state. @throws {ProtocolError} -32602 if it was changed, belongs to another holder, or has expired. */
export async function openState(states: RoundStates, given: unknown, holder: string): Promise<unknown> {
  try {
    return await states.open(String(given), holder)
  } catch {
    throw invalidParams('Invalid or expired requestState', { reason: STATE_REJECTED })
  }
}

/** Returns `true` if the state, or a number of a call to confirm, was rejected before the handler was called. */
export function isRefusedRound(error: unknown): boolean {
  return isProtocolError(error) && REFUSED_ROUNDS.has(memberOf(memberOf(error, 'data') as object, 'reason'))
}

/** @throws {ProtocolError} -32602 for a number that is not finite, such as `1e400`, which the user cannot be shown as JSON. */
export function checkNumbers(args: unknown): void {
  JSON.stringify(args, (_key, value) => {
    if (typeof value !== 'number' || Number.isFinite(value)) return value
    const problem = 'Invalid params: the arguments must not have numbers that are not finite'
    throw invalidParams(problem, { reason: NOT_FINITE })
  })
}

/** Returns the message of a `KitToolError`, which the client may see. Returns undefined for any other thrown value. */
export function textForClient(thrown: unknown): string | undefined {
  const text = KitToolError.is(thrown) ? memberOf(thrown, 'message') : undefined
  return typeof text === 'string' ? text : undefined
}

/** Returns `true` for a `ProtocolError`. `instanceof` throws for some proxies. */
export function isProtocolError(error: unknown): error is ProtocolError {
  return tryOrUndefined(() => error instanceof ProtocolError) === true
}

/**
 * Runs the application's code for a prompt, a resource, or a completion. Every thrown value becomes an error that the client
 * may see: a `ProtocolError` stays as it is, a `KitToolError` keeps its message, and any other value becomes a message with a
 * reference id, under which telemetry records the cause.
 * @param what the beginning of the message, such as `The prompt`
 * @throws {ProtocolError} if the code throws, or if its result cannot be serialized as JSON.
 */
export async function runSafely<Result>(
  { exchange }: Serving,
  request: OperationRequest,
  sdk: ServerContext,
  what: string,
  run: () => Promise<Result>,
): Promise<Result> {
  const { telemetry } = exchange
  const startedAt = performance.now()
  try {
    const result = await run()
    checkJson(result)
    return plainCopy(result)
  } catch (error) {
    if (isProtocolError(error)) throw error
    const text = textForClient(error)
    const reference = text === undefined ? randomUUID() : undefined
    const call = { ...request, id: sdk.mcpReq.id, startedAt }
    telemetry.record('request.failed', call, { failure: { thrown: error }, reference })
    throw new ProtocolError(
      ProtocolErrorCode.InternalError,
      text ?? `${what} failed. Reference: ${reference}`,
    )
  }
}

/** The context of a call. The limits of a tool replace its signal. */
export type CallContext = { -readonly [Member in keyof KitContext]: KitContext[Member] }

/**
 * Returns the context of a call. Every member is an own property, and the functions do not need `this`, so that handlers can
 * destructure the context, `(args, { progress }) => …`, and copy it, `next(args, { ...context, tenant })`.
 */
export function callContext(
  { exchange, sessionCapabilities }: Pick<Serving, 'exchange' | 'sessionCapabilities'>,
  { mcpReq, http }: SdkContext,
  state?: unknown,
): CallContext {
  const { context: source, auth, telemetry } = exchange
  const { session } = telemetry
  const { signal, inputResponses } = mcpReq
  const envelope = mcpReq.envelope as Partial<Record<string, ClientCapabilities>> | undefined
  return Object.assign(new LazyRequest(source), {
    context: source.context,
    signal,
    clientCapabilities: envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? sessionCapabilities,
    inputResponses: inputResponses ?? {},
    state,
    ...(auth !== undefined && { auth }),
    ...(session !== undefined && { session }),
    log: (level, data) => withRoom(exchange, () => mcpReq.log(level, data)),
    progress: (progress, total, message) =>
      withRoom(exchange, () => reportProgress(mcpReq, progress, total, message)),
    releaseStream: () => http?.closeSSE?.(),
    inputRequired,
    accepted: (name, schema) => acceptedContent(inputResponses, name, schema),
  } satisfies Omit<KitContext, 'request'>)
}

/**
 * Runs a prompt, a resource, or a tool inside its middleware, if it has any. All members of the middleware's argument are own
 * properties.
 * @param isResult returns `true` for a result of `method`
 * @throws {TypeError} if the middleware returns anything else.
 */
export async function runAround<Result extends MiddlewareResult>(
  { around }: Wrapped,
  given: KitContext,
  operation: Pick<MiddlewareCall, 'kind' | 'name' | 'uri'> & { readonly args: unknown },
  run: () => Promise<Result | InputRequired>,
  method: string,
  isResult: (value: unknown) => value is Result,
): Promise<Result | InputRequired> {
  if (around === undefined) return await run()
  const { auth, context, signal, session } = given
  const args = operation.args as MiddlewareCall['args']
  const call = Object.assign(new LazyRequest(given), { ...operation, args, auth, context, signal, session })
  const result = await around(call, run)
  if (isInputRequiredResult(result) || isResult(result)) return result
  throw new TypeError(`Middleware of ${call.kind} ${call.name} must return a result of ${method}`)
}

async function reportProgress(
  mcpReq: SdkContext['mcpReq'],
  progress: number,
  total: number | undefined,
  message: string | undefined,
): Promise<void> {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return
  const params = {
    progressToken,
    progress,
    ...(total !== undefined && { total }),
    ...(message && { message }),
  }
  await mcpReq.notify({ method: 'notifications/progress', params })
}

/** Sends a notification. If too much waits for the client, all calls share one promise, so that they use no memory. */
function withRoom(exchange: Exchange, send: () => Promise<void>): Promise<void> {
  const sent = withoutErrors(send)
  return exchange.outflow?.hasRoom === false ? exchange.outflow.room() : sent
}

/** Drops a notification that cannot be sent, because it is invalid or because the client has disconnected. */
async function withoutErrors(send: () => Promise<void>): Promise<void> {
  try {
    await send()
  } catch {
    // The handler continues.
  }
}

/** The maximum length of a URI in an error message. */
const MAX_REPEATED = 200

/**
 * Returns the canonical form of a URI that a client has sent.
 * @throws {ProtocolError} -32602 if the string is not an absolute URI or contains a control character.
 */
export function requestedUri(uri: string): string {
  const canonical = canonicalUri(uri)
  if (canonical !== undefined) return canonical
  throw invalidParams('The resource URI is not valid', { uri: repeatedUri(uri), reason: 'invalid_uri' })
}

/** Returns the error -32602. */
export function invalidParams(message: string, data?: object): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message, data)
}

/** Returns a URI for an error message. */
export function repeatedUri(uri: string): string {
  return cutText(uri, MAX_REPEATED, '…')
}
