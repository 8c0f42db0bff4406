import { ProtocolError, ProtocolErrorCode, type ServerContext } from '@modelcontextprotocol/server'
import type { Serving } from '../operations/operation.ts'
import { permittedEntries } from '../operations/policy.ts'
import type { EventDefinition } from '../router/event.ts'
import { type Exchange, isAnonymous, permitsScopes } from '../wire/exchange.ts'
import { cursorAt } from './cursors.ts'
import { EventCore, type EventsProps } from './event-core.ts'
import { type EmitOptions, EventEmitter } from './event-emitter.ts'
import { errorBody } from './event-errors.ts'
import { type EventStats, statsOf } from './event-ledger.ts'
import type { Params } from './event-params.ts'
import { checkCursor, EventReaders } from './event-readers.ts'
import { EventSubscriptions } from './event-subscriptions.ts'
import type { TakenDelivery } from './store.ts'
import type { DeliveryReport, DeliveryVerdict, WebhookHost, Webhooks } from './webhooks/webhook-sender.ts'
import { createWebhooks } from './webhooks/webhooks.ts'

/** The interval of heartbeats on a stream (SEP-3415: at least every 30 s). */
const HEARTBEAT_MS = 15_000

/** Sends events, and serves `events/*`, for a router with event types (SEP-3415). */
export class Events {
  readonly #core: EventCore
  readonly #emitter: EventEmitter
  readonly #readers: EventReaders
  /** Undefined without OAuth: webhooks need an owner. */
  readonly #webhooks: Webhooks | undefined
  readonly #subscriptions: EventSubscriptions | undefined
  readonly #definitions: ReadonlyMap<string, EventDefinition>

  constructor(props: EventsProps, heartbeatMs: number = HEARTBEAT_MS) {
    const core = new EventCore(props)
    this.#core = core
    this.#emitter = new EventEmitter(core)
    this.#readers = new EventReaders(core, heartbeatMs)
    const { table, gate, options, network } = props
    const entries = [...table.events.values()]
    if (gate !== undefined && entries.some(({ delivery }) => delivery.has('webhook'))) {
      this.#webhooks = createWebhooks(this.#host(), {
        ...options.webhooks,
        ...(network !== undefined && { network }),
      })
      this.#subscriptions = new EventSubscriptions(core, this.#webhooks)
    }
    this.#definitions = new Map(
      entries.map(({ definition }) => [definition.name, offered(definition, gate !== undefined)]),
    )
  }

  emit(name: string, data: unknown, options?: EmitOptions): Promise<{ readonly eventId: string }> {
    return this.#emitter.emit(name, data, options)
  }

  stats(): EventStats {
    return statsOf(this.#core.ledger)
  }

  /** Takes the deliveries that other nodes have left. */
  start(): void {
    this.#webhooks?.start()
  }

  async close(options: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    this.#readers.close()
    await this.#webhooks?.close({ timeoutMs: options.timeoutMs ?? 0 })
  }

  /**
   * Serves `events/list`: the event types that the owner may subscribe to. Without a token they are all listed, so that clients
   * find out what needs a sign-in, or none with `listOnlyPermitted`, since none is public.
   */
  async list(
    { exchange, listOnlyPermitted }: Pick<Serving, 'exchange' | 'listOnlyPermitted'>,
    params: Params,
    { mcpReq }: ServerContext,
  ): Promise<Record<string, unknown>> {
    checkCursor(params.cursor)
    const { table, policy } = this.#core.props
    const permitted = [...table.events.values()].filter(({ scopes }) =>
      isAnonymous(exchange) ? !listOnlyPermitted : permitsScopes(exchange, scopes),
    )
    const all = permitted.map(({ definition: { name } }) => this.#definitions.get(name) as EventDefinition)
    if (policy === undefined) return { events: all }
    const listed = all.map((entry) => ({ entry, kind: 'event', name: entry.name }) as const)
    return { events: await permittedEntries(policy, exchange, mcpReq, listed) }
  }

  poll(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    return this.#readers.poll(exchange, params, sdk)
  }

  stream(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    return this.#readers.stream(exchange, params, sdk)
  }

  async subscribe(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    if (this.#subscriptions === undefined) throw noWebhooks()
    return await this.#subscriptions.subscribe(exchange, params, sdk)
  }

  async unsubscribe(exchange: Exchange, params: Params): Promise<Record<string, unknown>> {
    if (this.#subscriptions === undefined) throw noWebhooks()
    return await this.#subscriptions.unsubscribe(exchange, params)
  }

  #host(): WebhookHost {
    return {
      store: this.#core.props.options.store,
      judge: async (delivery) => {
        try {
          return await this.#judge(delivery)
        } catch {
          return 'unavailable'
        }
      },
      cursorAt: async (position) => cursorAt(await this.#core.epoch(), position),
      report: (report) => this.#report(report),
    }
  }

  /** Decides about a delivery. A denial ends the subscription. */
  async #judge(delivery: TakenDelivery): Promise<DeliveryVerdict> {
    const { subscription, body } = delivery
    const { id, name, args } = subscription
    const entry = this.#core.props.table.events.get(name)
    // Another version of the server may know the event type.
    if (entry === undefined) return 'unavailable'
    const exchange = await this.#core.access.exchangeOf(subscription)
    const refusal = await this.#core.refusal(exchange, entry, JSON.parse(args), { body })
    if (refusal === undefined) return 'permitted'
    if (refusal === 'unavailable') return refusal
    const terminated = JSON.stringify({ type: 'terminated', error: errorBody(refusal) })
    const { controlMessages } = this.#core.props.options.webhooks
    await this.#core.ask((store) => store.end(id, controlMessages ? terminated : undefined))
    this.#core.ledger.terminated++
    this.#core.record('event.terminated', name, { 'kit.mcp.event.subscription': id })
    return 'denied'
  }

  #report({
    outcome,
    kind,
    subscription,
    eventId,
    attempts,
    durationMs,
    error,
    status,
  }: DeliveryReport): void {
    const { ledger } = this.#core
    if (outcome !== 'delivered') ledger[outcome]++
    else if (kind === 'event') ledger.delivered.webhook++
    this.#core.record(`event.${outcome}`, subscription.name, {
      'kit.mcp.event.subscription': subscription.id,
      'kit.mcp.event.kind': kind,
      ...(eventId !== undefined && { 'kit.mcp.event.id': eventId }),
      'kit.mcp.event.attempts': attempts,
      ...(error !== undefined && { 'error.type': error }),
      ...(status !== undefined && { 'http.response.status_code': status }),
      duration_ms: durationMs,
    })
  }
}

/** Returns the entry of an event type in lists. Webhooks need OAuth. */
function offered(definition: EventDefinition, hasOAuth: boolean): EventDefinition {
  if (hasOAuth) return definition
  return Object.freeze({ ...definition, delivery: definition.delivery.filter((way) => way !== 'webhook') })
}

function noWebhooks(): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
}
