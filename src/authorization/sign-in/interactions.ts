import type { InteractionResults, Provider } from 'oidc-provider'
import type { NodeRequest } from '../../base/http/node-middleware.ts'
import { kindOf } from '../clients/client-policy.ts'
import { redirectHost } from '../clients/redirect-uris.ts'
import {
  CALLBACK_PATH,
  type Context,
  errorText,
  prefixOf,
  type ServerParts,
  SIGN_IN_PATH,
  scopesOf,
} from '../context.ts'
import { type Consent, isRemembered, remember, storeGrant, withdrawConsents } from '../grants/consents.ts'
import { type FailureStage, showCaught, showFailure } from '../pages/error-pages.ts'
import { accountName, consentPage, pageHeaders } from '../pages/pages.ts'
import { LIFETIMES } from '../server/oidc-adapter.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'
import type { Account } from './account.ts'
import { hashOf, isEqual, isOwnForm, newSecret, readForm, redirect, SecretCookie } from './browser.ts'
import type { FreshnessRequest } from './provider-client.ts'
import {
  type Accepted,
  finishVisit,
  type Outcome,
  outcomeOf,
  startVisit,
  takeVisit,
  type Visit,
} from './visits.ts'

type Interaction = InstanceType<Provider['Interaction']>

const AGAIN = 'Start again from your application.'

/** One authorization request on its way through the sign-in, in the store. */
interface SignInRecord extends FreshnessRequest {
  /** The hash of the cookie of the browser that started it. */
  readonly browser: string
  /** The result of the sign-in at the provider. */
  readonly outcome?: Outcome
}

/** An open sign-in of the browser of a request. */
interface Found {
  readonly record: SignInRecord
  readonly interaction: Interaction
}

type Page = (found: Found) => Promise<void>

/** The sign-in at the provider and the consent page. */
export class Interactions {
  readonly #parts: ServerParts
  readonly #provider: Provider
  readonly #account: Account
  readonly #cookie: SecretCookie
  readonly #path: string

  /** @param account serves the callbacks of its own sign-ins. */
  constructor(provider: Provider, parts: ServerParts, account: Account) {
    this.#provider = provider
    this.#parts = parts
    this.#account = account
    const { url } = parts.options
    this.#cookie = new SecretCookie(url, 'mcp-gatekit')
    this.#path = prefixOf(url) + SIGN_IN_PATH
  }

