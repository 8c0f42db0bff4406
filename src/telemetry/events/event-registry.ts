import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describeName, quotedName } from '../../options/describe-value.ts'
import { didYouMean } from '../../options/nearest-name.ts'
import { KitTelemetryError } from '../errors.ts'
import { configurationError, telemetryOptions } from '../options.ts'
import { catalogueOf, type TelemetryEventCatalogue } from './catalogue.ts'
import { checkEventName } from './event-name.ts'
import type { TelemetryEventMap, TelemetryEventSchema } from './schema.ts'

const { invalidKind } = telemetryOptions

type Prefixed<Prefix extends string, Events> = {
  readonly [Name in keyof Events & string as `${Prefix}.${Name}`]: Events[Name]
}

type Inputs<Events> = {
  readonly [Name in keyof Events]: Events[Name] extends StandardSchemaV1
    ? StandardSchemaV1.InferInput<Events[Name]>
    : never
}

type Flat<T> = { readonly [Member in keyof T]: T[Member] }

// biome-ignore lint/complexity/noBannedTypes: no event yet
type NoEvents = {}

/**
 * The registry of typed events. Every step returns a new value; earlier ones stay usable.
 *
 * @example
 * const billing = KitTelemetryEvents.namespace('billing')
 *   .event('opened', z.object({ plan: z.string() }))
 *   .group('invoice', (invoice) => invoice.event('paid', z.object({ cents: z.number() })))
 *   .build()
 * billing.get.key('invoice.paid') // 'billing.invoice.paid'
 */
export const KitTelemetryEvents: {
  /**
   * Starts a namespace, the first part of the full key of its events.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_NAMESPACE` when it is empty or has a space or a colon,
   * `TELEMETRY_RESERVED_NAMESPACE` when it starts with `__` or is `kit`, alone or before a dot
   */
  namespace<const Namespace extends string>(name: Namespace): TelemetryNamespaceBuilder<Namespace>
  /** The same by the name that other builders of this package have: `KitTelemetryEvents.create().namespace(…)`. */
  create(): {
    namespace<const Namespace extends string>(name: Namespace): TelemetryNamespaceBuilder<Namespace>
  }
} = Object.freeze({
  namespace: <const Namespace extends string>(name: Namespace) => {
    checkNamespace(name)
    return TelemetryNamespaceBuilder.of(name)
  },
  create: () => ({ namespace: KitTelemetryEvents.namespace }),
})

/** Collects the events and groups of one namespace. */
export class TelemetryNamespaceBuilder<Namespace extends string, Events = NoEvents> {
  readonly #namespace: Namespace
  readonly #members: Members

  private constructor(namespace: Namespace, members: Members = NO_MEMBERS) {
    this.#namespace = namespace
    this.#members = members
  }

  /** What `KitTelemetryEvents.namespace()` gives. @internal */
  static of<Namespace extends string>(namespace: Namespace): TelemetryNamespaceBuilder<Namespace> {
    return new TelemetryNamespaceBuilder(namespace)
  }

  /**
   * Adds an event.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME` when its name, or its full key, breaks the rule for names;
   * `TELEMETRY_DUPLICATE_EVENT` when it is taken; `TELEMETRY_CONFIGURATION_INVALID` when `schema` is no Standard Schema
   */
  event<const Name extends string, Schema extends TelemetryEventSchema>(
    name: Name,
    schema: Schema,
  ): TelemetryNamespaceBuilder<Namespace, Events & { readonly [Key in Name]: Schema }> {
    return new TelemetryNamespaceBuilder(
      this.#namespace,
      this.#members.withEvent(name, schema, this.#namespace),
    )
  }

  /**
   * Adds a group, whose name precedes those of its events: `group('invoice', (invoice) => invoice.event('paid', …))`
   * gives `invoice.paid`. Groups nest.
   * @throws {KitTelemetryError} as `event` does, and `TELEMETRY_CONFIGURATION_INVALID` when `build` returns no group
   */
  group<const Name extends string, Grouped>(
    name: Name,
    build: (group: TelemetryGroupBuilder) => TelemetryGroupBuilder<Grouped>,
  ): TelemetryNamespaceBuilder<Namespace, Events & Prefixed<Name, Grouped>> {
    return new TelemetryNamespaceBuilder(
      this.#namespace,
      this.#members.withGroup(name, build, this.#namespace),
    )
  }

  /** The finished descriptor, for `KitTelemetry.addEvents`. */
  build(): TelemetryEventsDescriptor<Namespace, Flat<Events>> {
    return describeEvents(this.#namespace, this.#members.events) as never
  }
}

/** Collects the events of one group. */
export class TelemetryGroupBuilder<Events = NoEvents> {
  readonly #members: Members

  private constructor(members: Members = NO_MEMBERS) {
    this.#members = members
  }

  /** What the function given to `.group()` begins with. @internal */
  static empty(): TelemetryGroupBuilder {
    return new TelemetryGroupBuilder()
  }

