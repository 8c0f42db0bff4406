import { KitTelemetryError } from '../errors.ts'

/**
 * Returns the transport's own error if it has that code. Otherwise returns an error with the name of `cause`, but not its
 * message, which may quote an event.
 */
export function transportError(
  type: string,
  code: 'TELEMETRY_TRANSPORT_FAILED' | 'TELEMETRY_TRANSPORT_INIT_FAILED',
  what: string,
  cause: unknown,
): KitTelemetryError {
  const named = `transport ${JSON.stringify(type)}`
  if (KitTelemetryError.is(cause) && cause.code === code) {
    return cause.message.includes(named)
      ? cause
      : new KitTelemetryError(code, `${named}: ${cause.message}`, {
          cause,
          ...(cause.details !== undefined && { details: cause.details }),
        })
  }
  return new KitTelemetryError(code, `${named} ${what}${kindOf(cause)}`, { cause })
}

/** Returns the parts of an error that do not contain secrets: ` (TypeError)`, ` (Error ECONNREFUSED)`. */
function kindOf(cause: unknown): string {
  try {
    const { name, code } = cause as { name?: unknown; code?: unknown }
    const words = [name, code].filter((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word))
    return words.length === 0 ? '' : ` (${words.join(' ')})`
  } catch {
    return ''
  }
}
