import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../options/option-checks.ts'
import type { PolicyDecision } from './authorize.ts'
import { checkDefinition, scopesOf } from './definition.ts'
import type { EventConfig, EventDelivery, EventPolicyQuery } from './event-config.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'
import type { Wrapped } from './middleware.ts'

const { checkFunction, checkText, invalidKind, invalidOption } = optionChecksOf('KitMcpRouter')

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
  readonly definition: EventDefinition
  readonly scopes: readonly string[]
  /** Event types are never public. */
  readonly isPublic: false
  readonly input: StandardSchemaV1 | undefined
  readonly payload: StandardSchemaV1
  readonly delivery: ReadonlySet<EventDelivery>
  /** Absent if only scopes and the adapter's policy decide. */
  readonly authorize?: (query: EventPolicyQuery<any, any>) => PolicyDecision | Promise<PolicyDecision>
}

const EVENT_OPTIONS = ['description', 'input', 'payload', 'scopes', 'authorize', 'delivery']
const WIRE_NAMES: Readonly<Record<EventDelivery, WireDelivery>> = {
  webhook: 'webhook',
  poll: 'poll',
  stream: 'push',
}
const DELIVERIES = Object.keys(WIRE_NAMES) as readonly EventDelivery[]

/** @throws {KitMcpConfigError} if the name or an option is invalid. */
export function eventEntry(
  name: string,
  config: EventConfig<StandardSchemaV1 | undefined, StandardSchemaV1>,
): EventEntry {
  const { description, input, payload, authorize, delivery } = checkDefinition(
    'event',
    name,
    config,
    EVENT_OPTIONS,
    'description, payload',
  )
  const owner = `event '${name}'`
  checkText(`description of ${owner}`, description)
  if (authorize !== undefined)
    checkFunction(`authorize of ${owner}`, authorize, 'set it to a function (query) => true or false')
  const ways = new Set(checkDelivery(`delivery of ${owner}`, delivery))
  const payloadSchema = jsonSchemaOf(`payload of ${owner}`, payload, 'output')
  if (payloadSchema.type !== undefined && payloadSchema.type !== 'object')
    throw invalidOption(
      `payload of ${owner}`,
      `must describe an object, not '${String(payloadSchema.type)}'. Wrap it in z.object({ … })`,
    )
  return {
    definition: Object.freeze({
      name,
      description,
      delivery: DELIVERIES.filter((way) => ways.has(way)).map((way) => WIRE_NAMES[way]),
      inputSchema:
        input === undefined
          ? { type: 'object', properties: {} }
          : jsonSchemaOf(`input of ${owner}`, input, 'input'),
      payloadSchema: { type: 'object', ...payloadSchema },
    }),
    scopes: scopesOf(owner, config),
    isPublic: false,
    input,
    payload,
    delivery: ways,
    ...(authorize !== undefined && { authorize: authorize as NonNullable<EventEntry['authorize']> }),
  }
}

function checkDelivery(option: string, delivery: unknown = DELIVERIES): readonly EventDelivery[] {
  const isKnown = (way: unknown): boolean => (DELIVERIES as readonly unknown[]).includes(way)
  if (Array.isArray(delivery) && delivery.length > 0 && delivery.every(isKnown)) return delivery
  throw invalidKind(option, `must be a list of at least one of 'webhook', 'poll', and 'stream'`, delivery)
}
