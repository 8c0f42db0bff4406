import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describeName, quotedName } from '../../base/options/describe-value.ts'
import { didYouMean } from '../../base/options/nearest-name.ts'
import type { KitTelemetryError } from '../errors.ts'
import { errorWithHelp, telemetryOptions } from '../options.ts'
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
 * Declares typed events. Every method returns a new builder and does not change the previous one.
 *
 * @example
 * ```ts
 * import { KitTelemetryEvents } from 'mcp-gatekit/telemetry'
 * import { z } from 'zod'
 *
 * const billing = KitTelemetryEvents.namespace('billing')
 *   .event('opened', z.object({ plan: z.string() }))
 *   .group('invoice', (invoice) => invoice.event('paid', z.object({ cents: z.number() })))
 *   .build()
 * billing.get.key('invoice.paid') // 'billing.invoice.paid'
 * ```
 * @see docs/guides/telemetry.md
 */
export const KitTelemetryEvents: {
  /**
   * Starts a namespace, which is the first part of the full key of its events.
   * @param name the namespace, such as `billing`.
   * @returns a builder that collects the events.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_NAMESPACE` if the name is empty or contains a space or a colon;
   * `TELEMETRY_RESERVED_NAMESPACE` if it is `kit`, or starts with `kit.` or `__`.
   */
  namespace<const Namespace extends string>(name: Namespace): TelemetryNamespaceBuilder<Namespace>
  /** Returns an object with the same method, for symmetry with other builders: `KitTelemetryEvents.create().namespace(…)`. */
  create(): {
    namespace<const Namespace extends string>(name: Namespace): TelemetryNamespaceBuilder<Namespace>
  }
} = /* @__PURE__ */ Object.freeze({
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

  /** Creates the builder for `KitTelemetryEvents.namespace()`. @internal */
  static of<Namespace extends string>(namespace: Namespace): TelemetryNamespaceBuilder<Namespace> {
    return new TelemetryNamespaceBuilder(namespace)
  }

  /**
   * Adds an event.
   * @param name the short key, without the namespace.
   * @param schema the schema of the attributes, of any library that implements Standard Schema.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME` if the name or the full key is invalid;
   * `TELEMETRY_DUPLICATE_EVENT` if the name is already registered; `TELEMETRY_CONFIGURATION_INVALID` if `schema` is not a
   * Standard Schema.
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
   * Adds a group of events. Its name is the first part of their short keys:
   * `group('invoice', (invoice) => invoice.event('paid', …))` adds `invoice.paid`. Groups can be nested.
   * @param name the name of the group.
   * @param build adds the events to the group and returns it.
   * @throws {KitTelemetryError} the errors of `event`, and `TELEMETRY_CONFIGURATION_INVALID` if `build` does not return a
   * group.
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

  /** Returns the descriptor, for `KitTelemetry.addEvents`. */
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

  /** Returns the group that the function passed to `.group()` receives. @internal */
  static empty(): TelemetryGroupBuilder {
    return new TelemetryGroupBuilder()
  }

  /**
   * Adds an event to the group. Throws the errors of `TelemetryNamespaceBuilder.event`.
   * @param name the short key within the group.
   * @param schema the schema of the attributes.
   */
  event<const Name extends string, Schema extends TelemetryEventSchema>(
    name: Name,
    schema: Schema,
  ): TelemetryGroupBuilder<Events & { readonly [Key in Name]: Schema }> {
    return new TelemetryGroupBuilder(this.#members.withEvent(name, schema))
  }

  /**
   * Adds a group to the group. Throws the errors of `TelemetryNamespaceBuilder.group`.
   * @param name the name of the inner group.
   * @param build adds the events to the inner group and returns it.
   */
  group<const Name extends string, Grouped>(
    name: Name,
    build: (group: TelemetryGroupBuilder) => TelemetryGroupBuilder<Grouped>,
  ): TelemetryGroupBuilder<Events & Prefixed<Name, Grouped>> {
    return new TelemetryGroupBuilder(this.#members.withGroup(name, build))
  }

  /** Returns the members of a group, or `undefined` if `value` is not a group. @internal */
  static membersOf(value: unknown): Members | undefined {
    return value instanceof TelemetryGroupBuilder ? value.#members : undefined
  }
}

/** The events of one namespace, for `KitTelemetry.addEvents`. */
export interface TelemetryEventsDescriptor<Namespace extends string = string, Events = TelemetryEventMap> {
  readonly namespace: Namespace
  /** The short keys, without the namespace, in the order in which they were added. */
  readonly names: readonly (keyof Events & string)[]
  readonly get: {
    /** Returns the full key of an event. @throws {KitTelemetryError} `TELEMETRY_UNKNOWN_EVENT` */
    key<Name extends keyof Events & string>(name: Name): `${Namespace}.${Name}`
    /** Returns the schema of an event. @throws {KitTelemetryError} `TELEMETRY_UNKNOWN_EVENT` */
    schema<Name extends keyof Events & string>(name: Name): Events[Name]
  }
  /** Returns every event with the JSON Schema of its attributes, for documentation. Each call returns a new object. */
  catalogue(): TelemetryEventCatalogue
  /** For types only: `typeof descriptor.$Infer.keys`. At runtime, it is an empty object. */
  readonly $Infer: {
    readonly namespace: Namespace
    /** The attributes by short key. */
    readonly events: Inputs<Events>
    /** The union of all full keys. */
    readonly keys: `${Namespace}.${keyof Events & string}`
    /** The schemas by full key. */
    readonly registry: Flat<Prefixed<Namespace, Events>>
  }
}

/** The names in a namespace or group, and the events below it by short key. Immutable. */
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
      throw errorWithHelp(
        'TELEMETRY_CONFIGURATION_INVALID',
        `the function passed to group(${quotedName(name)}, …) must return the group that it builds`,
        { anchor: 'group' },
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

const NO_MEMBERS: Members = /* @__PURE__ */ new Members(new Set(), new Map())

function describeEvents(
  namespace: string,
  events: ReadonlyMap<string, TelemetryEventSchema>,
): TelemetryEventsDescriptor {
  const find = (name: string): TelemetryEventSchema => {
    const schema = events.get(name)
    if (schema !== undefined) return schema
    throw errorWithHelp(
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
    throw errorWithHelp(
      'TELEMETRY_INVALID_NAMESPACE',
      `a namespace must be a non-empty string without spaces and colons; received ${describeName(name)}`,
    )
  }
  if (name.startsWith('__') || name === 'kit' || name.startsWith('kit.')) {
    throw errorWithHelp(
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
  return errorWithHelp(
    'TELEMETRY_DUPLICATE_EVENT',
    `event or group ${quotedName(name)} is already registered. Choose another name`,
  )
}
