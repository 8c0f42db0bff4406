import { quotedName } from '../base/options/describe-value.ts'
import { isInstalled } from '../base/peer-problem.ts'
import { addedTransport, type TelemetryTransportOptions } from './added-transport.ts'
import { checkOwnTransport, readAuditOptions, type TelemetryAuditOptions } from './audit/audit-options.ts'
import type { TelemetryConfig } from './config.ts'
import type { TelemetryLogger } from './delivery/reporter.ts'
import { type NamedOrigin, namedOrigin, type TelemetryTransport } from './delivery/transport.ts'
import { copyCommonAttributes } from './envelope/common-attributes.ts'
import type { TelemetryAttributesSource } from './envelope/envelope.ts'
import {
  copyRedactionPolicy,
  resolveRedactionPolicy,
  type TelemetryRedactionPolicy,
} from './envelope/redaction.ts'
import { type TelemetryType, type TelemetryTypeOptions, withType } from './events/actor-types.ts'
import type { TelemetryEventsDescriptor } from './events/event-registry.ts'
import type { TelemetryEventMap } from './events/schema.ts'
import {
  copyValidationOptions,
  resolveValidationOptions,
  type TelemetryValidationOptions,
} from './events/validation.ts'
import { KitTelemetryManager } from './manager.ts'
import { errorWithHelp, nonEmptyName, telemetryOptions } from './options.ts'
import {
  copySamplingPolicy,
  mergeSamplingPolicies,
  resolveSamplingPolicy,
  type TelemetrySamplingPolicy,
} from './session/sampling.ts'

const { text, invalidKind, unusableOption } = telemetryOptions

/** The members of the configuration that need no defaults, and what the others are made of. */
interface BuilderProps
  extends NamedOrigin,
    Pick<TelemetryConfig, 'transports' | 'logger' | 'audit' | 'attributes' | 'traceContext'> {
  readonly actors: ReadonlyMap<string, TelemetryType>
  readonly scopes: ReadonlyMap<string, TelemetryType>
  readonly events: readonly {
    readonly descriptor: TelemetryEventsDescriptor
    readonly validation: TelemetryValidationOptions
  }[]
  /** The full keys of all registries. */
  readonly keys: ReadonlySet<string>
  readonly sampling: TelemetrySamplingPolicy | undefined
  readonly redaction: TelemetryRedactionPolicy
  readonly validation: TelemetryValidationOptions
}

const INITIAL: BuilderProps = {
  actors: new Map(),
  scopes: new Map(),
  events: [],
  keys: new Set(),
  transports: [],
  sampling: undefined,
  redaction: {},
  validation: {},
}

/** `Known | Added`, or only `Added` while any string is allowed. */
type WithName<Known extends string, Added extends string> = string extends Known ? Added : Known | Added

/** The events of the previous registries, and those of a descriptor. */
type WithEvents<Known extends TelemetryEventMap, Descriptor> = Descriptor extends {
  readonly $Infer: { readonly registry: infer Registry extends TelemetryEventMap }
}
  ? string extends keyof Known
    ? Registry
    : Known & Registry
  : Known

/**
 * Configures telemetry: its actors, its events, and the transports that receive them. Every method checks its arguments,
 * returns a new builder, and does not change this one.
 *
 * @example
 * ```ts
 * import { KitTelemetry, KitTelemetryEvents, LoggerTransportAdapter } from 'mcp-gatekit/telemetry'
 * import { z } from 'zod'
 *
 * const billingEvents = KitTelemetryEvents.namespace('billing')
 *   .event('paid', z.object({ cents: z.number() }))
 *   .build()
 *
 * const telemetry = KitTelemetry.create()
 *   .withService('billing')
 *   .addActor('user')
 *   .addEvents(billingEvents)
 *   .addTransport(LoggerTransportAdapter.create({ logger: console }))
 *   .build()
 *
 * telemetry.emit('billing.paid', { actor: { type: 'user', id: 'u1' }, attributes: { cents: 1200 } })
 * ```
 * @see docs/guides/telemetry.md
 */
