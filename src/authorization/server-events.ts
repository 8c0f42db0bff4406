import type { Provider } from 'oidc-provider'
import type { ServerParts } from './context.ts'
import { kindOf } from './known-client.ts'
import { keepClient } from './oidc-adapter.ts'
import { redirectHost } from './redirect-uris.ts'
import { USED_TWICE } from './refresh-rotation.ts'
import { scopesOf } from './scopes-of.ts'
import { unavailableIn } from './unavailable.ts'

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
    if (clientKind === 'registered')
      keepClient(records, client.clientId, options.tokens).catch(() => undefined)
  })
  provider.on('grant.error', (ctx, error) => {
    const { client, entities, params } = ctx.oidc
    const event = {
      client: client?.clientId,
      grant_type: typeof params?.grant_type === 'string' ? params.grant_type : '',
    }
    const { RefreshToken: token } = entities
    if (event.grant_type === 'refresh_token' && error.error_detail === USED_TWICE)
      emit('refresh.reused', { ...event, subject: token?.accountId })
    if (event.grant_type === 'authorization_code' && CODE_REUSED.has(String(error.error_detail)))
      emit('code.reused', event)
    const { assertionCause: cause } = error as { assertionCause?: string }
    emit('token.refused', { ...event, reason: (unavailableIn(error) ?? error).message, cause })
  })
  provider.on('server_error', (ctx) => {
    const { client, params, route } = ctx.oidc ?? {}
    if (route === 'token')
      emit('token.refused', {
        client: client?.clientId,
        grant_type: typeof params?.grant_type === 'string' ? params.grant_type : '',
        reason: 'server_error',
      })
  })
}
