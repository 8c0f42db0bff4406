import { describeName } from '../../base/options/describe-value.ts'
import { errorWithHelp } from '../options.ts'

const MAX_LENGTH = 256

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const FORBIDDEN = /[\s:\u0000-\u001f\u007f-\u009f]/

/** The prefixes of the events that this package emits. They are always known, and are not validated. */
const BUILT_IN_PREFIXES = ['kit.mcp.', 'kit.authorization.'] as const

/** The event that `httpTelemetry` emits. */
export const HTTP_EVENT = 'http.request.completed'

/** Returns `true` for the name of an event that this package emits. */
export function isBuiltInEvent(name: string): boolean {
  return name === HTTP_EVENT || BUILT_IN_PREFIXES.some((prefix) => name.startsWith(prefix))
}

/**
 * Checks an event name, or a part of it: 1 to 256 characters without spaces, colons, and control characters.
 * @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME` if the name is invalid.
 */
export function checkEventName(name: unknown, what = 'an event name'): asserts name is string {
  if (typeof name === 'string' && name !== '' && name.length <= MAX_LENGTH && !FORBIDDEN.test(name)) return
  throw errorWithHelp(
    'TELEMETRY_INVALID_EVENT_NAME',
    `${what} must be 1 to ${MAX_LENGTH} characters without spaces, colons, and control characters; received ${describeName(name)}`,
  )
}