export class KitTelemetry<
  Actors extends string = string,
  Scopes extends string = string,
  Events extends TelemetryEventMap = TelemetryEventMap,
> {
  readonly #props: BuilderProps

  private constructor(props: BuilderProps) {
    this.#props = props
  }

  /** Creates a builder with the service `kit-app`, the environment `development`, and no transports. */
  static create(): KitTelemetry {
    return new KitTelemetry(INITIAL)
  }

  /**
   * Sets the name of the service that emits the events. Defaults to `kit-app`.
   * @param name a non-empty string.
   * @throws {KitTelemetryError} `TELEMETRY_SERVICE_REQUIRED` if `name` is empty or not a string.
   */
  withService(name: string): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({ service: nonEmptyName('service', name) })
  }

  /**
   * Sets the environment in which the service runs. Defaults to `development`.
   * @param environment a non-empty string, such as `production`.
   * @throws {KitTelemetryError} `TELEMETRY_ENVIRONMENT_REQUIRED` if `environment` is empty or not a string.
   */
  withEnvironment(environment: string): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({ environment: nonEmptyName('environment', environment) })
  }

  /**
   * Sets the version of the service. Events have no version by default.
   * @param version a non-empty string, such as `1.4.0`.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if `version` is empty or not a string.
   */
  withVersion(version: string): KitTelemetry<Actors, Scopes, Events> {
    text('the argument of withVersion()', version)
    return this.#with({ version })
  }

  /**
   * Registers an actor type. After the first one, events with an unregistered type are rejected.
   * @param key the name of the type, such as `user`.
   * @param options a description, and whether every event needs an actor of this type.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_ACTOR` if `key` is empty, contains spaces, or starts with `__`;
   * `TELEMETRY_DUPLICATE_ACTOR` if it is already registered; `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
   */
  addActor<const Key extends string>(
    key: Key,
    options: TelemetryTypeOptions = {},
  ): KitTelemetry<WithName<Actors, Key>, Scopes, Events> {
    return this.#with({ actors: withType('actor', this.#props.actors, key, options) })
  }

  /**
   * Registers a scope type. After the first one, events with an unregistered type are rejected.
   * @param key the name of the type, such as `organization`.
   * @param options a description, and whether every event needs a scope of this type.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_SCOPE` if `key` is empty, contains spaces, or starts with `__`;
   * `TELEMETRY_DUPLICATE_SCOPE` if it is already registered; `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
   */
  addScope<const Key extends string>(
    key: Key,
    options: TelemetryTypeOptions = {},
  ): KitTelemetry<Actors, WithName<Scopes, Key>, Events> {
    return this.#with({ scopes: withType('scope', this.#props.scopes, key, options) })
  }

  /**
   * Attaches a registry of typed events. After the first one, unregistered event names are rejected.
   * @param descriptor the result of `KitTelemetryEvents.namespace(…)….build()`.
   * @param options the validation options of this registry. Options that are not set are those of `withValidation`.
   * @throws {KitTelemetryError} `TELEMETRY_DUPLICATE_NAMESPACE` if the namespace is already attached;
   * `TELEMETRY_DUPLICATE_EVENT` if another namespace has one of its full keys; `TELEMETRY_CONFIGURATION_INVALID` if an
   * argument is invalid.
   */
  addEvents<const Descriptor extends AnyDescriptor>(
    descriptor: Descriptor,
    options: TelemetryValidationOptions = {},
  ): KitTelemetry<Actors, Scopes, WithEvents<Events, Descriptor>> {
    const registry = checkDescriptor(descriptor)
    if (this.#props.events.some((known) => known.descriptor.namespace === registry.namespace)) {
      throw errorWithHelp(
        'TELEMETRY_DUPLICATE_NAMESPACE',
        `namespace ${quotedName(registry.namespace)} is already attached. Put its events into one descriptor`,
      )
    }
    const keys = new Set(this.#props.keys)
    for (const key of registry.names.map(registry.get.key)) {
      if (keys.has(key)) {
        throw errorWithHelp(
          'TELEMETRY_DUPLICATE_EVENT',
          `another namespace already has the event ${quotedName(key)}. Rename one of them`,
        )
      }
      keys.add(key)
    }
    const validation = copyValidationOptions('addEvents', options)
    return this.#with({ events: [...this.#props.events, { descriptor: registry, validation }], keys })
  }

  /**
   * Adds a transport. Every transport receives every event.
   * @param adapter one of the transports of this package, or your own.
   * @param options the maximum number of pending events, their maximum size, and the minimum level.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_TRANSPORT` if `adapter` does not implement `TelemetryTransport`;
   * `TELEMETRY_CONFIGURATION_INVALID` if a limit is invalid, or if `adapter` was also passed to `withAudit`.
   */
  addTransport(
    adapter: TelemetryTransport,
    options: TelemetryTransportOptions = {},
  ): KitTelemetry<Actors, Scopes, Events> {
    const transports = [...this.#props.transports, addedTransport(adapter, options)]
    checkOwnTransport(this.#props.audit, transports)
    return this.#with({ transports })
  }

  /**
   * Adds attributes to every event, below those of its session and its own. They are redacted, and validated with the event: they
   * satisfy required members, and a schema need not declare them. Several calls merge.
   * @param attributes an object, or a function that is called once for each event that is kept or validated. If it throws or
   * does not return an object, the event is delivered without its attributes, and the logger gets one report.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if `attributes` is neither an object nor a function.
   *
   * @example
   * ```ts
   * import { KitTelemetry } from 'mcp-gatekit/telemetry'
   *
   * KitTelemetry.create().withAttributes({ region: 'eu' }).withAttributes(() => ({ 'queue.depth': 3 }))
   * ```
   */
  withAttributes(attributes: TelemetryAttributesSource): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({
      attributes: Object.freeze([...(this.#props.attributes ?? []), copyCommonAttributes(attributes)]),
    })
  }

  /**
   * Adds the ids of the active span of `@opentelemetry/api` to every event, as `trace`. The lines of `LoggerTransportAdapter` have
   * them as `trace_id`, `span_id`, and `trace_flags`.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if `@opentelemetry/api` is not installed.
   */
  withTraceContext(): KitTelemetry<Actors, Scopes, Events> {
    // A bundle contains all packages.
    if (isInstalled('jose') && !isInstalled('@opentelemetry/api'))
      throw unusableOption(
        'withTraceContext()',
        'needs @opentelemetry/api, which is not installed',
        'Run npm install @opentelemetry/api',
      )
    return this.#with({ traceContext: true })
  }

  /**
   * Sets which events are kept. A further call replaces only the members that it names. `undefined` restores the default.
   * Without a call, one `info` event in ten and one `debug` event in a hundred are kept, and the first event that is dropped is
   * reported to the logger.
   * @param policy rates by level, patterns of event names, and conditions under which whole sessions are kept.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the policy is invalid.
   */
  withSampling(policy: TelemetrySamplingPolicy): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({ sampling: mergeSamplingPolicies(this.#props.sampling, copySamplingPolicy(policy)) })
  }

  /**
   * Sets which values are removed, hashed, replaced, or cut before a transport receives them. A further call replaces only
   * the members that it names. `undefined` restores the default.
   * @param policy keys, patterns of secrets, and the maximum length of strings.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the policy is invalid.
   */
  withRedaction(policy: TelemetryRedactionPolicy): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({ redaction: { ...this.#props.redaction, ...copyRedactionPolicy(policy) } })
  }

  /**
   * Writes the events with some names to an audit log, which shows later whether lines were changed or removed. These events
   * are not sampled on their way to `transport`, and have a sequence number and a MAC there. The transports of `addTransport`
   * receive them by the usual rules. A further call replaces all options.
   * @param options the transport of the audit log, the names of its events, and the secret of its MACs.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is missing or invalid, or if `transport` was
   * also passed to `addTransport`.
   *
   * @example
   * ```ts
   * import { auditFile, KitTelemetry } from 'mcp-gatekit/telemetry'
   *
   * const secret = process.env.AUDIT_SECRET ?? ''
   * KitTelemetry.create().withAudit({ transport: auditFile('audit.log'), names: ['kit.mcp.auth.*', 'kit.mcp.tool.*'], secret })
   * ```
   * @see docs/guides/audit.md
   */
  withAudit(options: TelemetryAuditOptions): KitTelemetry<Actors, Scopes, Events> {
    const audit = readAuditOptions(options)
    checkOwnTransport(audit, this.#props.transports)
    return this.#with({ audit })
  }

  /**
   * Sets when events are validated. These are also the defaults of every registry. A further call replaces only the
   * members that it names. `undefined` restores the default.
   * @param options the mode, and whether undeclared attributes are rejected.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
   */
  withValidation(options: TelemetryValidationOptions): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({
      validation: { ...this.#props.validation, ...copyValidationOptions('withValidation', options) },
    })
  }

  /**
   * Sets the logger that receives the problems of the library itself, such as failed transports and dropped events. By
   * default, each kind of problem is written once to `console.error`.
   * @param logger `console`, pino, or a similar logger. `false` turns all reports off.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if `logger` is not `false`, and does not have the methods
   * `error` and `warn`.
   */
  withLogger(logger: TelemetryLogger | false): KitTelemetry<Actors, Scopes, Events> {
    if (logger !== false && (typeof logger?.error !== 'function' || typeof logger.warn !== 'function')) {
      throw invalidKind(
        'the argument of withLogger()',
        'must be an object with the methods error and warn, or false',
        logger,
      )
    }
    return this.#with({ logger })
  }

  /**
   * Returns the frozen configuration without building a manager.
   * @returns the configuration. It contains the original adapters, schemas, and logger.
   */
  buildConfig(): TelemetryConfig {
    const { keys: _, service, environment, version, ...props } = this.#props
    const { actors, scopes, events, sampling, redaction, ...others } = props
    const validation = resolveValidationOptions(others.validation)
    const config: TelemetryConfig = {
      ...others,
      service: service ?? 'kit-app',
      environment: environment ?? 'development',
      ...(version !== undefined && { version }),
      actors: Object.freeze(Object.fromEntries(actors)),
      scopes: Object.freeze(Object.fromEntries(scopes)),
      events: Object.freeze(
        events.map((registry) =>
          Object.freeze({
            descriptor: registry.descriptor,
            validation: resolveValidationOptions(registry.validation, validation),
          }),
        ),
      ),
      transports: Object.freeze([...others.transports]),
      sampling: resolveSamplingPolicy(sampling),
      redaction: resolveRedactionPolicy(redaction),
      validation,
    }
    const named = { service, environment, version }
    return Object.freeze(Object.defineProperty(config, namedOrigin, { value: named }))
  }

  /**
   * Builds a manager, and starts its transports.
   * @returns a new manager for each call.
   */
  build(): KitTelemetryManager<Actors, Scopes, Events> {
    return KitTelemetryManager.of(this.buildConfig())
  }

  #with<A extends string, S extends string, E extends TelemetryEventMap>(
    changed: Partial<BuilderProps>,
  ): KitTelemetry<A, S, E> {
    return new KitTelemetry<A, S, E>({ ...this.#props, ...changed })
  }
}

/** A descriptor of any namespace with any events. */
type AnyDescriptor = TelemetryEventsDescriptor<any, any>

function checkDescriptor(descriptor: AnyDescriptor): TelemetryEventsDescriptor {
  const given: Partial<TelemetryEventsDescriptor> | null | undefined = descriptor
  if (
    typeof given?.namespace !== 'string' ||
    !Array.isArray(given.names) ||
    typeof given.get?.key !== 'function' ||
    typeof given.get.schema !== 'function'
  ) {
    throw invalidKind(
      'the argument of addEvents()',
      'must be the return value of KitTelemetryEvents.namespace(…)….build()',
      descriptor,
    )
  }
  return descriptor
}