  /** Binds an authorization request to its browser. Returns the path of the sign-in. */
  async begin(ctx: Context, uid: string): Promise<string> {
    const found = this.#cookie.read(ctx)
    const browser = found ?? newSecret()
    if (found === undefined) this.#cookie.set(ctx, browser)
    const { max_age: maxAge, prompt } = ctx.query
    await this.#keep(uid, {
      browser: hashOf(browser),
      ...(maxAge !== undefined && { maxAgeSeconds: Number(maxAge) }),
      ...(scopesOf(prompt).includes('login') && { prompt: 'login' }),
    })
    return `${this.#path}/${uid}`
  }

  /** Serves the pages of the sign-in. Returns `false` for other paths. */
  async serve(ctx: Context): Promise<boolean> {
    if (ctx.path !== CALLBACK_PATH && !ctx.path.startsWith(`${SIGN_IN_PATH}/`)) return false
    const [, uid, step = 'start'] = /^\/signin\/([\w-]{1,64})(?:\/(consent|account))?$/.exec(ctx.path) ?? []
    const pages: Readonly<Record<string, Page>> = {
      'GET start': (found) => this.#startSignIn(ctx, found),
      'GET account': (found) => this.#chooseAccount(ctx, found),
      'GET consent': (found) => this.#showConsent(ctx, found),
      'POST consent': (found) => this.#decide(ctx, found),
    }
    const page = pages[`${ctx.method} ${step}`]
    try {
      if (ctx.path === CALLBACK_PATH && ctx.method === 'GET') await this.#finishSignIn(ctx)
      else if (ctx.path === CALLBACK_PATH || uid === undefined || page === undefined)
        this.#fail(ctx, 404, 'This page does not exist')
      else {
        const found = await this.#find(ctx, uid)
        if (found !== undefined) await page(found)
      }
    } catch (error) {
      const { emit, options } = this.#parts
      const next = `${AGAIN} If it fails again, try later.`
      const isOutage = showCaught(ctx, options, error, 'The sign-in failed', next)
      emit('signin.refused', { provider: options.provider, reason: isOutage ? 'unavailable' : 'failed' })
    }
    return true
  }

  async #startSignIn(ctx: Context, { record, interaction }: Found): Promise<void> {
    if (record.outcome !== undefined) return redirect(ctx, `${this.#path}/${interaction.uid}/consent`)
    await this.#visitProvider(ctx, interaction, record)
  }

  /** Starts the sign-in at the provider again. A link leads here, because browsers apply `form-action` to redirects. */
  async #chooseAccount(ctx: Context, found: Found): Promise<void> {
    if (!['', 'same-origin', 'none'].includes(ctx.get('sec-fetch-site')))
      return this.#fail(ctx, 400, 'This link is not valid')
    const { outcome: _previous, ...record } = found.record
    await this.#keep(found.interaction.uid, record)
    await this.#visitProvider(ctx, found.interaction, { ...record, choosesAccount: true })
  }

  async #visitProvider(ctx: Context, interaction: Interaction, freshness: FreshnessRequest): Promise<void> {
    const { uid } = interaction
    if (await startVisit(this.#parts, ctx, { uid }, freshness)) return
    const description = 'The identity provider is unavailable'
    await this.#fails(ctx, interaction, { error: 'temporarily_unavailable', description }, 'before_sign_in')
  }

  async #finishSignIn(ctx: Context): Promise<void> {
    const { records, options, emit } = this.#parts
    const { provider } = options
    const visit = await takeVisit(this.#parts, ctx)
    if (visit?.browser !== undefined) return await this.#account.finishSignIn(ctx, visit)
    const id = visit?.uid
    const record = (id && (await records.get('SignIn', id))) as SignInRecord | undefined
    const interaction = id === undefined ? undefined : await this.#provider.Interaction.find(id)
    if (record === undefined || record.outcome !== undefined || interaction === undefined) {
      emit('signin.refused', { provider, reason: 'unknown_state' })
      return this.#fail(ctx, 400, 'This sign-in has expired')
    }
    // An attacker could start a sign-in, and let a victim finish it.
    if (!this.#cookie.isOf(ctx, record.browser)) {
      emit('signin.refused', { provider, reason: 'other_browser' })
      const next = `${AGAIN} If you did not start a sign-in, close this page: another person sent you here.`
      return this.#fail(ctx, 400, 'This sign-in was started in another browser', next)
    }
    const { uid, params } = interaction
    const signedIn = await finishVisit(this.#parts, ctx, visit as Visit)
    const outcome = signedIn.error === undefined ? await outcomeOf(this.#parts, params, signedIn) : signedIn
    await this.#keep(uid, { ...record, outcome })
    redirect(ctx, `${this.#path}/${uid}/consent`)
  }

  async #showConsent(ctx: Context, { record: { outcome }, interaction }: Found): Promise<void> {
    const { uid } = interaction
    if (outcome === undefined) return redirect(ctx, `${this.#path}/${uid}`)
    if (outcome.error !== undefined) {
      await this.#fails(ctx, interaction, outcome, 'after_sign_in')
      return
    }
    const { options, records } = this.#parts
    const consent = await this.#consentTo(ctx, interaction, outcome)
    if (consent === undefined) return
    const isAskedAgain = scopesOf(interaction.params.prompt).includes('consent')
    if (!isAskedAgain && (await isRemembered(records, consent))) {
      await this.#grant(ctx, interaction, consent)
      return
    }
    const { client } = consent
    ctx.status = 200
    ctx.set(pageHeaders(options.page, client.redirectUri))
    ctx.body = consentPage(options.page, {
      name: client.name,
      documentUrl: client.kind === 'metadata-document' ? client.id : undefined,
      redirectUri: client.redirectUri,
      resource: outcome.resource,
      scopes: outcome.scopes.map((name) => ({ name, description: options.scopes[name] ?? name })),
      user: accountName(outcome.claims),
      otherAccount: `${this.#path}/${uid}/account`,
      csrf: outcome.csrf,
      isUnverified: client.kind !== 'static',
    })
  }

  async #decide(ctx: Context, { record: { outcome }, interaction }: Found): Promise<void> {
    const form = await readForm(ctx.req as NodeRequest)
    if (form === undefined) {
      ctx.set('Connection', 'close')
      return this.#fail(ctx, 413, 'This form is too large')
    }
    const { emit, options, records } = this.#parts
    const isAccepted = outcome !== undefined && outcome.error === undefined
    if (!isAccepted || !isOwnForm(ctx, options.url) || !isEqual(form.get('csrf'), outcome.csrf))
      return this.#fail(ctx, 400, 'This form is not valid')
    const consent = await this.#consentTo(ctx, interaction, outcome)
    if (consent === undefined) return
    const { client, sub } = consent
    const event = {
      client: client.id,
      client_kind: client.kind,
      redirect_host: redirectHost(client.redirectUri),
      subject: sub,
      scopes: outcome.scopes.join(' '),
    }
    if (form.get('decision') !== 'allow') {
      await withdrawConsents(records, sub, client.id)
      const error = { error: 'access_denied', description: 'The user denied access' } as const
      if (await this.#fails(ctx, interaction, error, 'denied')) emit('consent.denied', event)
      return
    }
    if (!(await this.#grant(ctx, interaction, consent))) return
    emit('consent.given', event)
    // The user has decided. If this fails, the next sign-in asks again.
    await remember(records, consent).catch(() => undefined)
  }

  /** Returns the consent that a request asks for. If its client is unknown, it responds with an error page. */
  async #consentTo(ctx: Context, { params }: Interaction, outcome: Accepted): Promise<Consent | undefined> {
    const { options } = this.#parts
    const id = String(params.client_id)
    const found = await this.#provider.Client.find(id)
    const redirectUri = String(params.redirect_uri)
    if (found === undefined || !found.redirectUriAllowed(redirectUri)) {
      this.#fail(ctx, 400, 'The application is unknown', 'Start again from it.')
      return undefined
    }
    const client = { id, redirectUri, name: found.clientName ?? id, kind: kindOf(found, options) }
    return { ...outcome, client, sub: `${options.provider}|${outcome.claims.sub}` }
  }

  /**
   * Stores the grant of a user, and continues with it. Resolves with `false` if access was revoked since the sign-in, or if the
   * request was answered already.
   */
  async #grant(ctx: Context, interaction: Interaction, consent: Consent): Promise<boolean> {
    const { grants, options, emit } = this.#parts
    if (await grants.isRevoked(consent.sub, consent.client.id, consent.earlier)) {
      emit('signin.refused', { provider: options.provider, reason: 'revoked' })
      const error = { error: 'access_denied', description: 'Access was revoked during the sign-in' }
      await this.#fails(ctx, interaction, error, 'after_sign_in')
      return false
    }
    const result = await storeGrant(this.#provider, this.#parts, interaction.params, consent)
    return await this.#conclude(ctx, interaction, result)
  }

  /** Ends a request with an error. Resolves with `false` if the request was answered already. */
  async #fails(
    ctx: Context,
    interaction: Interaction,
    { error, description }: { readonly error: string; readonly description: string },
    stage: FailureStage,
  ): Promise<boolean> {
    const result = { error, error_description: errorText(description), stage }
    return await this.#conclude(ctx, interaction, result)
  }

  /** Stores the answer to a request, and continues with it. Of several answers, one counts. */
  async #conclude(
    ctx: Context,
    { uid, returnTo }: Interaction,
    result: InteractionResults,
  ): Promise<boolean> {
    const isFirst = await this.#parts.records.add('Decision', uid, result, LIFETIMES.signIn)
    if (isFirst) redirect(ctx, returnTo)
    else this.#fail(ctx, 400, 'This form was sent already')
    return isFirst
  }

  /** Returns the sign-in of this browser. Otherwise, it responds with an error page. */
  async #find(ctx: Context, uid: string): Promise<Found | undefined> {
    const interaction = await this.#provider.interactionDetails(ctx.req, ctx.res).catch((error: unknown) => {
      if (error instanceof TemporarilyUnavailableError) throw error
      return undefined
    })
    const record = (await this.#parts.records.get('SignIn', uid)) as SignInRecord | undefined
    const isOpen = interaction?.uid === uid && interaction.result === undefined
    if (isOpen && record !== undefined && this.#cookie.isOf(ctx, record.browser))
      return { record, interaction }
    const next = `${AGAIN} It must be finished in the browser in which it was started.`
    this.#fail(ctx, 400, 'This sign-in has expired', next)
    return undefined
  }

  async #keep(uid: string, record: SignInRecord): Promise<void> {
    await this.#parts.records.set('SignIn', uid, record, LIFETIMES.signIn)
  }

  #fail(ctx: Context, status: number, heading: string, next: string = AGAIN): void {
    showFailure(ctx, this.#parts.options, status, heading, next)
  }
}