  /** Adds an event to the group. Throws as the namespace's `event` does. */
  event<const Name extends string, Schema extends TelemetryEventSchema>(
    name: Name,
    schema: Schema,
  ): TelemetryGroupBuilder<Events & { readonly [Key in Name]: Schema }> {
    return new TelemetryGroupBuilder(this.#members.withEvent(name, schema))
  }

  /** Adds a group to the group. Throws as the namespace's `group` does. */
  group<const Name extends string, Grouped>(
    name: Name,
    build: (group: TelemetryGroupBuilder) => TelemetryGroupBuilder<Grouped>,
  ): TelemetryGroupBuilder<Events & Prefixed<Name, Grouped>> {
    return new TelemetryGroupBuilder(this.#members.withGroup(name, build))
  }

  /** What a group holds, or `undefined` when `value` is no group. @internal */
  static membersOf(value: unknown): Members | undefined {
    return value instanceof TelemetryGroupBuilder ? value.#members : undefined
  }
}

/** The events of one namespace, ready to be attached. */
export interface TelemetryEventsDescriptor<Namespace extends string = string, Events = TelemetryEventMap> {
  readonly namespace: Namespace
  /** The short keys, without the namespace, in the order they were added. */
  readonly names: readonly (keyof Events & string)[]
  readonly get: {
    /** The full key of an event. @throws {KitTelemetryError} `TELEMETRY_UNKNOWN_EVENT` */
    key<Name extends keyof Events & string>(name: Name): `${Namespace}.${Name}`
    /** The schema of an event. @throws {KitTelemetryError} `TELEMETRY_UNKNOWN_EVENT` */
    schema<Name extends keyof Events & string>(name: Name): Events[Name]
  }
  /** Every event with the JSON Schema of its attributes, for a team's documentation. Made anew by every call. */
  catalogue(): TelemetryEventCatalogue
  /** For types only: `typeof descriptor.$Infer.keys`. At run time it is an empty object. */
  readonly $Infer: {
    readonly namespace: Namespace
    /** Short key to the attributes its schema takes. */
    readonly events: Inputs<Events>
    /** The union of all full keys. */
    readonly keys: `${Namespace}.${keyof Events & string}`
    /** Full key to schema. */
    readonly registry: Flat<Prefixed<Namespace, Events>>
  }
}

/** The names taken in a namespace or group, and the events below it by short key. Immutable. */
class Members {
  readonly names: ReadonlySet<string>
  readonly events: ReadonlyMap<string, TelemetryEventSchema>

  constructor(names: ReadonlySet<string>, events: ReadonlyMap<string, TelemetryEventSchema>) {
    this.names = names
    this.events = events
  }

  withEvent(name: string, schema: TelemetryEventSchema, namespace?: string): Members {
    checkEventName(name)
    checkSchema(name, schema)
    return this.#with(name, [[name, schema]], namespace)
  }

  withGroup(
    name: string,
    build: (group: TelemetryGroupBuilder) => TelemetryGroupBuilder<unknown>,
    namespace?: string,
  ): Members {
    checkEventName(name, 'the name of a group')
    if (typeof build !== 'function')
      throw invalidKind(`group(${quotedName(name)}, build)`, 'must be a function', build)
    const members = TelemetryGroupBuilder.membersOf(build(TelemetryGroupBuilder.empty()))
    if (members === undefined) {
      throw configurationError(
        'TELEMETRY_CONFIGURATION_INVALID',
        `the function passed to group(${quotedName(name)}, …) must return the group that it builds`,
        'group',
      )
    }
    return this.#with(
      name,
      Array.from(members.events, ([key, schema]) => [`${name}.${key}`, schema] as const),
      namespace,
    )
  }

  #with(name: string, added: Iterable<readonly [string, TelemetryEventSchema]>, namespace?: string): Members {
    if (this.names.has(name)) throw duplicateEvent(name)
    const events = new Map(this.events)
    for (const [key, schema] of added) {
      if (events.has(key)) throw duplicateEvent(key)
      if (namespace !== undefined) checkEventName(`${namespace}.${key}`, 'the full key of an event')
      events.set(key, schema)
    }
    return new Members(new Set(this.names).add(name), events)
  }
}

const NO_MEMBERS: Members = new Members(new Set(), new Map())

function describeEvents(
  namespace: string,
  events: ReadonlyMap<string, TelemetryEventSchema>,
): TelemetryEventsDescriptor {
  const find = (name: string): TelemetryEventSchema => {
    const schema = events.get(name)
    if (schema !== undefined) return schema
    throw new KitTelemetryError(
      'TELEMETRY_UNKNOWN_EVENT',
      `namespace ${quotedName(namespace)} has no event ${describeName(name)}.${didYouMean(String(name), events.keys())}`,
    )
  }
  return Object.freeze({
    namespace,
    names: Object.freeze([...events.keys()]),
    get: Object.freeze({
      key: (name: string) => {
        find(name)
        return `${namespace}.${name}`
      },
      schema: find,
    }),
    catalogue: () => catalogueOf(namespace, events),
    $Infer: Object.freeze({}),
  }) as TelemetryEventsDescriptor
}

function checkNamespace(name: unknown): void {
  if (typeof name !== 'string' || name === '' || /[\s:]/.test(name)) {
    throw configurationError(
      'TELEMETRY_INVALID_NAMESPACE',
      `a namespace must be a non-empty string without spaces and colons; received ${describeName(name)}`,
    )
  }
  if (name.startsWith('__') || name === 'kit' || name.startsWith('kit.')) {
    throw configurationError(
      'TELEMETRY_RESERVED_NAMESPACE',
      `namespace ${quotedName(name)} is reserved. Choose one that does not start with '__' or 'kit.', and is not 'kit'`,
    )
  }
}

function checkSchema(name: string, schema: unknown): void {
  const standard = (schema as { '~standard'?: { validate?: unknown } } | null | undefined)?.['~standard']
  if (typeof standard?.validate !== 'function') {
    throw invalidKind(
      `event(${quotedName(name)}, schema)`,
      'must be a Standard Schema (zod, valibot, arktype, …)',
      schema,
    )
  }
}

function duplicateEvent(name: string): KitTelemetryError {
  return configurationError(
    'TELEMETRY_DUPLICATE_EVENT',
    `event or group ${quotedName(name)} is already registered. Choose another name`,
  )
}
