import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { PolicyDecision, PolicyQuery } from './authorize.ts'
import type { ArgsOf } from './tool.ts'

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
