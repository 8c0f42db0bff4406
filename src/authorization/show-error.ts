import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Context } from './context.ts'
import { adviceFor } from './error-advice.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import { errorPage, pageHeaders } from './pages.ts'
import { isResume } from './paths.ts'

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
