import type { AuditKey } from './audit/audit-line.ts'
import type { TelemetryLogger } from './delivery/reporter.ts'
import type { TelemetryTransport } from './delivery/transport.ts'
import type { TelemetryAttributesSource } from './envelope/envelope.ts'
import type { TelemetryRedactionPattern } from './envelope/secret-patterns.ts'
import type { TelemetryEventsDescriptor } from './events/event-registry.ts'
import type { TelemetryLevel } from './levels.ts'

/** The frozen configuration of a manager, with every default filled in. `KitTelemetry.buildConfig()` returns it. */
export interface TelemetryConfig {
  /** The name passed to `withService`. */
  readonly service: string
  /** The name passed to `withEnvironment`. */
  readonly environment: string
  /** The version passed to `withVersion`. */
  readonly version?: string
  /** The actor types by name. */
  readonly actors: Readonly<Record<string, { readonly description?: string; readonly required: boolean }>>
  /** The scope types by name. */
  readonly scopes: Readonly<Record<string, { readonly description?: string; readonly required: boolean }>>
  /** The registries, each with its validation options. */
  readonly events: readonly {
    readonly descriptor: TelemetryEventsDescriptor
    readonly validation: { readonly mode: 'development' | 'always' | 'none'; readonly strict: boolean }
  }[]
  /** The transports in the order in which they were added. */
  readonly transports: readonly {
    readonly type: string
    readonly transport: TelemetryTransport
    readonly maxPending: number
    readonly maxPendingBytes: number
    readonly minLevel?: TelemetryLevel
  }[]
  /** The attributes of every event, and functions that return them. It is missing without `withAttributes`. */
  readonly attributes?: readonly TelemetryAttributesSource[]
  /** `true` if events have the ids of the active span. It is missing without `withTraceContext`. */
  readonly traceContext?: true
  /** The sampling policy. */
  readonly sampling: {
    readonly debugRate: number
    readonly infoRate: number
    readonly warnRate: number
    readonly errorRate: number
    readonly always: readonly string[]
    readonly never: readonly string[]
    readonly unit: 'event' | 'session'
    readonly keep?: {
      readonly level?: TelemetryLevel
      readonly slowerThanMs?: number
      readonly names: readonly string[]
      readonly maxBuffered: number
    }
  }
  /** The redaction policy. `hashSecret` is not enumerable, so that it is not printed or serialized. */
  readonly redaction: {
    readonly denylistKeys: readonly string[]
    readonly hashKeys: readonly string[]
    readonly hashSecret: string | undefined
    readonly patterns: readonly TelemetryRedactionPattern[]
    readonly maxStringLength: number
  }
  /** The options of `withAudit`, without the secret. */
  readonly audit?: {
    readonly transport: TelemetryTransport
    readonly names: readonly string[]
    readonly maxPending: number
    readonly maxPendingBytes: number
    /** @internal */
    readonly key: AuditKey
  }
  /** The validation options of registries without their own. */
  readonly validation: { readonly mode: 'development' | 'always' | 'none'; readonly strict: boolean }
  /** The value passed to `withLogger`. If it is missing, problems are written to the console. */
  readonly logger?: TelemetryLogger | false
}
