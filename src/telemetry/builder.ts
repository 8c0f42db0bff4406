import { describeValue, quotedName } from '../options/describe-value.ts'
import type { TelemetryConfig } from './config.ts'
import type { TelemetryLogger } from './delivery/reporter.ts'
import type { TelemetryTransport, TelemetryTransportEntry } from './delivery/transport.ts'
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
import { configurationError, telemetryOptions } from './options.ts'
import {
  copySamplingPolicy,
  resolveSamplingPolicy,
  type TelemetrySamplingPolicy,
} from './session/sampling.ts'

const { checkText, checkWholeNumber, copyOptions, invalidKind } = telemetryOptions

const DEFAULT_MAX_PENDING = 10_000

/** How a transport is used. */
export interface TelemetryTransportOptions {
  /** How many of its events may be outstanding, a whole number from 1. Default the adapter's own `maxPending`, else 10 000. */
  readonly maxPending?: number | undefined
}

interface BuilderProps {
  readonly service: string
  readonly environment: string
  readonly version: string | undefined
  readonly actors: ReadonlyMap<string, TelemetryType>
  readonly scopes: ReadonlyMap<string, TelemetryType>
  readonly events: readonly {
    readonly descriptor: TelemetryEventsDescriptor
    readonly validation: TelemetryValidationOptions
  }[]
  /** Every full key so far. */
  readonly keys: ReadonlySet<string>
  readonly transports: readonly TelemetryTransportEntry[]
  readonly sampling: TelemetrySamplingPolicy
  readonly redaction: TelemetryRedactionPolicy
  readonly validation: TelemetryValidationOptions
  readonly logger: TelemetryLogger | false | undefined
}

const INITIAL: BuilderProps = {
  service: 'kit-app',
  environment: 'development',
  version: undefined,
  actors: new Map(),
  scopes: new Map(),
  events: [],
  keys: new Set(),
  transports: [],
  sampling: {},
  redaction: {},
  validation: {},
  logger: undefined,
}

/** `Known | Added`, or `Added` alone while nothing is known and any string would do. */
type WithName<Known extends string, Added extends string> = string extends Known ? Added : Known | Added

/** The registry of a descriptor, joined with those before. */
type WithEvents<Known extends TelemetryEventMap, Descriptor> = Descriptor extends {
  readonly $Infer: { readonly registry: infer Registry extends TelemetryEventMap }
}
  ? string extends keyof Known
    ? Registry
    : Known & Registry
  : Known

