import type { Provider } from 'oidc-provider'
import type { NodeRequest } from '../../base/http/node-middleware.ts'
import { MAX_CLIENT_ID_LENGTH } from '../clients/client-policy.ts'
import { type Context, isResume, PATHS } from '../context.ts'
import type { ResolvedFacadeOptions } from '../options.ts'
import { type Failure, mayRedirect, showError } from '../pages/error-pages.ts'
import type { Account } from '../sign-in/account.ts'
import type { Interactions } from '../sign-in/interactions.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'
import type { RequestLimits } from './request-limits.ts'
import { SESSION_COOKIE } from './server-configuration.ts'
import { settle } from './settlement.ts'

type Middleware = Parameters<Provider['use']>[0]

/**
 * Returns the middleware around `oidc-provider`: the pages of the sign-in, and the corrections of requests and responses.
 * @param failures the errors that the library has reported, by request.
 */
export function serverMiddleware(
  options: ResolvedFacadeOptions,
  account: Account,
  interactions: Interactions,
  limits: RequestLimits,
  failures: WeakMap<object, Failure>,
): Middleware {
  return async (ctx, next) => {
    if (ctx.path === PATHS.authorization && ctx.query.scope === undefined)
      setQuery(ctx, { scope: Object.keys(options.scopes).join(' ') })
    if (ctx.path === PATHS.registration) allowOrigins(ctx)
    if (ctx.path === PATHS.registration && ctx.method === 'OPTIONS') return
    const retryAfterSeconds = limits.count(ctx)
    if (retryAfterSeconds !== undefined) return refuse(ctx, options, retryAfterSeconds)
    const { client_id: clientId } = ctx.query
    if (typeof clientId === 'string' && clientId.length > MAX_CLIENT_ID_LENGTH)
      setQuery(ctx, { client_id: '' })
    const { response_mode: mode } = ctx.query
    if (ctx.path === PATHS.authorization && mode !== undefined && mode !== 'query')
      return showError(ctx, options, 400, 'invalid_request', 'response_mode must be query')
    if ((await account.serve(ctx)) || (await interactions.serve(ctx))) {
      if (ctx.status === 503) ctx.set('Retry-After', '5')
      return
    }
    let failure: Failure | undefined
    if (isResume(ctx.path)) {
      const isComplete = (): boolean => !(failures.get(ctx) instanceof TemporarilyUnavailableError)
      await settle(next, isComplete).catch((error: Failure) => {
        failure = error
      })
    } else await next()
    const cookies = [ctx.response.get('set-cookie') ?? []].flat()
    const kept = cookies.filter((cookie) => !cookie.startsWith(SESSION_COOKIE))
    if (kept.length < cookies.length) ctx.set('Set-Cookie', kept)
    const resumesNothing = isResume(ctx.path) && failures.get(ctx)?.name === 'SessionNotFound'
    const resumeRetrySeconds = resumesNothing ? limits.countSignIn(ctx) : undefined
    if (resumeRetrySeconds !== undefined) return refuse(ctx, options, resumeRetrySeconds)
    if (!mayRedirect(ctx, options)) failure ??= failures.get(ctx)
    if (failure !== undefined) {
      const { expose, message, error_description: description, statusCode = 500 } = failure
      const status = message === 'temporarily_unavailable' ? 503 : Math.max(400, statusCode)
      if (expose === true) showError(ctx, options, status, message, description)
      else showError(ctx, options, 500, 'server_error')
    }
    // A metadata document that is not valid is an unknown client, too.
    const { error } = Object(ctx.body) as { error?: unknown }
    if (ctx.path === PATHS.token && ctx.status === 400 && error === 'invalid_client') ctx.status = 401
    if (ctx.status === 503) ctx.set('Retry-After', '5')
    if (ctx.path.startsWith('/.well-known/') && typeof ctx.body === 'object' && ctx.body !== null)
      Object.assign(ctx.body, { response_modes_supported: ['query'] })
    if (isResume(ctx.path)) ctx.set('Referrer-Policy', 'no-referrer')
  }
}

/** Responds to a request beyond a limit: with a page at the authorization endpoint. */
function refuse(ctx: Context, options: ResolvedFacadeOptions, retryAfterSeconds: number): void {
  const error = 'too_many_requests'
  ctx.set('Retry-After', String(retryAfterSeconds))
  if (ctx.path !== PATHS.registration) showError(ctx, options, 429, error)
  else {
    ctx.status = 429
    ctx.set('Cache-Control', 'no-store')
    ctx.body = { error, error_description: 'Too many clients have registered. Try again later' }
  }
}

/** Changes parameters of a request. The library finds the path of the issuer by comparing both URLs of the request. */
function setQuery(ctx: Context, changes: Readonly<Record<string, string>>): void {
  const req = ctx.req as NodeRequest
  const { originalUrl = '', url = '' } = req
  const prefix = originalUrl.slice(0, originalUrl.length - url.length)
  ctx.query = { ...ctx.query, ...changes }
  req.originalUrl = prefix + ctx.url
}

/** Allows scripts of all origins to register. Registration uses no cookies. */
function allowOrigins(ctx: Context): void {
  ctx.set('Access-Control-Allow-Origin', '*')
  if (ctx.method !== 'OPTIONS') return
  ctx.set('Access-Control-Allow-Methods', 'POST')
  ctx.set('Access-Control-Allow-Headers', 'content-type, mcp-protocol-version')
  ctx.set('Access-Control-Max-Age', '3600')
  ctx.status = 204
}
