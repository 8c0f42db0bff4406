import { randomUUID } from 'node:crypto'
import { quotedName } from '../../options/describe-value.ts'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { utf8Length } from '../../runtime.ts'
import { validate } from '../router/json-schema.ts'
import type { EventCore } from './event-core.ts'
import { type EventRecipient, ownersOf } from './recipients.ts'
import type { NewEvent, Position, StoredSubscription } from './store.ts'

const { checkFunction, checkKnownOptions, invalidKind, invalidOption, unusableOption } =
  optionChecksOf('emit')

/** A subscription that an event may be for. */
export interface EventSubscriber {
  /** The validated arguments of the subscription. */
  readonly args: Readonly<Record<string, any>>
}

/** The receivers of an event. By default, all subscriptions to its type whose owners may receive it. */
export interface EmitOptions {
  /**
   * The users who receive the event: the id or subject of a user of `oauth.issuer`, `{ sub, issuer }` for another issuer,
   * `context.auth` of a request, or a list of them. Everyone by default.
   */
  readonly to?: EventRecipient | readonly EventRecipient[] | undefined
  /**
   * Returns `true` for the subscriptions that receive the event, by their arguments. It is called once for each subscription while
   * `emit` runs, and must not take long. All by default.
   */
  readonly match?: ((subscriber: EventSubscriber) => boolean) | undefined
  /**
   * The id with which receivers recognize an event that they have received before: 1 to 128 characters of
   * `A-Z a-z 0-9 _ : - / + = @`. Set it to the id of the event in the system that it comes from. Defaults to a random id.
   */
  readonly eventId?: string | undefined
}

const EMIT_OPTIONS = ['to', 'match', 'eventId']
const EVENT_ID = /^[\w:\-/+=@]{1,128}$/
/** The maximum size of a webhook is 256 KiB. The cursor is added to the body. */
const MAX_BODY_BYTES = 262_144 - 256

/** Stores events and their deliveries. */
export class EventEmitter {
  readonly #core: EventCore

  constructor(core: EventCore) {
    this.#core = core
  }

  /** @throws {KitMcpConfigError} if an argument is invalid. @throws the error of the store, or what `match` throws. */
  async emit(name: string, data: unknown, options: EmitOptions = {}): Promise<{ readonly eventId: string }> {
    const { table, gate } = this.#core.props
    if (!isOptionsObject(options)) throw invalidKind('options', 'must be an object such as { to }', options)
    checkKnownOptions('emit', options, EMIT_OPTIONS)
    const { to, match, eventId = `evt_${randomUUID()}` } = options
    const entry = table.events.get(name)
    if (entry === undefined) {
      const known = [...table.events.keys()].map(quotedName).join(', ')
      throw invalidOption('name', `must be an event type of the router: ${known || 'it has none'}`, name)
    }
    if (typeof eventId !== 'string' || !EVENT_ID.test(eventId))
      throw invalidOption('eventId', 'must have 1 to 128 characters of A-Z a-z 0-9 _ : - / + = @', eventId)
    if (match !== undefined) checkFunction('match', match, 'set it to a function ({ args }) => true or false')
    const owners = to === undefined ? undefined : ownersOf(to, gate?.userIssuers)
    const body = await bodyOf(name, eventId, data, entry.payload)
    const event = { eventId, name, body }
    const isListed = match !== undefined || (gate !== undefined && entry.delivery.has('webhook'))
    const receivers = (subscriptions: readonly StoredSubscription[]) =>
      receiversOf(subscriptions, owners, match)
    const { subscriptions, head } = isListed
      ? await this.#core.ask((store) => store.list(name, owners && { owners }))
      : { subscriptions: [], head: 0 }
    const first = receivers(subscriptions)
    const { position, dropped } = await this.#append({ ...event, ...first })
    let allDropped = dropped
    if (isListed) {
      const late = await this.#lateReceivers(name, owners, { after: head, before: position }, receivers)
      if (late !== undefined) {
        const more = await this.#core.ask((store) => store.extend(name, [position], late))
        allDropped = [...dropped, ...more.dropped]
      }
    }
    this.#count(name, allDropped)
    return { eventId }
  }

  #append(event: NewEvent): Promise<{ readonly position: Position; readonly dropped: readonly string[] }> {
    const copies = 1 + event.deliveries.length
    return this.#core.ask((store) => store.append(event), event.body.length * copies)
  }

  /** Returns the receivers that have subscribed while the event was being appended. */
  async #lateReceivers(
    name: string,
    owners: readonly string[] | undefined,
    { after, before }: { readonly after: Position; readonly before: Position },
    receivers: (subscriptions: readonly StoredSubscription[]) => Receivers,
  ): Promise<Receivers | undefined> {
    // No subscription was made in between if the event has the next position.
    if (before === after + 1) return undefined
    const options = { after, ...(owners !== undefined && { owners }) }
    const { subscriptions } = await this.#core.ask((store) => store.list(name, options))
    const late = subscriptions.filter(({ since }) => since < before)
    return late.length === 0 ? undefined : receivers(late)
  }

  #count(name: string, dropped: readonly string[]): void {
    const { ledger } = this.#core
    ledger.emitted++
    ledger.dropped += dropped.length
    this.#core.record('event.emitted', name)
    for (const id of dropped) this.#core.record('event.dropped', name, { 'kit.mcp.event.subscription': id })
  }
}

type Receivers = Pick<NewEvent, 'channels' | 'deliveries'>

function receiversOf(
  subscriptions: readonly StoredSubscription[],
  owners: readonly string[] | undefined,
  match: EmitOptions['match'],
): Receivers {
  const matching =
    match === undefined
      ? subscriptions
      : subscriptions.filter(({ args }) => match({ args: JSON.parse(args) }) === true)
  return {
    channels: match === undefined ? (owners ?? ['']) : matching.map(({ id }) => id),
    deliveries: matching.filter(({ webhook }) => webhook !== undefined).map(({ id }) => id),
  }
}

/** Returns the body of an event. @throws {KitMcpConfigError} if the data is invalid or too large. */
async function bodyOf(
  name: string,
  eventId: string,
  data: unknown,
  payload: Parameters<typeof validate>[0],
): Promise<string> {
  const validation = await validate(payload, data)
  if ('problem' in validation)
    throw unusableOption('data', `does not fit the payload of ${quotedName(name)}: ${validation.problem}`)
  let body: string
  try {
    body = JSON.stringify({ eventId, name, timestamp: new Date().toISOString(), data: validation.value })
  } catch {
    throw unusableOption('data', 'must contain only JSON values')
  }
  const bytes = utf8Length(body)
  if (bytes > MAX_BODY_BYTES)
    throw unusableOption(
      'data',
      `must not make an event larger than ${MAX_BODY_BYTES} bytes; it has ${bytes}`,
      'Send an id, and let clients read the rest with a tool or a resource.',
    )
  return body
}