/**
 * Declares a telemetry: who acts, what happens, and where events go. Every method returns a new builder and leaves
 * this one as it is; every argument is checked by the call that takes it.
 *
 * @example
 * const telemetry = KitTelemetry.create()
 *   .withService('billing')
 *   .addActor('user')
 *   .addEvents(billingEvents)
 *   .addTransport(LoggerTransportAdapter.create({ logger: console }))
 *   .build()
 * telemetry.emit('billing.invoice.paid', { actor: { type: 'user', id: 'u1' }, attributes: { cents: 1200 } })
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

  /** A builder with the defaults: service `kit-app`, environment `development`, no transports. */
  static create(): KitTelemetry {
    return new KitTelemetry(INITIAL)
  }

  /** Names what emits. Default `kit-app`. @throws {KitTelemetryError} `TELEMETRY_SERVICE_REQUIRED` when `name` is empty or no string */
  withService(name: string): KitTelemetry<Actors, Scopes, Events> {
    if (typeof name !== 'string' || name.trim() === '') {
      throw configurationError(
        'TELEMETRY_SERVICE_REQUIRED',
        `the argument of withService() must be the name of the service; received ${describeValue(name)}`,
      )
    }
    return this.#with({ service: name })
  }

  /**
   * Names where it runs. Default `development`.
   * @throws {KitTelemetryError} `TELEMETRY_ENVIRONMENT_REQUIRED` when it is empty or no string
   */
  withEnvironment(environment: string): KitTelemetry<Actors, Scopes, Events> {
    if (typeof environment !== 'string' || environment.trim() === '') {
      throw configurationError(
        'TELEMETRY_ENVIRONMENT_REQUIRED',
        `the argument of withEnvironment() must be the name of the environment; received ${describeValue(environment)}`,
      )
    }
    return this.#with({ environment })
  }

  /**
   * Names the version of the service. Default none.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` when `version` is empty or no string
   */
  withVersion(version: string): KitTelemetry<Actors, Scopes, Events> {
    checkText('the argument of withVersion()', version)
    return this.#with({ version })
  }

  /**
   * Registers an actor type. Once there is one, no other type may be used.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_ACTOR` when `key` is empty, has spaces or starts with `__`;
   * `TELEMETRY_DUPLICATE_ACTOR`; `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be
   */
  addActor<const Key extends string>(
    key: Key,
    options: TelemetryTypeOptions = {},
  ): KitTelemetry<WithName<Actors, Key>, Scopes, Events> {
    return this.#with({ actors: withType('actor', this.#props.actors, key, options) })
  }

  /**
   * Registers a scope type. Once there is one, no other type may be used.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_SCOPE`, `TELEMETRY_DUPLICATE_SCOPE`, `TELEMETRY_CONFIGURATION_INVALID`,
   * as `addActor` does
   */
  addScope<const Key extends string>(
    key: Key,
    options: TelemetryTypeOptions = {},
  ): KitTelemetry<Actors, WithName<Scopes, Key>, Events> {
    return this.#with({ scopes: withType('scope', this.#props.scopes, key, options) })
  }

  /**
   * Attaches a registry. Once there is one, every other event name is an error.
   * @param options for this registry's schemas; what it leaves open is taken from `withValidation`
   * @throws {KitTelemetryError} `TELEMETRY_DUPLICATE_NAMESPACE`; `TELEMETRY_DUPLICATE_EVENT` when another namespace has
   * one of its full keys; `TELEMETRY_CONFIGURATION_INVALID`
   */
  addEvents<const Descriptor extends AnyDescriptor>(
    descriptor: Descriptor,
    options: TelemetryValidationOptions = {},
  ): KitTelemetry<Actors, Scopes, WithEvents<Events, Descriptor>> {
    const registry = checkDescriptor(descriptor)
    if (this.#props.events.some((known) => known.descriptor.namespace === registry.namespace)) {
      throw configurationError(
        'TELEMETRY_DUPLICATE_NAMESPACE',
        `namespace ${quotedName(registry.namespace)} is already attached. Put its events into one descriptor`,
      )
    }
    const keys = new Set(this.#props.keys)
    for (const key of registry.names.map(registry.get.key)) {
      if (keys.has(key)) {
        throw configurationError(
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
   * Adds a transport; every event goes to all of them.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_TRANSPORT` when `adapter` has no `type` or no `handle`, or a member that
   * is no function where one belongs; `TELEMETRY_CONFIGURATION_INVALID` for a `maxPending` that cannot be
   */
  addTransport(
    adapter: TelemetryTransport,
    options: TelemetryTransportOptions = {},
  ): KitTelemetry<Actors, Scopes, Events> {
    checkTransport(adapter)
    const copy = copyOptions<TelemetryTransportOptions>('addTransport', options, {
      maxPending: checkMaxPending,
    })
    if (adapter.maxPending !== undefined)
      checkMaxPending(
        `addTransport(), maxPending of transport ${quotedName(adapter.type)},`,
        adapter.maxPending,
      )
    const maxPending = copy.maxPending ?? adapter.maxPending ?? DEFAULT_MAX_PENDING
    return this.#with({
      transports: [
        ...this.#props.transports,
        Object.freeze({ type: adapter.type, transport: adapter, maxPending }),
      ],
    })
  }

  /**
   * Which events are kept. Called again, it replaces the members it names (`undefined` by the default).
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID`
   */
  withSampling(policy: TelemetrySamplingPolicy): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({ sampling: { ...this.#props.sampling, ...copySamplingPolicy(policy) } })
  }

  /**
   * What is removed, hashed and cut before any transport sees it. Called again, it replaces the members it names
   * (`undefined` by the default).
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID`
   */
  withRedaction(policy: TelemetryRedactionPolicy): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({ redaction: { ...this.#props.redaction, ...copyRedactionPolicy(policy) } })
  }

  /**
   * When events are checked; also the default of every registry. Called again, it replaces the members it names
   * (`undefined` by the default).
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID`
   */
  withValidation(options: TelemetryValidationOptions): KitTelemetry<Actors, Scopes, Events> {
    return this.#with({
      validation: { ...this.#props.validation, ...copyValidationOptions('withValidation', options) },
    })
  }

  /**
   * Sets the logger that receives the problems of the library itself: failed events and transports, and dropped events.
   * Without a call, each kind of problem is written once to `console.error`. `false` turns this off.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if it is not `false`, and has no `error` or no `warn` method
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

  /** The configuration alone, frozen. Adapters, schemas and the logger are in it as they were given. */
  buildConfig(): TelemetryConfig {
    const { service, environment, version, actors, scopes, events, transports, sampling, redaction, logger } =
      this.#props
    const validation = resolveValidationOptions(this.#props.validation)
    return Object.freeze({
      service,
      environment,
      ...(version === undefined ? {} : { version }),
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
      transports: Object.freeze([...transports]),
      sampling: resolveSamplingPolicy(sampling),
      redaction: resolveRedactionPolicy(redaction),
      validation,
      ...(logger === undefined ? {} : { logger }),
    })
  }

  /** The manager, whose transports start at once. Every call makes another one. */
  build(): KitTelemetryManager<Actors, Scopes, Events> {
    return KitTelemetryManager.of(this.buildConfig())
  }

  #with<A extends string, S extends string, E extends TelemetryEventMap>(
    changed: Partial<BuilderProps>,
  ): KitTelemetry<A, S, E> {
    return new KitTelemetry<A, S, E>({ ...this.#props, ...changed })
  }
}

/** A descriptor of any namespace and events. */
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
      'must be what KitTelemetryEvents.namespace(…)….build() returns',
      descriptor,
    )
  }
  return descriptor
}

function checkTransport(adapter: TelemetryTransport): void {
  const given: Partial<TelemetryTransport> | null | undefined = adapter
  if (typeof given?.type !== 'string' || given.type === '' || typeof given.handle !== 'function') {
    throw configurationError(
      'TELEMETRY_INVALID_TRANSPORT',
      `the adapter of addTransport() must have a string type and a function handle; received ${describeValue(adapter)}`,
    )
  }
  for (const method of ['init', 'flush', 'shutdown'] as const) {
    if (given[method] !== undefined && typeof given[method] !== 'function') {
      throw configurationError(
        'TELEMETRY_INVALID_TRANSPORT',
        `${method} of transport ${quotedName(given.type)} must be a function if it is set; received ${describeValue(given[method])}`,
      )
    }
  }
}

function checkMaxPending(option: string, value: unknown): void {
  checkWholeNumber(option, value, 1, Number.MAX_SAFE_INTEGER)
}
