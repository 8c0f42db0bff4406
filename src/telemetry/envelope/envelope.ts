import type { TelemetryLevel } from '../levels.ts'

/** Who caused an event. */
export interface TelemetryActor {
  /** The kind of actor, such as `user`; see `addActor`. */
  readonly type: string
  /** Which one, such as the id of a user. */
  readonly id?: string
  /** What else is known of it. */
  readonly tags?: Readonly<Record<string, unknown>>
}

/** What an event belongs to, such as an organisation. */
export interface TelemetryScope {
  /** The kind of scope, such as `organization`; see `addScope`. */
  readonly type: string
  /** Which one, such as the id of an organisation. */
  readonly id: string
  /** What else is known of it. */
  readonly tags?: Readonly<Record<string, unknown>>
}

/** An error in the form that travels: text only. */
export interface TelemetryErrorInfo {
  /** The kind, such as `TypeError`. */
  readonly name: string
  /** What it says, for people. */
  readonly message: string
  /** What it says, for programs, such as `ECONNREFUSED`. */
  readonly code?: string
  /** The stack, with the stacks of its `cause` chain folded in. */
  readonly stack?: string
}

/** Where in the code an event came from. */
export interface TelemetrySource {
  /** What caused it, such as a function or a job. */
  readonly causer?: string
  /** The source file. */
  readonly file?: string
  /** The line in that file. */
  readonly line?: number
}

/**
 * What a transport receives: deeply frozen, made of JSON values only, already redacted,
 * and sharing no structure with what the caller passed. Absent members are absent.
 */
export interface TelemetryEnvelope {
  /** The full key, such as `billing.invoice.paid`. */
  readonly name: string
  /** ISO 8601, UTC, milliseconds. */
  readonly time: string
  /** How severe it is. */
  readonly level: TelemetryLevel
  /** As given to `withService`. */
  readonly service: string
  /** As given to `withEnvironment`. */
  readonly environment: string
  /** As given to `withVersion`. */
  readonly version?: string
  /** Which session it belongs to. */
  readonly sessionId: string
  /** Who caused it. */
  readonly actor?: TelemetryActor
  /** What it belongs to. */
  readonly scope?: TelemetryScope
  /** What there is to say of it, by key. */
  readonly attributes?: Readonly<Record<string, unknown>>
  /** What went wrong. */
  readonly error?: TelemetryErrorInfo
  /** Where in the code it came from. */
  readonly source?: TelemetrySource
}

/** A map of attributes or tags, by key. Of `any`, because with `unknown` no value of an interface type could be passed. */
export type TelemetryAttributes = Readonly<Record<string, any>>

/** Allows `undefined` for an absent member. */
type Loosely<T> = { readonly [Member in keyof T]: T[Member] | undefined }

/** What an event may be emitted with. Every member is optional; `undefined` means absent. */
export interface TelemetryEmitInput<
  Attributes = TelemetryAttributes,
  Actors extends string = string,
  Scopes extends string = string,
> {
  /** Default `info`. */
  readonly level?: TelemetryLevel | undefined
  /** RFC 3339 date-time. Default, also when it cannot be read: now. */
  readonly time?: string | undefined
  /** Default the session's, else a fresh one. */
  readonly sessionId?: string | undefined
  /** Replaces the session's actor whole. */
  readonly actor?:
    | ({ readonly type: Actors } & Loosely<{ readonly id?: string; readonly tags?: TelemetryAttributes }>)
    | undefined
  /** Replaces the session's scope whole. */
  readonly scope?:
    | ({ readonly type: Scopes; readonly id: string } & Loosely<{ readonly tags?: TelemetryAttributes }>)
    | undefined
  /** Laid over the session's. A function is called only when its result is needed. */
  readonly attributes?: Attributes | (() => Attributes | undefined) | undefined
  /** An `Error`, or its parts. */
  readonly error?:
    | Error
    | ({ readonly name: string; readonly message: string } & Loosely<{
        readonly code?: string
        readonly stack?: string
      }>)
    | undefined
  /** Where in the code it comes from. Default: absent. */
  readonly source?: Loosely<TelemetrySource> | undefined
}
