import type { NodeRequest } from '../../base/http/node-middleware.ts'
import { ACCOUNT_PATH, type Context, prefixOf, type ServerParts } from '../context.ts'
import { withdrawConsents } from '../grants/consents.ts'
import { accountPage, signedOutPage } from '../pages/account-pages.ts'
import { showCaught, showFailure } from '../pages/error-pages.ts'
import { accountName, pageHeaders } from '../pages/pages.ts'
import type { RequestLimits } from '../server/request-limits.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'
import { hashOf, isEqual, isOwnForm, newSecret, readForm, redirect, SecretCookie } from './browser.ts'
import { userAccess } from './user-access.ts'
import { finishVisit, startVisit, type Visit } from './visits.ts'

/** The time for which a user stays signed in to the page, in seconds. */
const SESSION_SECONDS = 600

/** A user who is signed in to the page, in the store under the cookie of the browser. */
interface AccountSession {
  /** The URL of the facade. Other facades can have the same store. */
  readonly url: string
  readonly sub: string
  readonly name: string
  readonly csrf: string
}

const AGAIN = 'Open the page of your connected applications again.'

/** The page on which users see and disconnect the applications that have access to their account. */
export class Account {
  readonly #parts: ServerParts
  readonly #limits: RequestLimits
  readonly #cookie: SecretCookie
  readonly #path: string

  constructor(parts: ServerParts, limits: RequestLimits) {
    this.#parts = parts
    this.#limits = limits
    const { url } = parts.options
    this.#cookie = new SecretCookie(url, 'mcp-gatekit-account', SESSION_SECONDS)
    this.#path = prefixOf(url) + ACCOUNT_PATH
  }

  /** Serves the page. Returns `false` for other requests. */
  async serve(ctx: Context): Promise<boolean> {
    if (ctx.path !== ACCOUNT_PATH) return false
    try {
      if (ctx.method === 'GET' || ctx.method === 'HEAD') await this.#show(ctx)
      else if (ctx.method === 'POST') await this.#change(ctx)
      else {
        ctx.set('Allow', 'GET, HEAD, POST')
        this.#fail(ctx, 405, 'This page cannot be used in this way')
      }
    } catch (error) {
      showCaught(ctx, this.#parts.options, error, 'The page failed', 'Try again in a few seconds.')
    }
    return true
  }

  async #show(ctx: Context): Promise<void> {
    const session = await this.#session(ctx)
    if (session === undefined) return await this.#startSignIn(ctx)
    const { options, grants } = this.#parts
    const connected = await grants.ofUser(session.sub)
    ctx.status = 200
    ctx.set(pageHeaders(options.page, 'self'))
    ctx.body = accountPage(options.page, {
      path: this.#path,
      user: session.name,
      csrf: session.csrf,
      grants: connected,
      scopes: options.scopes,
    })
  }

  async #startSignIn(ctx: Context): Promise<void> {
    const retryAfterSeconds = this.#limits.countSignIn(ctx)
    if (retryAfterSeconds !== undefined) {
      ctx.set('Retry-After', String(retryAfterSeconds))
      const next = 'Wait a minute. Then open this page again.'
      return this.#fail(ctx, 429, 'Too many sign-ins were started', next)
    }
    const browser = newSecret()
    if (!(await startVisit(this.#parts, ctx, { browser: hashOf(browser) })))
      throw new TemporarilyUnavailableError('The identity provider is unavailable')
    this.#cookie.set(ctx, browser)
  }

  /** Serves the callback of a sign-in that this page has started. */
  async finishSignIn(ctx: Context, visit: Visit): Promise<void> {
    const { records, emit, options } = this.#parts
    const { provider } = options
    if (visit.browser === undefined || !this.#cookie.isOf(ctx, visit.browser)) {
      emit('signin.refused', { provider, reason: 'other_browser' })
      return this.#fail(ctx, 400, 'This sign-in was started in another browser')
    }
    const signedIn = await finishVisit(this.#parts, ctx, visit)
    if (signedIn.error !== undefined)
      return this.#fail(ctx, signedIn.error === 'access_denied' ? 403 : 503, signedIn.description)
    const { claims } = signedIn
    // The page needs no scopes.
    const asked = { allow: options.allow, grantScopes: async () => [] }
    const access = await userAccess(asked, { claims, provider, requested: [] })
    if (!access.isAllowed) {
      emit('signin.refused', { provider, reason: 'not_allowed' })
      return this.#fail(ctx, 403, 'This account may not sign in', access.reason ?? 'Use another account.')
    }
    // Another id than before the sign-in, which another person may know.
    const id = newSecret()
    const session: AccountSession = {
      url: options.url,
      sub: `${provider}|${claims.sub}`,
      name: accountName(claims),
      csrf: newSecret(),
    }
    await records.set('AccountSession', id, session, SESSION_SECONDS)
    this.#cookie.set(ctx, id)
    redirect(ctx, this.#path)
  }

  async #change(ctx: Context): Promise<void> {
    const { options, records } = this.#parts
    const form = await readForm(ctx.req as NodeRequest)
    if (form === undefined) {
      ctx.set('Connection', 'close')
      return this.#fail(ctx, 413, 'This form is too large')
    }
    const session = await this.#session(ctx)
    // A redirect to the provider would break the policy of the page.
    if (session === undefined) return this.#fail(ctx, 403, 'Your sign-in has expired')
    if (!isOwnForm(ctx, options.url) || !isEqual(form.get('csrf'), session.csrf))
      return this.#fail(ctx, 403, 'This form is not valid')
    const grant = form.get('revoke')
    if (grant !== null) {
      await this.#disconnect(session.sub, grant)
      return redirect(ctx, this.#path)
    }
    if (form.get('action') !== 'sign-out') return this.#fail(ctx, 400, 'This form is not valid')
    await records.delete('AccountSession', String(this.#cookie.read(ctx)))
    this.#cookie.set(ctx, null)
    ctx.status = 200
    ctx.set(pageHeaders(options.page))
    ctx.body = signedOutPage(options.page, this.#path)
  }

  /** Ends a grant of a user, whose next consent to the client is asked for. */
  async #disconnect(sub: string, id: string): Promise<void> {
    const { grants, records } = this.#parts
    const found = (await grants.ofUser(sub)).find((grant) => grant.id === id)
    if (found !== undefined) await withdrawConsents(records, sub, found.client.id)
    await grants.endOf(sub, id, 'user')
  }

  async #session(ctx: Context): Promise<AccountSession | undefined> {
    const { records, options } = this.#parts
    const id = this.#cookie.read(ctx)
    if (id === undefined) return undefined
    const session = (await records.get('AccountSession', id)) as AccountSession | undefined
    return session?.url === options.url ? session : undefined
  }

  #fail(ctx: Context, status: number, heading: string, next: string = AGAIN): void {
    showFailure(ctx, this.#parts.options, status, heading, next)
  }
}
