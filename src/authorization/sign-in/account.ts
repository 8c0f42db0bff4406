import type { NodeRequest } from '../../http/node-middleware.ts'
import { ACCOUNT_PATH, CALLBACK_PATH, type Context, prefixOf, type ServerParts } from '../context.ts'
import { RememberedConsents } from '../grants/consents.ts'
import { accountHeaders, accountPage, signedOutPage } from '../pages/account-pages.ts'
import { showFailure } from '../pages/error-pages.ts'
import { accountName, pageHeaders } from '../pages/pages.ts'
import { LIFETIMES } from '../server/oidc-adapter.ts'
import type { RequestLimits } from '../server/request-limits.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'
import { hashOf, isEqual, isOwnForm, newSecret, readForm, redirect, SecretCookie } from './browser.ts'
import type { SignedIn, StartedSignIn } from './provider-client.ts'
import { userAllowance } from './user-access.ts'

/** The time for which a user stays signed in to the page, in seconds. */
const SESSION_SECONDS = 600

/** A visit to the provider, in the store under its `state`. */
interface AccountVisit extends Omit<StartedSignIn, 'url'> {
  /** The hash of the cookie of the browser that started it. */
  readonly browser: string
}

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

  /** Serves the page, and the callback of a sign-in that it started. Returns `false` for other requests. */
  async serve(ctx: Context): Promise<boolean> {
    try {
      if (ctx.path === CALLBACK_PATH) return await this.#finishSignIn(ctx)
      if (ctx.path !== ACCOUNT_PATH) return false
      if (ctx.method === 'GET' || ctx.method === 'HEAD') await this.#show(ctx)
      else if (ctx.method === 'POST') await this.#change(ctx)
      else {
        ctx.set('Allow', 'GET, HEAD, POST')
        this.#fail(ctx, 405, 'This page cannot be used in this way')
      }
    } catch (error) {
      // The error may contain a code or a token.
      const isOutage = error instanceof TemporarilyUnavailableError
      if (isOutage) ctx.set('Retry-After', '5')
      if (isOutage)
        this.#fail(ctx, 503, 'This service is temporarily unavailable', 'Try again in a few seconds.')
      else this.#fail(ctx, 500, 'The page failed', 'Try again later.')
    }
    return true
  }

  async #show(ctx: Context): Promise<void> {
    const session = await this.#session(ctx)
    if (session === undefined) return await this.#startSignIn(ctx)
    const { options, grants } = this.#parts
    const connected = await grants.ofUser(session.sub)
    ctx.status = 200
    ctx.set(accountHeaders(options.page))
    ctx.body = accountPage(options.page, {
      path: this.#path,
      user: session.name,
      csrf: session.csrf,
      grants: connected,
      scopes: options.scopes,
    })
  }

  async #startSignIn(ctx: Context): Promise<void> {
    const { upstream, records, emit, options } = this.#parts
    const retryAfterSeconds = this.#limits.countSignIn(ctx)
    if (retryAfterSeconds !== undefined) {
      ctx.set('Retry-After', String(retryAfterSeconds))
      return this.#fail(
        ctx,
        429,
        'Too many sign-ins were started',
        'Wait a minute. Then open this page again.',
      )
    }
    let started: StartedSignIn
    try {
      started = await upstream.start({})
    } catch {
      emit('signin.refused', { provider: options.provider, reason: 'provider_failed' })
      throw new TemporarilyUnavailableError('The identity provider is unavailable')
    }
    const { url, ...rest } = started
    const browser = newSecret()
    const visit: AccountVisit = { ...rest, browser: hashOf(browser) }
    await records.set('AccountVisit', visit.state, visit, LIFETIMES.signIn)
    this.#cookie.set(ctx, browser)
    redirect(ctx, url)
  }

  async #finishSignIn(ctx: Context): Promise<boolean> {
    const { upstream, records, emit, options } = this.#parts
    const { state, error } = ctx.query
    if (ctx.method !== 'GET' || typeof state !== 'string' || !/^[\w-]{20,100}$/.test(state)) return false
    // Nothing can use the code of the provider in the address afterwards.
    const taken = await records.take('AccountVisit', state).catch(() => undefined)
    const visit = taken as AccountVisit | undefined
    if (visit === undefined) return false
    const refuse = (reason: string, status: number, heading: string, next?: string): true => {
      emit('signin.refused', { provider: options.provider, reason })
      this.#fail(ctx, status, heading, next)
      return true
    }
    if (!this.#cookie.isOf(ctx, visit.browser))
      return refuse('other_browser', 400, 'This sign-in was started in another browser')
    if (error !== undefined) return refuse('provider_denied', 403, 'The identity provider denied the sign-in')
    let signedIn: SignedIn
    try {
      signedIn = await upstream.finish(ctx.search, visit)
    } catch {
      return refuse('provider_failed', 503, 'The sign-in at the identity provider failed')
    }
    const { claims } = signedIn
    const allowance = await userAllowance(options, { claims, provider: options.provider })
    if (!allowance.isAllowed)
      return refuse(
        'not_allowed',
        403,
        'This account may not sign in',
        allowance.reason ?? 'Use another account.',
      )
    // Another id than before the sign-in, which another person may know.
    const id = newSecret()
    const session: AccountSession = {
      url: options.url,
      sub: `${options.provider}|${claims.sub}`,
      name: accountName(claims),
      csrf: newSecret(),
    }
    await records.set('AccountSession', id, session, SESSION_SECONDS)
    this.#cookie.set(ctx, id)
    redirect(ctx, this.#path)
    return true
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
  async #disconnect(sub: string, name: string): Promise<void> {
    const { grants, records } = this.#parts
    const found = (await grants.ofUser(sub)).find((grant) => grant.name === name)
    if (found !== undefined) await new RememberedConsents(records).withdraw(sub, found.client.id)
    await grants.endOf(sub, name, 'user')
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
