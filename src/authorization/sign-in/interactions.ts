import type { InteractionResults, Provider } from 'oidc-provider'
import type { NodeRequest } from '../../http/node-middleware.ts'
import { describeClient, type KnownClient, kindOf } from '../clients/client-policy.ts'
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
import { type Consent, RememberedConsents, storeGrant } from '../grants/consents.ts'
import { type FailureStage, showFailure } from '../pages/error-pages.ts'
import { accountName, consentPage, pageHeaders } from '../pages/pages.ts'
import { LIFETIMES } from '../server/oidc-adapter.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'
import { hashOf, isEqual, isOwnForm, newSecret, readForm, redirect, SecretCookie } from './browser.ts'
import type { FreshnessRequest, StartedSignIn } from './provider-client.ts'
import { type Accepted, type Outcome, signInOutcome, type VisitRecord } from './sign-in-outcome.ts'

type Interaction = InstanceType<Provider['Interaction']>

const AGAIN = 'Start again from your application.'

/** One authorization request on its way through the sign-in, in the store. */
interface SignInRecord extends FreshnessRequest {
  /** The hash of the cookie of the browser that started it. */
  readonly browser: string
  /** The result of the sign-in at the provider. */
  readonly outcome?: Outcome
}

/** The sign-in at the provider and the consent page. */
export class Interactions {
  readonly #context: ServerParts
  readonly #provider: Provider
  readonly #consents: RememberedConsents
  readonly #cookie: SecretCookie
  readonly #path: string

