import type { IncomingMessage, ServerResponse } from 'node:http'
import type * as Oidc from 'oidc-provider'
import { kindOf } from '../clients/client-policy.ts'
import { type Context, isResume } from '../context.ts'
import type { ResolvedFacadeOptions } from '../options.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'
import { errorPage, pageHeaders } from './pages.ts'

/** Responds with the page of an OAuth error, in place of a response that was already made. */
export function showError(
  ctx: Context,
  { page }: ResolvedFacadeOptions,
  status: number,
  error: string,
  description?: string,
): void {
  ctx.status = status
  ctx.remove('Location')
  // The browser keeps the cookies of a request that can be repeated.
  ctx.remove('Set-Cookie')
  ctx.set(pageHeaders(page))
  const { heading, next } = adviceFor(error, status, isResume(ctx.path))
  ctx.body = errorPage(page, {
    heading,
    next,
    // The application may have stated why it denies an account.
    ...(error === 'access_denied' && status !== 403 && { reason: description }),
    code: error === 'access_denied' || description === undefined ? error : `${error}: ${description}`,
  })
}

/** Responds with a page that says what has failed, and what to do next. */
export function showFailure(
  ctx: Context,
  { page }: Pick<ResolvedFacadeOptions, 'page'>,
  status: number,
  heading: string,
  next: string,
): void {
  ctx.status = status
  ctx.set(pageHeaders(page))
  ctx.body = errorPage(page, { heading, next })
}

/** Responds to an error of a page. The error may contain a code or a token. Returns `true` for an outage. */
export function showCaught(
  ctx: Context,
  options: Pick<ResolvedFacadeOptions, 'page'>,
  error: unknown,
  heading: string,
  next: string,
): boolean {
  const isOutage = error instanceof TemporarilyUnavailableError
  if (isOutage) showFailure(ctx, options, 503, 'This service is temporarily unavailable', next)
  else showFailure(ctx, options, 500, heading, next)
  return isOutage
}

/** Refuses a request that this server does not serve any more: with a page for browsers. */
export function refuseUnserved(
  { headers }: IncomingMessage,
  res: ServerResponse,
  page: ResolvedFacadeOptions['page'],
): void {
  const isBrowser = headers.accept?.includes('text/html') === true
  res.writeHead(503, { ...(isBrowser && pageHeaders(page)), 'Retry-After': '5', Connection: 'close' })
  res.end(isBrowser ? errorPage(page, adviceFor('temporarily_unavailable', 503, false)) : undefined)
}

/** The words of a page for an OAuth error. */
export interface ErrorAdvice {
  readonly heading: string
  /** The sentences on what to do next. */
  readonly next: string
}

const ADD_AGAIN = 'Remove this server in your application and add it again.'
const START_AGAIN = 'Start again from your application.'
const SIGN_IN_NEEDED: ErrorAdvice = { heading: 'You must sign in', next: START_AGAIN }

const NOT_ACCEPTED: ErrorAdvice = {
  heading: 'This server does not accept the application',
  next: `${ADD_AGAIN} If this page appears again, ask the makers of the application for help.`,
}

const ADVICE: Readonly<Record<string, ErrorAdvice>> = {
  access_denied: {
    heading: 'The sign-in was denied',
    next: `${START_AGAIN} Use another account, or ask the operator of this server for access.`,
  },
  consent_required: SIGN_IN_NEEDED,
  interaction_required: SIGN_IN_NEEDED,
  login_required: SIGN_IN_NEEDED,
  invalid_client: { heading: 'This server does not know the application', next: ADD_AGAIN },
  invalid_client_metadata: NOT_ACCEPTED,
  invalid_redirect_uri: NOT_ACCEPTED,
  invalid_scope: {
    heading: 'You do not have the access that the application requests',
    next: `Ask the operator of this server for access. Then start again from your application.`,
  },
  invalid_target: {
    heading: 'The application requests access to another server',
    next: `Check the address of this server in your application. ${ADD_AGAIN}`,
  },
  server_error: { heading: 'The sign-in failed', next: `${START_AGAIN} If it fails again, try later.` },
  temporarily_unavailable: {
    heading: 'This service is temporarily unavailable',
    next: 'Wait a few seconds. Then start again from your application.',
  },
  too_many_requests: {
    heading: 'Too many sign-ins were started',
    next: 'Wait a minute. Then start again from your application.',
  },
}

const EXPIRED: ErrorAdvice = { heading: 'This sign-in has expired', next: START_AGAIN }

const CLIENT_DENIED: ErrorAdvice = {
  heading: 'This application is not allowed',
  next: 'Use another application, or ask the operator of this server to allow this one.',
}

const OTHER: ErrorAdvice = {
  heading: 'The application cannot be connected',
  next: `${START_AGAIN} If this page appears again, update the application, or ask its makers for help.`,
}

/**
 * Returns the words for an OAuth error of an authorization request.
 * @param isBegun `true` if the user has come back from the sign-in
 */
export function adviceFor(error: string, status: number, isBegun: boolean): ErrorAdvice {
  if (status === 403) return CLIENT_DENIED
  if (isBegun && error === 'invalid_request') return EXPIRED
  return Object.hasOwn(ADVICE, error) ? (ADVICE[error] as ErrorAdvice) : OTHER
}

/** The time at which a request fails. It decides who sees the error. */
export type FailureStage = 'before_sign_in' | 'after_sign_in' | 'denied'

/** An error of an authorization request, as `oidc-provider` shows it. */
export type Failure = Error & Partial<Oidc.errors.OIDCProviderError>

/**
 * Returns `false` if an error would lead a user to an address that a stranger has chosen. A link could send users to any site or
 * program otherwise (RFC 9700 section 4.11.2).
 */
export function mayRedirect(ctx: Context, options: ResolvedFacadeOptions): boolean {
  const location = ctx.response.get('location')
  const { client, entities } = Object((ctx as { oidc?: unknown }).oidc) as Partial<
    Oidc.KoaContextWithOIDC['oidc']
  >
  if (client === undefined || location === '' || kindOf(client, options) === 'static') return true
  const stage = entities?.Interaction?.result?.stage as FailureStage | undefined
  const { protocol } = new URL(location, options.url)
  if (protocol === 'http:' || stage === 'denied') return true
  return protocol !== 'https:' && stage === 'after_sign_in'
}
