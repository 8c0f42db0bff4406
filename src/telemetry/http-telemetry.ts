import { cutText } from '../base/cut-text.ts'
import type { NodeMiddleware, NodeRequest } from '../base/http/node-middleware.ts'
import { onceClosed } from '../base/http/response-close.ts'
import type { OptionCheck } from '../base/options/option-kit.ts'
import { isPromiseLike } from '../base/options/value-kinds.ts'
import { AsyncContext } from '../base/runtime.ts'
import { elapsedMs } from '../base/timers.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'
import type { TelemetryEmitInput } from './envelope/envelope.ts'
import { KitTelemetryError } from './errors.ts'
import { HTTP_EVENT } from './events/event-name.ts'
import type { TelemetryLevel } from './levels.ts'
import type { KitTelemetryManager } from './manager.ts'
import { telemetryOptions } from './options.ts'
import { reportIgnored } from './session/request-attributes.ts'

const { checkFunction, copyOptions, invalidKind } = telemetryOptions

/** The options of `httpTelemetry()`. */
export interface HttpTelemetryOptions {
  /**
   * Returns the actor of the session of a request, or `undefined`. It is called when the request arrives. If it returns nothing, it is
   * called again before the event, because other middleware may have verified a token. Defaults to none.
   */
  readonly actor?: ((req: any) => TelemetryEmitInput['actor'] | null) | undefined
  /** Returns `true` for a request without a session and an event, such as a health check. Defaults to none. */
  readonly ignore?: ((req: any) => boolean) | undefined
  /** Returns the level of the event, or `undefined` for the default: `error` from the status 500 on, otherwise `info`. */
  readonly level?: ((req: any, res: any) => TelemetryLevel | undefined) | undefined
}

const checkCallable: OptionCheck = (option, value) => checkFunction(option, value, 'set it to a function')

/** The methods of HTTP, and those of extensions such as WebDAV. HTTP/2 allows any text. */
const METHOD = /^[A-Z-]{1,32}$/

/** The managers whose session a request has, and its route. */
const begun = new WeakMap<object, { readonly managers: Set<unknown>; readonly routeOf: RouteReader }>()

/**
 * Creates middleware for Express and Connect that runs each request in a session, and emits one event when the response ends,
 * complete or not: `http.request.completed`, with `http.request.method`, `http.route` (the pattern with the paths of its routers,
 * in Express), `http.response.status_code`, `url.path` (without the query), and `duration_ms`. `set` adds attributes to it.
 * Use it before the routers.
 * @param manager the manager of the sessions and events.
 * @param options the actor, the level, and which requests are ignored. If one of these functions throws, the logger gets a report,
 * and the request is treated as without it.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an argument is invalid.
 *
 * @example
 * ```ts
 * import express from 'express'
 * import { httpTelemetry, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).build()
 * express().use(httpTelemetry(telemetry, { ignore: (req) => req.path === '/health' }))
 * ```
 * @see docs/guides/telemetry.md
 */
export function httpTelemetry(
  manager: KitTelemetryManager,
  options: HttpTelemetryOptions = {},
): NodeMiddleware {
  if (typeof manager?.session !== 'function')
    throw invalidKind('the first argument of httpTelemetry()', 'must be a manager of KitTelemetry', manager)
  const { actor, ignore, level } = copyOptions<HttpTelemetryOptions>('httpTelemetry', options, {
    actor: checkCallable,
    ignore: checkCallable,
    level: checkCallable,
  })

  /** Calls a function of the application. If it throws, the logger gets a report. */
  function ask<Result>(what: string, call: () => Result): Result | undefined {
    try {
      return notPromise(call())
    } catch (cause) {
      const why = KitTelemetryError.is(cause) ? cause.message : 'the function threw an error'
      manager[reportIgnored](`http-${what}`, `the ${what} of httpTelemetry() was ignored: ${why}`)
      return undefined
    }
  }

  return (req, res, next = () => {}) => {
    if (begun.get(req)?.managers.has(manager) || ask('ignore', () => ignore?.(req)) === true) return next()
    const { managers, routeOf } = begun.get(req) ?? { managers: new Set(), routeOf: watchRoute(req) }
    begun.set(req, { managers: managers.add(manager), routeOf })
    const startedAt = performance.now()
    const session = manager.session()
    const added = session.beginRequest()
    const method = METHOD.test(req.method ?? '') ? req.method : '_OTHER'
    const path = pathOf(req.originalUrl ?? req.url ?? '')
    const setActor = (): unknown => {
      const given = notPromise(actor?.(req)) ?? undefined
      return given && session.actor(given.type, given.id, given.tags)
    }
    const atStart = tryOrUndefined(setActor)

    function complete(): void {
      if (atStart === undefined) ask('actor', setActor)
      // As in nginx, for a client that disconnected before the response had begun.
      const status = res.headersSent ? res.statusCode : 499
      const chosen = ask('level', () => level?.(req, res))
      const attributes = {
        ...added.values,
        'http.request.method': method,
        'http.route': routeOf(),
        'http.response.status_code': status,
        'url.path': path,
        duration_ms: elapsedMs(startedAt),
      }
      // A registry of the application may have an event of this name.
      ask('event', () =>
        session.emit(HTTP_EVENT, { level: chosen ?? (status >= 500 ? 'error' : 'info'), attributes }),
      )
      added.complete()
      void session.end()
    }

    // The event has the span of the request, and not that of its last handler.
    const context = new AsyncContext('KitTelemetryRequest')
    onceClosed(req, res, () => context.runInAsyncScope(complete))
    session.runNow(() => next())
  }
}