  constructor(provider: Provider, context: ServerParts) {
    this.#provider = provider
    this.#context = context
    this.#consents = new RememberedConsents(context.records)
    const { url } = context.options
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
    const [, uid, step] = /^\/signin\/([\w-]{1,64})(?:\/(consent|account))?$/.exec(ctx.path) ?? []
    const isRead = ctx.method === 'GET'
    try {
      if (ctx.path === CALLBACK_PATH && isRead) await this.#finishSignIn(ctx)
      else if (uid !== undefined && step === undefined && isRead) await this.#startSignIn(ctx, uid)
      else if (uid !== undefined && step === 'account' && isRead) await this.#chooseAccount(ctx, uid)
      else if (uid !== undefined && step === 'consent' && isRead) await this.#showConsent(ctx, uid)
      else if (uid !== undefined && step === 'consent' && ctx.method === 'POST') await this.#decide(ctx, uid)
      else this.#fail(ctx, 404, 'This page does not exist')
    } catch (error) {
      // The error may contain a code or a token.
      const isOutage = error instanceof TemporarilyUnavailableError
      const { emit, options } = this.#context
      emit('signin.refused', { provider: options.provider, reason: isOutage ? 'unavailable' : 'failed' })
      if (isOutage) ctx.set('Retry-After', '5')
      this.#fail(
        ctx,
        isOutage ? 503 : 500,
        isOutage ? 'This service is temporarily unavailable' : 'The sign-in failed',
        'Start again from your application. If it fails again, try later.',
      )
    }
    return true
  }

  async #startSignIn(ctx: Context, uid: string): Promise<void> {
    const found = await this.#find(ctx, uid)
    if (found === undefined) return
    if (found.record.outcome !== undefined) return redirect(ctx, `${this.#path}/${uid}/consent`)
    await this.#visitProvider(ctx, uid, found.interaction, found.record)
  }

  /** Starts the sign-in at the provider again. A link leads here, because browsers apply `form-action` to redirects. */
  async #chooseAccount(ctx: Context, uid: string): Promise<void> {
    const found = await this.#find(ctx, uid)
    if (found === undefined) return
    if (!['', 'same-origin', 'none'].includes(ctx.get('sec-fetch-site')))
      return this.#fail(ctx, 400, 'This link is not valid')
    const { outcome: _previous, ...record } = found.record
    await this.#keep(uid, record)
    await this.#visitProvider(ctx, uid, found.interaction, { ...record, choosesAccount: true })
  }

  async #visitProvider(
    ctx: Context,
    uid: string,
    interaction: Interaction,
    freshness: FreshnessRequest,
  ): Promise<void> {
    let started: StartedSignIn
    try {
      started = await this.#context.upstream.start(freshness)
    } catch {
      const { emit, options } = this.#context
      emit('signin.refused', { provider: options.provider, reason: 'provider_failed' })
      const description = 'The identity provider is unavailable'
      const error = { error: 'temporarily_unavailable', description } as const
      await this.#fails(ctx, interaction, error, 'before_sign_in')
      return
    }
    const { url, ...rest } = started
    const visit: VisitRecord = { uid, ...rest }
    await this.#context.records.set('Visit', visit.state, visit, LIFETIMES.signIn)
    redirect(ctx, url)
  }

  async #finishSignIn(ctx: Context): Promise<void> {
    const { records, options, emit } = this.#context
    const provider = options.provider
    const { state } = ctx.query
    const isState = typeof state === 'string' && /^[\w-]{20,100}$/.test(state)
    const visit = isState ? ((await records.get('Visit', state)) as VisitRecord | undefined) : undefined
    const record = visit && ((await records.get('SignIn', visit.uid)) as SignInRecord | undefined)
    // Without the visit, nothing can use the code of the provider in the address of a refused callback.
    const isFirst = visit !== undefined && (await records.take('Visit', visit.state)) !== undefined
    if (!isFirst || record === undefined || record.outcome !== undefined) {
      emit('signin.refused', { provider, reason: 'unknown_state' })
      this.#fail(ctx, 400, 'This sign-in has expired')
      return
    }
    // An attacker could start a sign-in, and let a victim finish it.
    if (!this.#cookie.isOf(ctx, record.browser)) {
      emit('signin.refused', { provider, reason: 'other_browser' })
      this.#fail(
        ctx,
        400,
        'This sign-in was started in another browser',
        'Start again from your application. If you did not start a sign-in, close this page: another person sent you here.',
      )
      return
    }
    const outcome = await signInOutcome(this.#context, this.#provider, ctx, visit)
    await this.#keep(visit.uid, { ...record, outcome })
    redirect(ctx, `${this.#path}/${visit.uid}/consent`)
  }

  async #showConsent(ctx: Context, uid: string): Promise<void> {
    const found = await this.#find(ctx, uid)
    if (found === undefined) return
    const { record, interaction } = found
    const { outcome } = record
    if (outcome === undefined) return redirect(ctx, `${this.#path}/${uid}`)
    if (outcome.error !== undefined) {
      await this.#fails(ctx, interaction, outcome, 'after_sign_in')
      return
    }
    const { options } = this.#context
    const client = await this.#client(interaction)
    if (client === undefined)
      return this.#fail(ctx, 400, 'The application is unknown', 'Start again from it.')
    const isAskedAgain = scopesOf(interaction.params.prompt).includes('consent')
    const consent = this.#consentTo(client, outcome)
    if (!isAskedAgain && (await this.#consents.has(consent))) {
      await this.#grant(ctx, interaction, consent, outcome)
      return
    }
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

  async #decide(ctx: Context, uid: string): Promise<void> {
    const found = await this.#find(ctx, uid)
    if (found === undefined) return
    const { record, interaction } = found
    const { outcome } = record
    const form = await readForm(ctx.req as NodeRequest)
    if (form === undefined) {
      ctx.set('Connection', 'close')
      return this.#fail(ctx, 413, 'This form is too large')
    }
    const isOwn = isOwnForm(ctx, this.#context.options.url)
    const isAccepted = outcome !== undefined && outcome.error === undefined
    if (!isAccepted || !isOwn || !isEqual(form.get('csrf'), outcome.csrf))
      return this.#fail(ctx, 400, 'This form is not valid')
    const client = await this.#client(interaction)
    if (client === undefined)
      return this.#fail(ctx, 400, 'The application is unknown', 'Start again from it.')
    const { emit } = this.#context
    const consent = this.#consentTo(client, outcome)
    const event = {
      client: client.id,
      client_kind: client.kind,
      redirect_host: redirectHost(client.redirectUri),
      subject: consent.sub,
      scopes: outcome.scopes.join(' '),
    }
    if (form.get('decision') !== 'allow') {
      await this.#consents.withdraw(consent.sub, client.id)
      const error = { error: 'access_denied', description: 'The user denied access' } as const
      if (await this.#fails(ctx, interaction, error, 'denied')) emit('consent.denied', event)
      return
    }
    if (!(await this.#grant(ctx, interaction, consent, outcome))) return
    emit('consent.given', event)
    // The user has decided. If this fails, the next sign-in asks again.
    await this.#consents.add(consent).catch(() => undefined)
  }

  #consentTo(client: KnownClient, { claims, resource, scopes, earlier }: Accepted): Consent {
    return { client, sub: `${this.#context.options.provider}|${claims.sub}`, resource, scopes, earlier }
  }

  /**
   * Stores the grant of a user, and continues with it. Resolves with `false` if access was revoked since the sign-in, or if the
   * request was answered already.
   */
  async #grant(
    ctx: Context,
    interaction: Interaction,
    { client, sub, resource, scopes, earlier }: Consent,
    outcome: Accepted,
  ): Promise<boolean> {
    const { records, grants, options, emit } = this.#context
    if (await grants.revocations.revokes(sub, client.id, earlier)) {
      emit('signin.refused', { provider: options.provider, reason: 'revoked' })
      const error = { error: 'access_denied', description: 'Access was revoked during the sign-in' }
      await this.#fails(ctx, interaction, error, 'after_sign_in')
      return false
    }
    const user = { accountId: sub, clientId: client.id }
    const { params } = interaction
    const result = await storeGrant(this.#provider, records, params, user, outcome, options.tokens)
    const description = { sub, client: describeClient(client), scopes, resources: [resource] }
    await grants.add(String(result.consent?.grantId), description, earlier)
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
    const isFirst = await this.#context.records.add('Decision', uid, result, LIFETIMES.signIn)
    if (isFirst) redirect(ctx, returnTo)
    else this.#fail(ctx, 400, 'This form was sent already')
    return isFirst
  }

  /** Returns the sign-in of this browser. Otherwise, it responds with an error page. */
  async #find(
    ctx: Context,
    uid: string,
  ): Promise<{ readonly record: SignInRecord; readonly interaction: Interaction } | undefined> {
    const interaction = await this.#provider.interactionDetails(ctx.req, ctx.res).catch((error: unknown) => {
      if (error instanceof TemporarilyUnavailableError) throw error
      return undefined
    })
    const record = (await this.#context.records.get('SignIn', uid)) as SignInRecord | undefined
    const isOpen = interaction?.uid === uid && interaction.result === undefined
    if (isOpen && record !== undefined && this.#cookie.isOf(ctx, record.browser))
      return { record, interaction }
    this.#fail(
      ctx,
      400,
      'This sign-in has expired',
      'Start again from your application. It must be finished in the browser in which it was started.',
    )
    return undefined
  }

  async #keep(uid: string, record: SignInRecord): Promise<void> {
    await this.#context.records.set('SignIn', uid, record, LIFETIMES.signIn)
  }

  async #client({ params }: Interaction): Promise<KnownClient | undefined> {
    const id = String(params.client_id)
    const client = await this.#provider.Client.find(id)
    const redirectUri = String(params.redirect_uri)
    if (client === undefined || !client.redirectUriAllowed(redirectUri)) return undefined
    return { id, redirectUri, name: client.clientName ?? id, kind: kindOf(client, this.#context.options) }
  }

  #fail(ctx: Context, status: number, heading: string, next: string = AGAIN): void {
    showFailure(ctx, this.#context.options, status, heading, next)
  }
}
