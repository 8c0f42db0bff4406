import type { TelemetryLevel } from '../levels.ts'

/** The user, service, or job that caused an event. */
export interface TelemetryActor {
  /** The type of the actor, such as `user`; see `addActor`. */
  readonly type: string
  /** The id of the actor, such as a user id. */
  readonly id?: string
  /** Further data. */
  readonly tags?: Readonly<Record<string, unknown>>
}

/** The organization, project, or other unit that an event belongs to. */
export interface TelemetryScope {
  /** The type of the scope, such as `organization`; see `addScope`. */
  readonly type: string
  /** The id of the scope, such as an organization id. */
  readonly id: string
  /** Further data. */
  readonly tags?: Readonly<Record<string, unknown>>
}

/** An error as strings. */
export interface TelemetryErrorInfo {
  /** The name of the error, such as `TypeError`. */
  readonly name: string
  /** The message, for people. */
  readonly message: string
  /** The code, for programs, such as `ECONNREFUSED`. */
  readonly code?: string
  /** The stack, including the stacks of its `cause` chain. */
  readonly stack?: string
  /** The other own members of the error that are strings, numbers, or booleans, at most 20. */
  readonly attributes?: Readonly<Record<string, unknown>>
}

/** The place in the code that emitted an event. */
export interface TelemetrySource {
  /** The name of the function or job. */
  readonly causer?: string
  /** The source file. */
  readonly file?: string
  /** The line in that file. */
  readonly line?: number
}

/** The span of `@opentelemetry/api` that was active when an event was emitted. */
export interface TelemetryTrace {
  /** The id of the trace, 32 hexadecimal digits. */
  readonly traceId: string
  /** The id of the span, 16 hexadecimal digits. */
  readonly spanId: string
  /** The trace flags of W3C Trace Context, such as 1 for a sampled span. */
  readonly flags: number
}

/**
 * An event as transports receive it. It is deeply frozen and redacted, consists only of JSON values, and shares no objects
 * with the input. Members without a value are missing, not `undefined`.
 */
export interface TelemetryEnvelope {
  /** The full key, such as `billing.invoice.paid`. */
  readonly name: string
  /** The time of the event in ISO 8601, UTC, with milliseconds. */
  readonly time: string
  /** The severity. */
  readonly level: TelemetryLevel
  /** The name passed to `withService`. */
  readonly service: string
  /** The name passed to `withEnvironment`. */
  readonly environment: string
  /** The version passed to `withVersion`. */
  readonly version?: string
  /** The id of the session. */
  readonly sessionId: string
  /** The actor that caused the event. */
  readonly actor?: TelemetryActor
  /** The scope that the event belongs to. */
  readonly scope?: TelemetryScope
  /** The attributes of the event. */
  readonly attributes?: Readonly<Record<string, unknown>>
  /** The error, if the event is about one. */
  readonly error?: TelemetryErrorInfo
  /** The place in the code that emitted the event. */
  readonly source?: TelemetrySource
  /** The active span, with `withTraceContext()`. */
  readonly trace?: TelemetryTrace
}

/** Attributes or tags by key. The values are `any`, because `unknown` does not accept a value of an interface type. */
export type TelemetryAttributes = Readonly<Record<string, any>>

/** Attributes of every event, or a function that returns those of one event. */
export type TelemetryAttributesSource = TelemetryAttributes | (() => TelemetryAttributes | undefined)

/** An id, which becomes a string. An object must have a `toString` of its own, such as an `ObjectId`. */
export type TelemetryId = string | number | bigint | object

/** Allows `undefined` for missing members. */
type Loosely<T> = { readonly [Member in keyof T]: T[Member] | undefined }

/** The input of `emit`. Every member is optional, and may be `undefined`. */
export interface TelemetryEmitInput<
  Attributes = TelemetryAttributes,
  Actors extends string = string,
  Scopes extends string = string,
> {
  /** The severity. Defaults to `info`. */
  readonly level?: TelemetryLevel | undefined
  /** The time of the event as a `Date` or an RFC 3339 date-time. Defaults to now, also if the value is invalid. */
  readonly time?: string | Date | undefined
  /** The id of the session. Defaults to that of the current session, or to a new id outside of a session. */
  readonly sessionId?: TelemetryId | undefined
  /** The actor. Replaces the actor of the session. */
  readonly actor?:
    | ({ readonly type: Actors } & Loosely<{
        readonly id?: TelemetryId
        readonly tags?: TelemetryAttributes
      }>)
    | undefined
  /** The scope. Replaces the scope of the session. */
  readonly scope?:
    | ({ readonly type: Scopes; readonly id: TelemetryId } & Loosely<{ readonly tags?: TelemetryAttributes }>)
    | undefined
  /** The attributes. They are merged over those of the session. A function is called only if its result is needed. */
  readonly attributes?: Attributes | (() => Attributes | undefined) | undefined
  /** The error: what was thrown, of any type. Defaults to none, also for `null`. */
  readonly error?: unknown
  /** The place in the code. Defaults to none. */
  readonly source?: Loosely<TelemetrySource> | undefined
}

/** The input of `emit` for an event whose schema requires attributes. */
export interface TelemetryRequiredInput<
  Attributes = TelemetryAttributes,
  Actors extends string = string,
  Scopes extends string = string,
> extends TelemetryEmitInput<Attributes, Actors, Scopes> {
  /** The attributes. They are merged over those of the session. A function is called only if its result is needed. */
  readonly attributes: Attributes | (() => Attributes)
}
