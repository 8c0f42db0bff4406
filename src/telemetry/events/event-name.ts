import { configurationError } from '../options.ts'
import { quoted } from '../suggestion.ts'

const MAX_LENGTH = 256

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
const FORBIDDEN = /[\s:\u0000-\u001f\u007f-\u009f]/

/** Names of the events this package emits itself begin so: always known, and exempt from validation. */
export const BUILT_IN_PREFIX = 'kit.mcp.'

/**
 * Checks an event's name, or a part of it: not empty, no spaces, colons or control characters, at most 256 characters.
 * @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME`
 */
export function checkEventName(name: unknown, what = 'an event name'): asserts name is string {
  if (typeof name === 'string' && name !== '' && name.length <= MAX_LENGTH && !FORBIDDEN.test(name)) return
  throw configurationError(
    'TELEMETRY_INVALID_EVENT_NAME',
    `${what} must be 1 to ${MAX_LENGTH} characters without spaces, colons and control characters, got ${quoted(name)}`,
  )
}
