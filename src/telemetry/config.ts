import type { TelemetryLogger } from './delivery/reporter.ts'
import type { TelemetryTransportEntry } from './delivery/transport.ts'
import type { ResolvedRedactionPolicy } from './envelope/redaction.ts'
import type { TelemetryType } from './events/actor-types.ts'
import type { TelemetryEventsDescriptor } from './events/event-registry.ts'
import type { ResolvedValidationOptions } from './events/validation.ts'
import type { ResolvedSamplingPolicy } from './session/sampling.ts'
/** Everything a manager is built from, every default filled in; frozen. */
export interface TelemetryConfig {
  /** As given to `withService`. */
  readonly service: string
  /** As given to `withEnvironment`. */
  readonly environment: string
  /** As given to `withVersion`. */
  readonly version?: string
  /** The actor types, by name. */
  readonly actors: Readonly<Record<string, TelemetryType>>
  /** The scope types, by name. */
  readonly scopes: Readonly<Record<string, TelemetryType>>
  /** The registries, each with how its schemas are applied. */
  readonly events: readonly {
    readonly descriptor: TelemetryEventsDescriptor
    readonly validation: ResolvedValidationOptions
  }[]
  /** In the order they were added. */
  readonly transports: readonly TelemetryTransportEntry[]
  /** Which events are kept. */
  readonly sampling: ResolvedSamplingPolicy
  /** What is taken out of events. */
  readonly redaction: ResolvedRedactionPolicy
  /** How events are checked where their registry does not say. */
  readonly validation: ResolvedValidationOptions
  /** As given to `withLogger`. Absent means the console. */
  readonly logger?: TelemetryLogger | false
}
