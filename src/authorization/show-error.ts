import type { Context } from './context.ts'
import type { ResolvedFacadeOptions } from './options.ts'
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
  const detail = [error, description].filter((text) => text !== undefined).join(': ')
  ctx.body = errorPage(page, 'The application cannot be connected', detail)
}
