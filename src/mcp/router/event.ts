import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import type { PolicyDecision, PolicyQuery } from './authorize.ts'
import { DEFINITION_RULES, readDefinition } from './definition.ts'
import type { Wrapped } from './middleware.ts'
import { inputSchemaOf, type JsonSchema, objectSchemaOf } from './schemas/json-schema.ts'
import type { ArgsOf } from './tool.ts'

const { callable, items, oneOf, text } = optionChecksOf('KitMcpRouter')

/**
 * A way in which clients receive events: at a URL of theirs (`webhook`), by asking (`poll`), or on an open response (`stream`, which
 * the protocol calls `push`).
 */
export type EventDelivery = 'webhook' | 'poll' | 'stream'

/** The argument of an event type's `authorize`: a subscription, or the delivery of one event to it. */
export interface EventPolicyQuery<Args = unknown, Data = unknown>
  extends Omit<PolicyQuery<any, any>, 'args' | 'purpose' | 'kind' | 'uri'> {
  /** `subscribe` when a subscription is made or renewed, or is polled. `deliver` before each delivery. */
  readonly purpose: 'subscribe' | 'deliver'
  readonly kind: 'event'
  /** The validated arguments of the subscription. */
  readonly args: Args
  /** The data of the event. Absent for `subscribe`. */
  readonly data?: Data
}

/** The options of an event type. */
export interface EventConfig<Input, Payload> {
  /** The meaning of the event, for the model or the person that subscribes. */
  readonly description: string
  /**
   * The Standard Schema of the arguments of a subscription. It must provide a JSON Schema. By default, a subscription has no
   * arguments.
   */
  readonly input?: Input
  /** The Standard Schema of the data of an event, which must be an object. It must provide a JSON Schema. */
  readonly payload: Payload
  /** The scopes that a subscription needs in addition to those of the endpoint. None by default. */
  readonly scopes?: readonly string[] | undefined
  /**
   * Decides about each subscription, and again about each delivery, after scopes and the adapter's `authorize`. Only `true` permits.
   * A denied delivery ends the subscription with `terminated`. By default, scopes and the adapter's `authorize` decide.
   */
  authorize?(
    query: EventPolicyQuery<
      ArgsOf<Input>,
      Payload extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Payload> : unknown
    >,
  ): PolicyDecision | Promise<PolicyDecision>
  /** The ways in which clients can receive the event. `webhook` needs OAuth. Defaults to all: `['webhook', 'poll', 'stream']`. */
  readonly delivery?: readonly EventDelivery[] | undefined
}

/** The types of an event type: what `emit` takes, and the arguments of its subscriptions. */
export interface EventType<Payload extends StandardSchemaV1, Input> {
  readonly data: StandardSchemaV1.InferInput<Payload>
  readonly args: ArgsOf<Input>
}

/** The event types of a router that is merged into another. */
export type PrefixedEvents<Prefix extends string, Events> = {
  readonly [Name in keyof Events & string as `${Prefix}_${Name}`]: Events[Name]
}

/** An entry of `events/list`, with the names of the protocol. */
export interface EventDefinition {
  readonly name: string
  readonly description: string
  readonly delivery: readonly WireDelivery[]
  readonly inputSchema: JsonSchema
  readonly payloadSchema: JsonSchema
}

/** The names of deliveries in the protocol. */
export type WireDelivery = 'webhook' | 'poll' | 'push'

/** An event type, with everything that can be computed before a request. */
export interface EventEntry extends Wrapped {
  readonly kind: 'event'
  readonly definition: EventDefinition
  readonly input: StandardSchemaV1 | undefined
  readonly payload: StandardSchemaV1
  readonly delivery: ReadonlySet<EventDelivery>
  /** Absent if only scopes and the adapter's policy decide. */
  readonly authorize?: (query: EventPolicyQuery<any, any>) => PolicyDecision | Promise<PolicyDecision>
}

const WIRE_NAMES: Readonly<Record<EventDelivery, WireDelivery>> = {
  webhook: 'webhook',
  poll: 'poll',
  stream: 'push',
}
const DELIVERIES = Object.keys(WIRE_NAMES) as readonly EventDelivery[]

const EVENT_RULES = {
  description: text,
  input: inputSchemaOf,
  payload: (option: string, payload: unknown) => objectSchemaOf(option, payload, 'output'),
  scopes: DEFINITION_RULES.scopes,
  authorize: optional(
    callable<NonNullable<EventEntry['authorize']>>('set it to a function (query) => true or false'),
  ),
  delivery: optional(
    items(`must be a list of at least one of 'webhook', 'poll', and 'stream'`, oneOf(DELIVERIES), 1),
    DELIVERIES,
  ),
} satisfies RulesFor<EventConfig<unknown, unknown>>

/** @throws {KitMcpConfigError} if the name or an option is invalid. */
export function eventEntry(
  name: string,
  config: EventConfig<StandardSchemaV1 | undefined, StandardSchemaV1>,
): EventEntry {
  const read = readDefinition('event', name, config, EVENT_RULES, 'description, payload')
  const { description, input: inputSchema, payload: payloadSchema, scopes, authorize, delivery } = read
  return {
    kind: 'event',
    definition: Object.freeze({
      name,
      description,
      delivery: DELIVERIES.filter((way) => delivery.includes(way)).map((way) => WIRE_NAMES[way]),
      inputSchema,
      payloadSchema,
    }),
    scopes,
    isPublic: false,
    input: config.input,
    payload: config.payload,
    delivery: new Set(delivery),
    ...(authorize !== undefined && { authorize }),
  }
}
