import { randomUUID } from 'node:crypto'
import { quotedName } from '../../base/options/describe-value.ts'
import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { utf8Length } from '../../base/runtime.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { AuthInfo } from '../../oauth/auth-info.ts'
import { ownerOf } from '../../oauth/owner.ts'
import { userKey } from '../operations/limits/caller-key.ts'
import { validate } from '../router/schemas/json-schema.ts'
import type { EventCore } from './event-core.ts'
import type { Subscriber } from './store.ts'

const { checkFunction, checkKnownOptions, invalidKind, invalidOption, unusableOption } =
  optionChecksOf('emit')

/**
 * A user who receives an event: the id or subject (`sub`) of the user of a token from `oauth.issuer`, the same with another issuer,
 * or the `auth` of a request of the user.
 */
export type EventRecipient =
  | string
  | number
  | { readonly sub: string | number; readonly issuer?: string | undefined }
  | AuthInfo<any>

/** A subscription that an event may be for. */
export interface EventSubscriber<Args = Readonly<Record<string, any>>> {
  /** The validated arguments of the subscription. */
  readonly args: Args
}

/** The receivers of an event. By default, all subscriptions to its type whose owners may receive it. */
export interface EmitOptions<Args = Readonly<Record<string, any>>> {
  /**
   * The users who receive the event: the id or subject of a user of `oauth.issuer`, `{ sub, issuer }` for another issuer,
   * `context.auth` of a request, or a list of them. Everyone by default.
   */
  readonly to?: EventRecipient | readonly EventRecipient[] | undefined
  /**
   * Returns `true` for the subscriptions that receive the event, by their arguments. It is called for each subscription while `emit`
   * runs, once or twice, and must not take long. All by default.
   */
  readonly match?: ((subscriber: EventSubscriber<Args>) => boolean) | undefined
  /**
   * The id with which receivers recognize an event that they have received before: 1 to 128 characters of
   * `A-Z a-z 0-9 _ : - / + = @`. Set it to the id of the event in the system that it comes from. Defaults to a random id.
   */
  readonly eventId?: string | undefined
}

const EVENT_ID = /^[\w:\-/+=@]{1,128}$/
/** The maximum size of a delivery is 256 KiB. The cursor, the members of a notification, and the id of a stream come around it. */
const MAX_BODY_BYTES = 262_144 - 1_024

/**
 * Stores an event and its deliveries.
 * @throws {KitMcpConfigError} if an argument is invalid. @throws the error of the store, or what `match` throws.
 */
export async function emit(
  core: EventCore,
  name: string,
  data: unknown,
  options: EmitOptions = {},
): Promise<{ readonly eventId: string }> {
  const { table, gate } = core.props
  if (!isOptionsObject(options)) throw invalidKind('options', 'must be an object such as { to }', options)
  checkKnownOptions('emit', options, ['to', 'match', 'eventId'])
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
  const isMatch = ({ args = '' }: Subscriber): boolean =>
    match === undefined || match({ args: JSON.parse(args) }) === true
  /** Returns subscriptions in pages. The store has its time for each page. */
  async function* matching(hasWebhook: boolean): AsyncGenerator<readonly Subscriber[]> {
    const { store } = core.options
    const all = store.subscribers(name, { owners, hasWebhook, needsArgs: match !== undefined })
    const iterator = all[Symbol.asyncIterator]()
    const next = () => core.ask(() => iterator.next())
    for (let page = await next(); !page.done; page = await next()) yield page.value.filter(isMatch)
  }
  const channels: string[] = match === undefined ? [...(owners ?? [''])] : []
  if (match !== undefined)
    for await (const page of matching(false)) channels.push(...page.map(({ id }) => id))
  const position = await core.ask((store) => store.append(name, { body, channels }), body.length)
  const dropped: string[] = []
  // Every subscription that was made before the event is listed now.
  if (gate !== undefined && entry.delivery.has('webhook'))
    for await (const page of matching(true)) {
      const older = page.filter(({ since }) => since < position)
      const bytes = body.length * older.length
      dropped.push(...(await core.ask((store) => store.deliver({ position, body }, older), bytes)))
    }
  core.ledger.emitted++
  core.ledger.dropped += dropped.length
  core.record('event.emitted', name)
  for (const id of dropped) core.record('event.dropped', name, { 'kit.mcp.event.subscription': id })
  return { eventId }
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
  const event = { eventId, name, timestamp: new Date().toISOString(), data: validation.value }
  const body = tryOrUndefined(() => JSON.stringify(event))
  if (body === undefined) throw unusableOption('data', 'must contain only JSON values')
  const bytes = utf8Length(body)
  if (bytes > MAX_BODY_BYTES)
    throw unusableOption(
      'data',
      `must not make an event larger than ${MAX_BODY_BYTES} bytes; it has ${bytes}`,
      'Send an id, and let clients read the rest with a tool or a resource.',
    )
  return body
}

/**
 * Returns the owners that `to` names.
 * @param issuers the issuers of a user whose issuer is not given, as tokens name them. Undefined if OAuth is disabled.
 * @throws {KitMcpConfigError} if a recipient is invalid, or OAuth is disabled.
 */
function ownersOf(to: unknown, issuers: readonly string[] | undefined): readonly string[] {
  if (issuers === undefined)
    throw unusableOption('to', 'needs OAuth, because only tokens name users', 'Set oauth, or omit to.')
  const owners = [to].flat().flatMap((recipient) => {
    if (recipient instanceof AuthInfo) return ownerOf(recipient)
    const { sub, issuer }: Record<string, unknown> = isRecord(recipient) ? recipient : { sub: recipient }
    const isUser = (typeof sub === 'string' && sub.trim() !== '') || Number.isFinite(sub)
    if (!isUser || (issuer !== undefined && typeof issuer !== 'string'))
      throw invalidKind(
        'to',
        `must be the id of a user, { sub, issuer }, context.auth, or a list of them`,
        recipient,
      )
    // Tokens whose verifier names no issuer are from the issuer of the gate, too.
    const isOwn = issuer === undefined || issuers.includes(`iss:${issuer}`)
    // As `ownerOf` writes them.
    return (isOwn ? issuers : [`iss:${issuer}`]).map((one) => JSON.stringify([one, typeof sub, String(sub)]))
  })
  return [...new Set(owners)].map(userKey)
}
