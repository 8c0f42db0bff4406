import {
  type InputRequest,
  type InputRequiredResult,
  isInputRequiredResult,
} from '@modelcontextprotocol/server'

/** Where a result keeps its state until it is sealed. Never serialised. */
const STATE: unique symbol = Symbol('state')

/** What a handler returns to have the client asked: see `KitContext.inputRequired`. */
export interface InputRequired extends InputRequiredResult {
  /** @internal */
  readonly [STATE]?: unknown
}

/**
 * @param requests What to ask, each under a name of its own.
 * @param state Any JSON value to find again at `context.state`; sealed before it is sent.
 * @throws {TypeError} when there is neither.
 */
export function inputRequired(
  requests: Readonly<Record<string, InputRequest>>,
  state?: unknown,
): InputRequired {
  const asks = Object.keys(requests).length > 0
  if (!asks && state === undefined) throw new TypeError('inputRequired() needs requests, or a state')
  return {
    resultType: 'input_required',
    ...(asks && { inputRequests: { ...requests } }),
    ...(state !== undefined && { [STATE]: state }),
  }
}

/** Whether a handler wants the client asked; results made with the SDK's own `inputRequired()` count too. */
export function isInputRequired(value: unknown): value is InputRequired {
  return isInputRequiredResult(value)
}

/** What is to be sealed of a result. */
export function stateOf(result: InputRequired): unknown {
  return result[STATE] ?? result.requestState
}
