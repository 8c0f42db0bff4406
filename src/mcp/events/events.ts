import type { ServerContext } from '@modelcontextprotocol/server'
import type { OptionChecks } from '../../options/option-checks.ts'
import { isWorkerd } from '../../runtime.ts'
import type { Serving } from '../operations/operation.ts'
import { permittedEntries } from '../operations/policy.ts'
import type { EventDefinition } from '../router/event.ts'
import { isAnonymous, permitsScopes } from '../wire/exchange.ts'
import { EventCore, type EventsProps } from './event-core.ts'
import { type EmitOptions, emit } from './event-emitter.ts'
import { invalidParams } from './event-errors.ts'
import { type EventStats, statsOf } from './event-ledger.ts'
import { type ResolvedEventOptions, resolveEventOptions } from './event-options.ts'
import type { Params } from './event-params.ts'
import { EventReaders } from './event-readers.ts'
import { EventSubscriptions } from './event-subscriptions.ts'
import { Webhooks } from './webhooks/webhooks.ts'

/** The interval of heartbeats on a stream (SEP-3415: at least every 30 s). */
const HEARTBEAT_MS = 15_000

/** The methods that {@link Events} serves. */
export type EventMethod = `events/${'list' | 'poll' | 'stream' | 'subscribe' | 'unsubscribe'}`

/** Sends events, and serves `events/*`, for a router with event types (SEP-3415). */
export class Events {
  readonly #core: EventCore
  readonly #readers: EventReaders
  readonly #webhooks: Webhooks
  readonly #subscriptions: EventSubscriptions
  readonly #definitions: ReadonlyMap<string, EventDefinition>

  constructor(props: EventsProps, heartbeatMs: number = HEARTBEAT_MS) {
    const core = new EventCore(props)
    this.#core = core
    this.#readers = new EventReaders(core, heartbeatMs)
    this.#webhooks = new Webhooks(core)
    this.#subscriptions = new EventSubscriptions(core, this.#webhooks)
    const { table, gate } = props
    this.#definitions = new Map(
      [...table.events.values()].map(({ definition }) => [
        definition.name,
        offered(definition, gate !== undefined),
      ]),
    )
  }

  emit(name: string, data: unknown, options?: EmitOptions): Promise<{ readonly eventId: string }> {
    return emit(this.#core, name, data, options)
  }

  stats(): EventStats {
    return statsOf(this.#core.ledger)
  }

  /** Takes the deliveries that other nodes have left. */
  start(): void {
    this.#webhooks.start()
  }

  async close({ timeoutMs = 0 }: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    this.#readers.close()
    await this.#webhooks.close(timeoutMs)
  }

  /** Serves a request. @throws {ProtocolError} with a code of the chosen kind. */
  async serve(
    method: EventMethod,
    serving: Pick<Serving, 'exchange' | 'listOnlyPermitted'>,
    params: Params,
    sdk: ServerContext,
  ): Promise<Record<string, unknown>> {
    const { exchange } = serving
    try {
      switch (method) {
        case 'events/list':
          return await this.#list(serving, params, sdk)
        case 'events/poll':
          return await this.#readers.poll(exchange, params, sdk)
        case 'events/stream':
          return await this.#readers.stream(exchange, params, sdk)
        case 'events/subscribe':
          return await this.#subscriptions.subscribe(exchange, params, sdk)
        default:
          return await this.#subscriptions.unsubscribe(exchange, params)
      }
    } catch (error) {
      throw this.#core.coded(error)
    }
  }

  /**
   * Returns the event types that the owner may subscribe to. Without a token they are all listed, so that clients find out what
   * needs a sign-in, or none with `listOnlyPermitted`, since none is public.
   */
  async #list(
    { exchange, listOnlyPermitted }: Pick<Serving, 'exchange' | 'listOnlyPermitted'>,
    { cursor }: Params,
    { mcpReq }: ServerContext,
  ): Promise<Record<string, unknown>> {
    if (cursor !== undefined && cursor !== null) throw invalidParams('cursor is not one of this server')
    const { table, policy } = this.#core.props
    const permitted = [...table.events.values()].filter(({ scopes }) =>
      isAnonymous(exchange) ? !listOnlyPermitted : permitsScopes(exchange, scopes),
    )
    const all = permitted.map(({ definition: { name } }) => this.#definitions.get(name) as EventDefinition)
    if (policy === undefined) return { events: all }
    const listed = all.map((entry) => ({ entry, kind: 'event', name: entry.name }) as const)
    return { events: await permittedEntries(policy, exchange, mcpReq, listed) }
  }
}

/** Returns the entry of an event type in lists. Webhooks need OAuth. */
function offered(definition: EventDefinition, hasOAuth: boolean): EventDefinition {
  if (hasOAuth) return definition
  return Object.freeze({ ...definition, delivery: definition.delivery.filter((way) => way !== 'webhook') })
}

/**
 * Returns the events of a server, or undefined if the router declares no event type.
 * @param options undefined if the option is not set
 * @throws {KitMcpConfigError} if an event type can only be delivered to webhooks, which need OAuth.
 */
export function makeEvents(
  {
    options,
    ...props
  }: Omit<EventsProps, 'options'> & { readonly options: ResolvedEventOptions | undefined },
  { unusableOption }: OptionChecks,
): Events | undefined {
  const { table, gate } = props
  if (table.events.size === 0) return undefined
  for (const [name, { delivery }] of table.events)
    if (gate === undefined && delivery.size === 1 && delivery.has('webhook'))
      throw unusableOption(
        `delivery of event '${name}'`,
        `must not be only 'webhook' without OAuth, because a webhook belongs to a user`,
        `Set oauth, or add 'poll' or 'stream'.`,
      )
  const events = new Events({ ...props, options: options ?? resolveEventOptions({}) })
  // Another node may have left deliveries in a store that is shared.
  const hasWebhooks =
    gate !== undefined && [...table.events.values()].some(({ delivery }) => delivery.has('webhook'))
  if (options !== undefined && hasWebhooks && !isWorkerd()) events.start()
  return events
}
