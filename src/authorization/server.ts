import type * as Oidc from 'oidc-provider'
import type { Provider } from 'oidc-provider'
import type { SafeFetchSettings } from '../http/safe-fetch.ts'
import { Account } from './account.ts'
import { registerAssertionGrant } from './assertion-grant.ts'
import { ClientPolicy, guardClients, guardingProvider } from './client-policy.ts'
import type { Context, ServerParts } from './context.ts'
import { DocumentFetches } from './document-fetches.ts'
import type { Failure } from './failure.ts'
import { finishGrant } from './finish-grant.ts'
import { Interactions } from './interactions.ts'
import { RefreshRotation } from './refresh-rotation.ts'
import { RequestLimits } from './request-limits.ts'
import { serverConfiguration } from './server-configuration.ts'
import { emitEvents } from './server-events.ts'
import { serverMiddleware } from './server-middleware.ts'
import { settlingProvider } from './settlement.ts'
import { unavailableIn } from './unavailable.ts'

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
  const policy = new ClientPolicy(parts)
  const Settling = settlingProvider(Provider, {
    begin: (ctx) => rotation.begin(ctx),
    async finish(ctx) {
      await rotation.finish(ctx)
      await finishGrant(errors, parts, ctx)
    },
  })
  const Guarded = guardingProvider(Settling, errors, policy)
  const provider = new Guarded(options.url, configuration)
  // The issuer decides the addresses, not the headers of a request.
  provider.proxy = true
  if (options.identityAssertions.length > 0) registerAssertionGrant(provider, errors, parts)
  const interactions = new Interactions(provider, parts)
  const limits = new RequestLimits(parts)
  const failures = new WeakMap<object, Failure>()
  provider.use(serverMiddleware(options, new Account(parts, limits), interactions, limits, failures))
  guardClients(provider, errors, parts, policy)
  reportOutages(provider)
  for (const event of ['authorization.error', 'server_error'] as const)
    provider.on(event as 'server_error', (ctx, error) => failures.set(ctx, error))
  emitEvents(provider, parts)
  return provider
}

/** Responds with 503 if the document or the keys of a client cannot be fetched. The library would reject the client. */
function reportOutages(provider: Provider): void {
  const { Client } = provider
  const find = Client.find.bind(Client)
  Client.find = async (id) => {
    try {
      return await find(id)
    } catch (error) {
      throw unavailableIn(error) ?? error
    }
  }
  const respond = (ctx: Context, thrown: Error): void => {
    const outage = unavailableIn(thrown)
    if (outage === undefined) return
    const { status, error, error_description } = outage
    Object.assign(ctx, { status, body: { error, error_description } })
  }
  provider.on('grant.error', respond)
  provider.on('revocation.error', respond)
}
