import { AuthInfo, tokenIssuer } from '../../oauth/auth-info.ts'
import type { Gate } from '../../oauth/gate.ts'
import { LazyRequest, RequestContext, type RequestSource } from '../../oauth/inputs.ts'
import { livenessOf } from '../../oauth/liveness.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { type Denied, Policy } from '../operations/policy.ts'
import type { EventEntry } from '../router/event.ts'
import type { RouterTable } from '../router/router-table.ts'
import { type Exchange, permitsScopes } from '../wire/exchange.ts'
import { NO_TELEMETRY } from '../wire/request-telemetry.ts'
import type { StoredAuth, SubscriptionRecord } from './store.ts'

/** The request of a delivery, for policies and for the application's context. It has no headers. */
class DeliverySource implements RequestSource {
  #request: Request | undefined

  get request(): Request {
    this.#request ??= new Request('event:delivery')
    return this.#request
  }
}

/** A subscription, or the delivery of `data`. */
export interface EventUse {
  readonly args: unknown
  readonly data?: unknown
}

export interface EventAccessProps {
  readonly table: RouterTable
  readonly gate: Gate | undefined
  readonly policy: Policy | undefined
  readonly authorizeTimeoutMs: number
}

/** Decides who may receive events: by scopes, by the adapter's `authorize`, and by that of the event type, in this order. */
export class EventAccess {
  readonly #props: EventAccessProps
  readonly #own: ReadonlyMap<EventEntry, Policy>

  constructor(props: EventAccessProps) {
    this.#props = props
    const withPolicies = [...props.table.events.values()].filter(({ authorize }) => authorize !== undefined)
    this.#own = new Map(
      withPolicies.map((entry) => [entry, new Policy(entry.authorize as never, props.authorizeTimeoutMs)]),
    )
  }

  /** Returns undefined if the token of a request may receive an event. Never rejects. */
  async denial(
    exchange: Exchange,
    entry: EventEntry,
    purpose: 'subscribe' | 'deliver',
    use: EventUse,
  ): Promise<Denied | undefined> {
    if (!permitsScopes(exchange, entry.scopes))
      return { text: undefined, scopes: entry.scopes, failure: undefined }
    if (purpose === 'deliver' && !(await this.#isLive(exchange)))
      return { text: undefined, scopes: [], failure: undefined }
    const { name } = entry.definition
    const subject = { kind: 'event', name, args: use.args as Readonly<Record<string, unknown>> } as const
    return (
      (await this.#props.policy?.denial(exchange, { ...subject, purpose: 'call' })) ??
      (await this.#own.get(entry)?.denial(exchange, { ...subject, ...use, purpose } as never))
    )
  }

  /** Returns `false` if the grant of the token has ended, as the user or the authorization server can end it at any time. */
  async #isLive({ auth }: Exchange): Promise<boolean> {
    const { gate } = this.#props
    const isLive = auth && gate && livenessOf(gate.options.verifyToken)
    return isLive === undefined || (await isLive(auth?.user))
  }

  /**
   * Returns what a request of the owner of a subscription would be, for decisions about its deliveries.
   * @throws what the router's `.context()` throws
   */
  async exchangeOf({ auth }: SubscriptionRecord): Promise<Exchange> {
    const source = new DeliverySource()
    const { gate, policy, table } = this.#props
    const { makeContext } = table
    const needsContext = makeContext !== undefined && (policy !== undefined || this.#own.size > 0)
    const made = needsContext ? await makeContext(new LazyRequest(source)) : {}
    return {
      gate,
      auth: auth && restoredAuth(auth),
      context: new RequestContext(source, made),
      telemetry: NO_TELEMETRY,
    }
  }
}

/** Returns the members of a token that decisions need, without the token. What is not JSON is left out. */
export function storedAuth(auth: AuthInfo): StoredAuth {
  const { clientId, scopes, resource, user, act, extra } = auth
  const issuer = tokenIssuer(auth)
  const plain = tryOrUndefined(() => JSON.parse(JSON.stringify({ user, extra }))) ?? {}
  return {
    clientId,
    scopes,
    ...(issuer !== undefined && { issuer }),
    ...(resource !== undefined && { resource: resource.href }),
    ...(act !== undefined && { act }),
    ...plain,
  }
}

function restoredAuth({ clientId, scopes, issuer, resource, user, act, extra = {} }: StoredAuth): AuthInfo {
  const members = {
    clientId,
    scopes: [...scopes],
    resource: resource === undefined ? undefined : new URL(resource),
    user,
    act,
    extra,
  }
  return AuthInfo.of('', members, issuer)
}
