/** Every code a `KitTelemetryError` can carry, each mapped to itself. */
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

/** One of the 21 codes of `KIT_TELEMETRY_ERROR_CODES`. */
export type KitTelemetryErrorCode = keyof typeof KIT_TELEMETRY_ERROR_CODES

/** Marks errors of this package across copies of it, where `instanceof` would not hold. */
const BRAND = Symbol.for('mcp-gatekit.KitTelemetryError')

/** What `KitTelemetryError` takes beside code and message. */
export interface KitTelemetryErrorOptions {
  /** The error that led to this one. */
  readonly cause?: unknown
  /** Facts for programs, such as the issues of a failed validation. Never holds a secret. */
  readonly details?: Readonly<Record<string, unknown>>
  /** Default: the heading of the code in `docs/reference/errors.md`. */
  readonly docs?: string
}

/**
 * Every error of the telemetry library. `code` says what happened, for programs;
 * `message` says which option or event is meant and how to hint it, for people.
 */
export class KitTelemetryError extends Error {
  override readonly name = 'KitTelemetryError'
  /** What happened, for programs. */
  readonly code: KitTelemetryErrorCode
  /** Facts for programs, such as the issues of a failed validation. Never holds a secret. */
  declare readonly details?: Readonly<Record<string, unknown>>
  /** Where the documentation of this package tells more: `docs/reference/errors.md#…`. */
  readonly docs: string

  constructor(code: KitTelemetryErrorCode, message: string, options: KitTelemetryErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    if (options.details !== undefined) this.details = options.details
    this.docs = options.docs ?? `docs/reference/errors.md#${code.toLowerCase()}`
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Whether `error` is a `KitTelemetryError`, also one thrown by another copy of this package. */
  static is(error: unknown): error is KitTelemetryError {
    if (typeof error !== 'object' || error === null) return false
    try {
      return (error as { [BRAND]?: unknown })[BRAND] === true
    } catch {
      // What was thrown may be a proxy that throws when it is looked at.
      return false
    }
  }

  /** Whether this error carries `code`. */
  hasCode(code: KitTelemetryErrorCode): boolean {
    return this.code === code
  }
}
