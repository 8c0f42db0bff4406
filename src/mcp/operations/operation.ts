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

/** The data that the operations of one request need. */
export interface Serving {
  readonly table: RouterTable
  readonly exchange: Exchange
  readonly states: RequestStates
  readonly subscriptions: Subscriptions
  /** `true` if lists leave out the operations that the token may not use. */
  readonly listOnlyPermitted: boolean
  readonly cache: CacheHint
  /** The capabilities that the client of a session has sent. */
  readonly sessionCapabilities?: ClientCapabilities | undefined
}

/** The parts of a request that are used here. */
export interface OperationRequest {
  readonly method: string
  readonly params: object
}

/**
 * Runs one round of a call. Decrypts the state of the previous round, and encrypts the state for the next round.
 * @param name the name of the operation. A state is valid only for this operation.
 * @throws {ProtocolError} -32602 if the state was changed, belongs to another user, or has expired.
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

/** Returns `true` if `runRound` has refused the state, before the handler was called. */
export function isStateRefusal(error: unknown): boolean {
  if (!isProtocolError(error)) return false
  return memberOf(memberOf(error, 'data') as object, 'reason') === STATE_REFUSED
}

/** Returns the message of a `KitToolError`, which the client may see. Returns undefined for any other thrown value. */
export function textForClient(thrown: unknown): string | undefined {
  const text = KitToolError.is(thrown) ? memberOf(thrown, 'message') : undefined
  return typeof text === 'string' ? text : undefined
}

/** Returns `true` for a `ProtocolError`. `instanceof` throws for some proxies. */
function isProtocolError(error: unknown): error is ProtocolError {
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
