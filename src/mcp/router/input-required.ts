import type { InputRequest, InputRequiredResult } from '@modelcontextprotocol/server'

/** The property in which a result keeps its state until it is encrypted. It is never serialized. */
const STATE: unique symbol = Symbol('state')

/** The value that a handler returns to ask the client for input. `context.inputRequired()` creates it. */
export interface InputRequired extends InputRequiredResult {
  /** @internal */
  readonly [STATE]?: unknown
}

/**
 * Implements `KitContext.inputRequired`.
 * @param requests the requests by name
 * @param state any JSON value for `context.state` of the next round
 * @throws {TypeError} if there are neither requests nor a state
 */
export function inputRequired(
  requests: Readonly<Record<string, InputRequest>>,
  state?: unknown,
): InputRequired {
  const asks = Object.keys(requests).length > 0
  if (!asks && state === undefined)
    throw new TypeError('inputRequired() needs at least one request or a state')
  return {
    resultType: 'input_required',
    ...(asks && { inputRequests: { ...requests } }),
    ...(state !== undefined && { [STATE]: state }),
  }
}

/** Returns the state of a result, which must be encrypted. */
export function stateOf(result: InputRequired): unknown {
  return result[STATE] ?? result.requestState
}
