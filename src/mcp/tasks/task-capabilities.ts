import {
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequest,
  MissingRequiredClientCapabilityError,
} from '@modelcontextprotocol/server'
import { isRecord } from '../../base/options/value-kinds.ts'
import { TASKS_EXTENSION } from './task-record.ts'

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