/** @throws {KitTelemetryError} for a promise, whose rejection is handled. */
function notPromise<Result>(result: Result): Result {
  if (!isPromiseLike(result)) return result
  Promise.resolve(result).catch(() => {})
  throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'the function must not return a promise')
}

/** Returns the path of the target of a request, without its origin and its query, cut to 1,024 UTF-16 units. */
function pathOf(target: string): string {
  const [path] = target.replace(/^[a-z]{1,16}:\/\/[^/?#]*/i, '').split(/[?#]/, 1)
  return cutText(path || '/', 1024, '…')
}

/** The members that Express sets while it looks for a route. */
interface RoutedRequest extends NodeRequest {
  /** The path of the current router, in the URL. */
  baseUrl?: unknown
  /** The latest route that matched. */
  route?: { readonly path?: unknown } | undefined
  params?: Params
}

type Params = Readonly<Record<string, unknown>>

type RouteReader = () => string | undefined

/**
 * Observes a request, and returns a function that returns the pattern of its route, with the patterns of the routers around it.
 * Express keeps only the parameters of a router, and only until the next match, so its pattern is made of the URL and of these.
 */
function watchRoute(req: RoutedRequest): RouteReader {
  let { baseUrl, route } = req
  let pattern: string | undefined
  const bases = new Map<unknown, string>([[baseUrl, typeof baseUrl === 'string' ? baseUrl : '']])
  const paramsOfBases = new Map<unknown, Params | undefined>()
  const property = { configurable: true, enumerable: true }
  Object.defineProperties(req, {
    baseUrl: {
      ...property,
      get: () => baseUrl,
      set(value: unknown) {
        const outer = typeof baseUrl === 'string' ? baseUrl : ''
        const base = bases.get(baseUrl) ?? ''
        if (typeof value === 'string' && value.length > outer.length && value.startsWith(outer)) {
          const own = value.slice(outer.length)
          bases.set(value, base + patternOf(own, req.params, paramsOfBases.get(baseUrl)))
          paramsOfBases.set(value, req.params)
        }
        baseUrl = value
      },
    },
    route: {
      ...property,
      get: () => route,
      set(value: typeof route) {
        route = value
        const base = bases.get(baseUrl) ?? ''
        // The path may also be a regular expression, or an array.
        const own = base !== '' && value?.path === '/' ? '' : value?.path
        pattern = own === undefined ? undefined : base + String(own)
      },
    },
  })
  return () => pattern
}

/** The first character for private use. It stands for a parameter that was found. */
const FIRST_MARK = 0xe000

/**
 * Replaces the values of parameters in the path of a router with their names. The last parameters are the last values.
 * @param outer the parameters of the routers around it. With `mergeParams`, they are among `params`, too.
 */
function patternOf(path: string, params: Params = {}, outer: Params = {}): string {
  const names: string[] = []
  let pattern = tryOrUndefined(() => decodeURIComponent(path)) ?? path
  for (const [name, given] of Object.entries(params).reverse()) {
    const value = textOf(given)
    if (value === '') continue
    const whole = `${pattern}/`.lastIndexOf(`/${value}/`)
    const isOfOuter = whole < 0 && value === textOf(outer[name])
    const at = whole < 0 ? pattern.lastIndexOf(value) : whole + 1
    if (at < 0 || isOfOuter) continue
    const mark = String.fromCharCode(FIRST_MARK + names.length)
    names.push(/^\d+$/.test(name) ? '*' : `${Array.isArray(given) ? '*' : ':'}${name}`)
    pattern = pattern.slice(0, at) + mark + pattern.slice(at + value.length)
  }
  return pattern.replace(/[\ue000-\uf8ff]/g, (mark) => names[mark.charCodeAt(0) - FIRST_MARK] ?? mark)
}

/** Returns the value of a parameter, or of a wildcard of Express 5, which is an array. */
function textOf(given: unknown): string {
  return [given].flat().join('/')
}
