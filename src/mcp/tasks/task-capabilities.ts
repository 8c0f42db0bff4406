import {
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequest,
  MissingRequiredClientCapabilityError,
} from '@modelcontextprotocol/server'
import { isRecord } from '../../options/value-kinds.ts'
import { TASKS_EXTENSION } from './task-record.ts'

/** @param envelope the envelope of a request of 2026-07-28, or `params._meta`, which contains it */
export function declaresTasks(envelope: unknown): boolean {
  const capabilities = isRecord(envelope) ? envelope[CLIENT_CAPABILITIES_META_KEY] : undefined
  const extensions = isRecord(capabilities) ? capabilities.extensions : undefined
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
  const given = isRecord(envelope) ? envelope[CLIENT_CAPABILITIES_META_KEY] : undefined
  const capabilities = isRecord(given) ? given : {}
  for (const request of Object.values(requests)) {
    const required = capabilityFor(request)
    if (required === undefined) continue
    const { name, mode } = required
    const declared = capabilities[name]
    // An empty object declares forms only.
    const isDeclared = isRecord(declared) && (mode === undefined || isRecord(declared[mode]))
    if (!isDeclared)
      return new MissingRequiredClientCapabilityError({
        requiredCapabilities: { [name]: mode === undefined ? {} : { [mode]: {} } },
      })
  }
  return undefined
}

function capabilityFor({ method, params }: InputRequest): { name: string; mode?: string } | undefined {
  switch (method) {
    case 'elicitation/create':
      return (params as { mode?: unknown }).mode === 'url'
        ? { name: 'elicitation', mode: 'url' }
        : { name: 'elicitation' }
    case 'sampling/createMessage':
      return { name: 'sampling' }
    case 'roots/list':
      return { name: 'roots' }
    default:
      return undefined
  }
}
