/**
 * The codes of `KitTelemetryError`. Each code is mapped to itself.
 *
 * @example
 * ```ts
 * import { KIT_TELEMETRY_ERROR_CODES, KitTelemetryError } from 'mcp-gatekit/telemetry'
 *
 * const isDuplicate = (error: unknown): boolean =>
 *   KitTelemetryError.is(error) && error.hasCode(KIT_TELEMETRY_ERROR_CODES.TELEMETRY_DUPLICATE_EVENT)
 * ```
 * @see docs/reference/errors.md
 */
export const KIT_TELEMETRY_ERROR_CODES = {
  TELEMETRY_SERVICE_REQUIRED: 'TELEMETRY_SERVICE_REQUIRED',
  TELEMETRY_ENVIRONMENT_REQUIRED: 'TELEMETRY_ENVIRONMENT_REQUIRED',
  TELEMETRY_CONFIGURATION_INVALID: 'TELEMETRY_CONFIGURATION_INVALID',
  TELEMETRY_INVALID_TRANSPORT: 'TELEMETRY_INVALID_TRANSPORT',
  TELEMETRY_TRANSPORT_FAILED: 'TELEMETRY_TRANSPORT_FAILED',
  TELEMETRY_TRANSPORT_INIT_FAILED: 'TELEMETRY_TRANSPORT_INIT_FAILED',
  TELEMETRY_INVALID_EVENT_NAME: 'TELEMETRY_INVALID_EVENT_NAME',
  TELEMETRY_UNKNOWN_EVENT: 'TELEMETRY_UNKNOWN_EVENT',
  TELEMETRY_DUPLICATE_EVENT: 'TELEMETRY_DUPLICATE_EVENT',
  TELEMETRY_SCHEMA_VALIDATION_FAILED: 'TELEMETRY_SCHEMA_VALIDATION_FAILED',
  TELEMETRY_INVALID_NAMESPACE: 'TELEMETRY_INVALID_NAMESPACE',
  TELEMETRY_RESERVED_NAMESPACE: 'TELEMETRY_RESERVED_NAMESPACE',
  TELEMETRY_DUPLICATE_NAMESPACE: 'TELEMETRY_DUPLICATE_NAMESPACE',
  TELEMETRY_SESSION_ENDED: 'TELEMETRY_SESSION_ENDED',
  TELEMETRY_SESSION_INVALID: 'TELEMETRY_SESSION_INVALID',
  TELEMETRY_DUPLICATE_SCOPE: 'TELEMETRY_DUPLICATE_SCOPE',
  TELEMETRY_INVALID_SCOPE: 'TELEMETRY_INVALID_SCOPE',
  TELEMETRY_DUPLICATE_ACTOR: 'TELEMETRY_DUPLICATE_ACTOR',
  TELEMETRY_INVALID_ACTOR: 'TELEMETRY_INVALID_ACTOR',
  TELEMETRY_EMIT_FAILED: 'TELEMETRY_EMIT_FAILED',
  TELEMETRY_RUNTIME_NOT_INITIALIZED: 'TELEMETRY_RUNTIME_NOT_INITIALIZED',
} as const
Object.freeze(KIT_TELEMETRY_ERROR_CODES)

/** One of the codes in `KIT_TELEMETRY_ERROR_CODES`. */
export type KitTelemetryErrorCode = keyof typeof KIT_TELEMETRY_ERROR_CODES

/** Marks the errors of every copy of this package. `instanceof` recognizes only those of one copy. */
const BRAND = Symbol.for('mcp-gatekit.KitTelemetryError')

/**
 * An error of the telemetry library. `code` is for programs. `message` is for people: it names the option or the event, and
 * the fix.
 *
 * @example
 * ```ts
 * import { KitTelemetry, KitTelemetryError } from 'mcp-gatekit/telemetry'
 *
 * const telemetry = KitTelemetry.create().withService('billing').build()
 * try {
 *   telemetry.emit('billing.invoice.paid')
 * } catch (error) {
 *   if (!KitTelemetryError.is(error)) throw error
 *   if (error.hasCode('TELEMETRY_UNKNOWN_EVENT')) console.warn(error.message)
 * }
 * ```
 * @see docs/reference/errors.md
 */
export class KitTelemetryError extends Error {
  override readonly name = 'KitTelemetryError'
  /** The kind of error, for programs. */
  readonly code: KitTelemetryErrorCode
  /** Data for programs, such as the issues of a failed validation. Does not contain secrets. */
  declare readonly details?: Readonly<Record<string, unknown>>
  /** The heading that explains the error: `docs/reference/errors.md#…`. */
  readonly docs: string

  /**
   * Creates an error.
   * @param code the kind of error.
   * @param message the message for people.
   * @param options `cause` is the error that led to this one. `details` is data for programs, without secrets. `docs` is the
   * heading that explains the error, and defaults to the heading of `code` in `docs/reference/errors.md`.
   */
  constructor(
    code: KitTelemetryErrorCode,
    message: string,
    options: {
      readonly cause?: unknown
      readonly details?: Readonly<Record<string, unknown>>
      readonly docs?: string
    } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    if (options.details !== undefined) this.details = options.details
    this.docs = options.docs ?? `docs/reference/errors.md#${code.toLowerCase()}`
    Object.defineProperty(this, BRAND, { value: true })
  }

  /**
   * Returns `true` for a `KitTelemetryError`, including one of another copy of this package.
   * @param error any value, such as the one that a `catch` clause receives.
   */
  static is(error: unknown): error is KitTelemetryError {
    if (typeof error !== 'object' || error === null) return false
    try {
      return (error as { [BRAND]?: unknown })[BRAND] === true
    } catch {
      // A proxy may throw when a member is read.
      return false
    }
  }

  /**
   * Returns `true` if this error has the given code.
   * @param code one of `KIT_TELEMETRY_ERROR_CODES`.
   */
  hasCode(code: KitTelemetryErrorCode): boolean {
    return this.code === code
  }
}
