import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequest,
  type InputRequiredResult,
  MissingRequiredClientCapabilityError,
  ProtocolErrorCode,
} from '@modelcontextprotocol/server'
import { cutText } from '../../base/cut-text.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { isProtocolError } from '../operations/operation.ts'
import { changed, keyedRequests, TASKS_EXTENSION, type TaskError, type TaskRecord } from './task-record.ts'

/** The maximum length of the message of an error, and of its data as JSON. */
const MAX_ERROR_TEXT = 4_000

/** The outcome of the run of a handler. */
export type TaskOutcome =
  | { readonly result: CallToolResult }
  | { readonly input: InputRequiredResult; readonly round: number }
  | { readonly error: TaskError }

/** Returns a task with the outcome of its run. */
export function withOutcome(record: TaskRecord, outcome: TaskOutcome): TaskRecord {
  if ('error' in outcome) return failedTask(record, outcome.error)
  if ('result' in outcome) return changed(record, { status: 'completed', result: outcome.result })
  const { node: _node, state: _state, ...rest } = record
  const { input, round } = outcome
  const requests = keyedRequests(input.inputRequests ?? {}, round)
  return changed(rest, {
    status: 'input_required',
    round,
    input: { requests, responses: {} },
    ...(input.requestState !== undefined && { state: input.requestState }),
  })
}

/** Returns a task that has failed. */
export function failedTask(record: TaskRecord, error: TaskError): TaskRecord {
  return changed(record, { status: 'failed', statusMessage: error.message, error })
}

/** Returns the type of the error for telemetry, or undefined for a success. */
export function errorTypeOf(outcome: TaskOutcome): string | undefined {
  if ('error' in outcome) return String(outcome.error.code)
  return 'result' in outcome && outcome.result.isError === true ? 'tool_error' : undefined
}

/** Returns the JSON-RPC error of a thrown value. Only the message of a `ProtocolError` is meant for clients. */
export function errorOf(thrown: unknown): TaskError {
  if (!isProtocolError(thrown)) return internal('The tool failed.')
  return (
    tryOrUndefined(() => {
      const { code, message, data } = thrown
      const text = data === undefined ? undefined : JSON.stringify(data)
      return {
        code: Number.isSafeInteger(code) ? code : ProtocolErrorCode.InternalError,
        message: cutText(String(message), MAX_ERROR_TEXT, '…'),
        ...(text !== undefined && text.length <= MAX_ERROR_TEXT && { data: JSON.parse(text) }),
      }
    }) ?? internal('The tool failed.')
  )
}

/** Returns the error -32603. */
export function internal(message: string): TaskError {
  return { code: ProtocolErrorCode.InternalError, message }
}

/** @param envelope the envelope of a request of 2026-07-28, or `params._meta`, which contains it */
export function declaresTasks(envelope: unknown): boolean {
  const { extensions } = capabilitiesIn(envelope)
  return isRecord(extensions) && Object.hasOwn(extensions, TASKS_EXTENSION)
}

/** The capabilities that a client must declare, and that a server with tasks declares. */
export const TASKS_CAPABILITY: { readonly extensions: Record<string, Record<string, never>> } = {
  extensions: { [TASKS_EXTENSION]: {} },
}

/** Returns the error -32021 for a client that does not declare the extension. */
export function missingTasks(): MissingRequiredClientCapabilityError {
  return new MissingRequiredClientCapabilityError({ requiredCapabilities: TASKS_CAPABILITY })
}

/**
 * Returns the error -32021 if the client does not support one of the input requests. The SDK checks this only for the result of
 * a call.
 */
export function missingCapability(
  envelope: unknown,
  requests: Readonly<Record<string, InputRequest>>,
): MissingRequiredClientCapabilityError | undefined {
  const given = capabilitiesIn(envelope)
  for (const { method, params } of Object.values(requests)) {
    const name = CAPABILITIES[method]
    if (name === undefined) continue
    const declared = given[name]
    // An empty object declares forms only.
    const needsUrls = name === 'elicitation' && (params as { mode?: unknown }).mode === 'url'
    if (isRecord(declared) && (!needsUrls || isRecord(declared.url))) continue
    const requiredCapabilities = { [name]: needsUrls ? { url: {} } : {} }
    return new MissingRequiredClientCapabilityError({ requiredCapabilities })
  }
  return undefined
}

/** The capability that a client needs for an input request, by method. */
const CAPABILITIES: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

function capabilitiesIn(envelope: unknown): Readonly<Record<string, unknown>> {
  const capabilities = isRecord(envelope) ? envelope[CLIENT_CAPABILITIES_META_KEY] : undefined
  return isRecord(capabilities) ? capabilities : {}
}
