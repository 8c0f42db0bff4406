import { firstIpAddress } from '../../base/http/client-address.ts'
import type { NodeRequest } from '../../base/http/node-middleware.ts'
import { countedClient } from '../../oauth/limits/counted-client.ts'
import { wholeSeconds } from '../../oauth/limits/rate-limiter.ts'
import { WindowCounter } from '../../oauth/limits/window-counter.ts'
import { type Context, PATHS, type ServerParts } from '../context.ts'

/** The length of the period in which requests are counted. */
const PERIOD_MS = 60_000

/** The maximum number of addresses that are counted, for each kind of request. */
const MAX_ADDRESSES = 100_000

/** The registrations of all addresses together, as a multiple of those of one address. */
const ALL_ADDRESSES = 10

/** The limits, as events name them. */
type Limit = 'registrations' | 'all_registrations' | 'sign_ins'

/** Counts registrations and started sign-ins for each address, in this process. */
export class RequestLimits {
  readonly #parts: Pick<ServerParts, 'options' | 'emit'>
  readonly #counters: Readonly<Record<Limit, WindowCounter>> = {
    registrations: new WindowCounter(MAX_ADDRESSES),
    all_registrations: new WindowCounter(1),
    sign_ins: new WindowCounter(MAX_ADDRESSES),
  }

  constructor(parts: Pick<ServerParts, 'options' | 'emit'>) {
    this.#parts = parts
  }

  /** Counts a started sign-in. Returns the seconds until the limit resets, if it is exceeded. */
  countSignIn(ctx: Context): number | undefined {
    return this.#add('sign_ins', this.#addressOf(ctx))
  }

  /** Counts a request of a client. Returns the seconds until the limit resets, if it is exceeded. */
  count(ctx: Context): number | undefined {
    if (ctx.path === PATHS.authorization) return this.countSignIn(ctx)
    if (ctx.path !== PATHS.registration || ctx.method !== 'POST') return undefined
    // Requests beyond the limit of an address are not counted for the others.
    return (
      this.#add('registrations', this.#addressOf(ctx)) ?? this.#add('all_registrations', '', ALL_ADDRESSES)
    )
  }

  #add(limit: Limit, key: string | undefined, times: number = 1): number | undefined {
    if (key === undefined) return undefined
    const max = times * this.#parts.options.clients.maxRegistrationsPerMinute
    const { points, leftMs } = this.#counters[limit].add(key, PERIOD_MS)
    if (points <= max) return undefined
    // One event for each period, so that a flood of requests is not a flood of events.
    if (points === max + 1) this.#parts.emit('limit.reached', { reason: limit })
    return wholeSeconds(leftMs)
  }

  #addressOf(ctx: Context): string | undefined {
    const req = ctx.req as NodeRequest
    return countedClient(this.#parts.options.clientAddress, {
      clientAddress: firstIpAddress(req.ip, req.socket.remoteAddress),
      get request() {
        return requestOf(ctx)
      },
    })
  }
}

/** Returns the web-standard request without its body. */
function requestOf({ href, method, req }: Context): Request {
  const headers = new Headers()
  // The names of HTTP/2 that begin with a colon are not headers.
  for (const [name, value] of Object.entries(req.headers))
    if (value !== undefined && !name.startsWith(':')) headers.set(name, [value].flat().join(', '))
  return new Request(href, { method, headers })
}
