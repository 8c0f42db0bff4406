import type * as Oidc from 'oidc-provider'
import type { Provider } from 'oidc-provider'
import { registerAssertionGrant } from './assertion-grant.ts'
import type { Context } from './context.ts'
import { DocumentFetches } from './document-fetches.ts'
import type { Emit } from './events.ts'
import type { Failure } from './failure.ts'
import { Interactions } from './interactions.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import type { Records } from './records.ts'
import { resourceServers } from './resource-servers.ts'
import type { SafeFetchSettings } from './safe-fetch.ts'
import { serverConfiguration } from './server-configuration.ts'
import { emitEvents } from './server-events.ts'
import { serverMiddleware } from './server-middleware.ts'
import { settlingProvider } from './settlement.ts'
import type { ProviderClient } from './sign-in.ts'
import { unavailableIn } from './unavailable.ts'

/** The parts of an authorization server that other modules make. */
export interface ServerParts {
  readonly options: ResolvedFacadeOptions
  readonly records: Records
  readonly upstream: ProviderClient
  readonly emit: Emit
  /** Replaces the access to the network, for tests. */
  readonly safeFetch: SafeFetchSettings
}

/** Builds the authorization server: `oidc-provider` with the rules for MCP clients, and the pages of the sign-in. */
export function buildServer({ Provider, errors }: typeof Oidc, parts: ServerParts): Provider {
  const { options, records, emit } = parts
  const servers = resourceServers(options)
  const { fetch } = new DocumentFetches(parts.safeFetch)
  const configuration = serverConfiguration(errors, {
    ...servers,
    options,
    records,
    fetch,
    beginSignIn: (ctx, uid) => interactions.begin(ctx, uid),
  })
  const provider = new (settlingProvider(Provider))(options.url, configuration)
  // The issuer decides the addresses, not the headers of a request.
  provider.proxy = true
  if (options.identityAssertions.length > 0)
    registerAssertionGrant(provider, errors, { ...servers, options, records })
  const interactions = new Interactions(provider, { ...parts, ...servers })
  const failures = new WeakMap<object, Failure>()
  provider.use(serverMiddleware(options, interactions, failures))
  reportOutages(provider)
  for (const event of ['authorization.error', 'server_error'] as const)
    provider.on(event as 'server_error', (ctx, error) => failures.set(ctx, error))
  emitEvents(provider, options, records, emit)
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
