import type * as Oidc from 'oidc-provider'
import type { Provider } from 'oidc-provider'
import type { SafeFetchSettings } from '../../base/http/safe-fetch.ts'
import { checkGrant, guardClients, kindOf } from '../clients/client-policy.ts'
import { DocumentFetches } from '../clients/document-fetches.ts'
import { redirectHost } from '../clients/redirect-uris.ts'
import { type Context, type ServerParts, scopesOf } from '../context.ts'
import { registerAssertionGrant } from '../grants/assertion-grant.ts'
import { RefreshRotation } from '../grants/refresh-rotation.ts'
import type { Failure } from '../pages/error-pages.ts'
import { Account } from '../sign-in/account.ts'
import { Interactions } from '../sign-in/interactions.ts'
import { unavailableIn } from '../unavailable.ts'
import { keepClient, USED_TWICE } from './oidc-adapter.ts'
import { RequestLimits } from './request-limits.ts'
import { serverConfiguration } from './server-configuration.ts'
import { serverMiddleware } from './server-middleware.ts'
import { settlingProvider } from './settlement.ts'

/**
 * Builds the authorization server: `oidc-provider` with the rules for MCP clients, and the pages of the sign-in.
 * @param safeFetch replaces the access to the network, for tests.
 */
export function buildServer(
  { Provider, errors }: typeof Oidc,
  parts: ServerParts,
  safeFetch: SafeFetchSettings,
): Provider {
  const { options } = parts
  const { fetch } = new DocumentFetches(safeFetch)
  const rotation = new RefreshRotation(errors, parts)
  const configuration = serverConfiguration(
    errors,
    parts,
    rotation,
    fetch,
    (ctx, uid) => interactions.begin(ctx, uid),
    () => Provider.ctx as Context | undefined,
  )
  const Settling = settlingProvider(Provider, {
    async begin(ctx) {
      await checkGrant(errors, parts, ctx.oidc.client)
      rotation.begin(ctx)
    },
    finish: (ctx) => rotation.finish(ctx),
  })
  const provider = new Settling(options.url, configuration)
  // The issuer decides the addresses, not the headers of a request.
  provider.proxy = true
  if (options.identityAssertions.length > 0) registerAssertionGrant(provider, errors, parts)
  const limits = new RequestLimits(parts)
  const account = new Account(parts, limits)
  const interactions = new Interactions(provider, parts, account)
  const failures = new WeakMap<object, Failure>()
  provider.use(serverMiddleware(options, account, interactions, limits, failures))
  guardClients(provider, errors, parts)
  reportOutages(provider)
  for (const event of ['authorization.error', 'server_error'] as const)
    provider.on(event as 'server_error', (ctx, error) => failures.set(ctx, error))
  emitEvents(provider, parts)
  return provider
}

/** Responds with 503 if the document or the keys of a client cannot be fetched. The library would reject the client. */
function reportOutages(provider: Provider): void {
  const respond = (ctx: Context, thrown: Error): void => {
    const outage = unavailableIn(thrown)
    if (outage === undefined) return
    const { status, error, error_description } = outage
    Object.assign(ctx, { status, body: { error, error_description } })
  }
  provider.on('grant.error', respond)
  provider.on('revocation.error', respond)
}

/** The details of the errors of the library and of the storage if a code was used before. */
const CODE_REUSED: ReadonlySet<string> = new Set([USED_TWICE, 'authorization code already consumed'])

/** Emits an event for each event of `oidc-provider`, and keeps the clients that get tokens. */
export function emitEvents(provider: Provider, { options, records, emit }: ServerParts): void {
  // Without a listener, Koa would write errors to the console.
  Object.assign(provider, { silent: true })
  provider.on('registration_create.success', (_ctx, client) => {
    const [uri] = client.redirectUris ?? []
    emit('client.registered', {
      client: client.clientId,
      ...(uri !== undefined && { redirect_host: redirectHost(uri) }),
    })
  })
  provider.on('grant.success', (ctx) => {
    const { client, params, entities } = ctx.oidc
    if (client === undefined) return
    const clientKind = kindOf(client, options)
    emit('token.issued', {
      client: client.clientId,
      client_kind: clientKind,
      grant_type: String(params?.grant_type),
      subject: entities.Account?.accountId,
      scopes: scopesOf(entities.AccessToken?.scope).join(' '),
    })
    // A client that refreshes is in use.
    if (clientKind === 'registered') keepClient({ records, options }, client.clientId).catch(() => undefined)
  })
  provider.on('grant.error', (ctx, error) => {
    const event = requestOf(ctx)
    const { RefreshToken: token } = ctx.oidc.entities
    if (event.grant_type === 'refresh_token' && error.error_detail === USED_TWICE)
      emit('refresh.reused', { ...event, subject: token?.accountId })
    if (event.grant_type === 'authorization_code' && CODE_REUSED.has(String(error.error_detail)))
      emit('code.reused', event)
    const { assertionCause: cause } = error as { assertionCause?: string }
    emit('token.refused', { ...event, reason: (unavailableIn(error) ?? error).message, cause })
  })
  provider.on('server_error', (ctx) => {
    if (ctx.oidc?.route === 'token') emit('token.refused', { ...requestOf(ctx), reason: 'server_error' })
  })
}

/** Returns the attributes of a request for a token. */
function requestOf({ oidc: { client, params } }: Oidc.KoaContextWithOIDC) {
  return {
    client: client?.clientId,
    grant_type: typeof params?.grant_type === 'string' ? params.grant_type : '',
  }
}
