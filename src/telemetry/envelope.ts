import type { TelemetryLevel } from './levels.ts'

/** Who caused an event. */
export interface TelemetryActor {
  readonly type: string
  readonly id?: string
  readonly tags?: Readonly<Record<string, unknown>>
}

/** What an event belongs to, such as an organisation. */
export interface TelemetryScope {
  readonly type: string
  readonly id: string
  readonly tags?: Readonly<Record<string, unknown>>
}

/** An error in the form that travels: text only. */
export interface TelemetryErrorInfo {
  readonly name: string
  readonly message: string
  readonly code?: string
  /** The stack, with the stacks of its `cause` chain folded in. */
  readonly stack?: string
}

/** Where in the code an event came from. */
export interface TelemetrySource {
  readonly causer?: string
  readonly file?: string
  readonly line?: number
}

/**
 * What a transport receives: deeply frozen, made of JSON values only, already redacted,
 * and sharing no structure with what the caller passed. Absent members are absent.
 */
export interface TelemetryEnvelope {
  readonly name: string
  /** ISO 8601, UTC, milliseconds. */
  readonly time: string
  readonly level: TelemetryLevel
  readonly service: string
  readonly environment: string
  readonly version?: string
  readonly sessionId: string
  readonly actor?: TelemetryActor
  readonly scope?: TelemetryScope
  readonly attributes?: Readonly<Record<string, unknown>>
  readonly error?: TelemetryErrorInfo
  readonly source?: TelemetrySource
}
