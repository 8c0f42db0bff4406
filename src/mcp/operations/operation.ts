import { randomUUID } from 'node:crypto'
import {
  type CacheHint,
  type ClientCapabilities,
  type InputRequiredResult,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { memberOf } from '../../options/describe-value.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { isInputRequired, stateOf } from '../router/input-required.ts'
import type { RouterTable } from '../router/router-table.ts'
import { KitToolError } from '../router/tool-error.ts'
import type { Exchange } from '../wire/exchange.ts'
import { checkJson, plainCopy } from '../wire/json-safe.ts'
import { CallContext } from './call-context.ts'
import { holderOf, type RequestStates } from './request-state.ts'
import type { Subscriptions } from './subscriptions.ts'

const STATE_REFUSED = 'invalid_request_state'

/** What the operations of one request work with. */
export interface Serving {
  readonly table: RouterTable
  readonly exchange: Exchange
  readonly states: RequestStates
  readonly subscriptions: Subscriptions
  /** Whether lists leave out what the token may not use. */
  readonly listOnlyPermitted: boolean
  readonly cache: CacheHint
  /** What the client of a session said it can do. */
  readonly sessionCapabilities?: ClientCapabilities | undefined
}

/** A request of the client, as far as it is looked at here. */
export interface OperationRequest {
  readonly method: string
  readonly params: object
}

/**
 * Runs one round of a call: opens the state that the round before kept, and seals the one that this round keeps.
 * @param name what is called, so that a state is good for it alone.
 * @throws {ProtocolError} -32602 for a state that was tampered with, is not this user's, or is too old.
 */
export async function runRound<Result>(
  { exchange, states, sessionCapabilities }: Serving,
  sdk: ServerContext,
  name: string,
  run: (context: CallContext) => Promise<Result>,
): Promise<Result | InputRequiredResult> {
  const given: unknown = sdk.mcpReq.requestState()
  const state = given === undefined ? undefined : await opened(states, given, holder())
  const result = await run(new CallContext(exchange, sdk, state, sessionCapabilities))
  if (!isInputRequired(result)) return result
  const kept = stateOf(result)
  const { inputRequests } = result
  return {
    resultType: 'input_required',
    ...(inputRequests !== undefined && { inputRequests }),
    ...(kept !== undefined && { requestState: await states.seal(kept, holder()) }),
  }

  function holder(): string {
    return holderOf(exchange.auth, sdk.mcpReq.method, name)
  }
}

async function opened(states: RequestStates, given: unknown, holder: string): Promise<unknown> {
  try {
    return await states.open(String(given), holder)
  } catch {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Invalid or expired requestState', {
      reason: STATE_REFUSED,
    })
  }
}

/** Whether `runRound` itself refused the call, before the application was asked. */
export function isStateRefusal(error: unknown): boolean {
  if (!isProtocolError(error)) return false
  return memberOf(memberOf(error, 'data') as object, 'reason') === STATE_REFUSED
}

/** The text of a `KitToolError`, which the client may see. Undefined for whatever else was thrown. */
export function textForClient(thrown: unknown): string | undefined {
  const text = KitToolError.is(thrown) ? memberOf(thrown, 'message') : undefined
  return typeof text === 'string' ? text : undefined
}

/** Asks what was thrown, whatever it is: a proxy may throw at the question. */
function isProtocolError(error: unknown): error is ProtocolError {
  return tryOrUndefined(() => error instanceof ProtocolError) === true
}

/**
 * Runs what the application has given for a prompt, a resource or a completion. What it throws becomes an error that is
 * safe to show: a `ProtocolError` as it is, the text of a `KitToolError`, or else a text with a reference id under
 * which telemetry has the cause.
 * @param what begins the text, such as `The prompt`.
 * @throws {ProtocolError}
 */
export async function runSafely<Result>(
  { exchange }: Serving,
  request: OperationRequest,
  sdk: ServerContext,
  what: string,
  run: () => Promise<Result>,
): Promise<Result> {
  const { telemetry } = exchange
  const startedAt = telemetry.now()
  try {
    const result = await run()
    checkJson(result)
    return plainCopy(result)
  } catch (error) {
    if (isProtocolError(error)) throw error
    const text = textForClient(error)
    const reference = text === undefined ? randomUUID() : undefined
    telemetry.operationFailed({ ...request, id: sdk.mcpReq.id, startedAt }, error, reference)
    throw new ProtocolError(
      ProtocolErrorCode.InternalError,
      text ?? `${what} failed. Reference: ${reference}`,
    )
  }
}
