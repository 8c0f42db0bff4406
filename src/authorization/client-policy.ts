import type * as Oidc from 'oidc-provider'
import type { Provider } from 'oidc-provider'
import type { AllowClientInput } from './client-options.ts'
import type { ServerParts } from './context.ts'
import { errorText } from './error-text.ts'
import { hostOf, kindOf } from './known-client.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import { redirectHost } from './redirect-uris.ts'
import { TemporarilyUnavailableError } from './unavailable.ts'

/** The error of an authorization request of a client that may not use this server. It is never sent to the client. */
class ClientDeniedError extends Error {
  readonly error: string = 'access_denied'
  readonly error_description: string
  readonly status: number = 403
  readonly statusCode: number = 403
  readonly expose: boolean = true
  readonly allow_redirect: boolean = false

  constructor() {
    super('access_denied')
    this.name = 'ClientDeniedError'
    this.error_description = DENIED
  }
}

const DENIED = 'This application may not use this server'

/** The metadata of a client, as it is stored. */
interface ClientMetadata {
  readonly client_name?: unknown
  readonly redirect_uris?: unknown
}

/** Asks the application which clients may use the server. */
export class ClientPolicy {
  readonly #options: ResolvedFacadeOptions
  readonly #emit: ServerParts['emit']

  constructor({ options, emit }: ServerParts) {
    this.#options = options
    this.#emit = emit
  }

  /**
   * Resolves with `true` if a client may use the server. Emits an event otherwise.
   * @throws {TemporarilyUnavailableError} if `clients.allow` throws, or does not decide in time.
   */
  async isAllowed(client: AllowClientInput): Promise<boolean> {
    const refused = (reason: string): void =>
      this.#emit('client.refused', {
        client: client.clientId,
        client_kind: client.kind,
        redirect_host: client.host,
        reason,
      })
    try {
      if ((await this.#options.clients.allow(client)) === true) return true
    } catch {
      refused('check_failed')
      // The error may contain anything.
      throw new TemporarilyUnavailableError('The application could not be checked')
    }
    refused('not_allowed')
    return false
  }

  /** Asks about a client that is known. */
  async isKnownAllowed(client: Oidc.Client): Promise<boolean> {
    const kind = kindOf(client, this.#options)
    const redirectUris = [...(client.redirectUris ?? [])]
    const { clientId, clientName: name } = client
    return await this.isAllowed({ clientId, kind, name, redirectUris, host: hostOf(client, kind) })
  }

  /** Asks about a client that registers. */
  async isNewAllowed({ client_name: name, redirect_uris: uris }: ClientMetadata): Promise<boolean> {
    const redirectUris = (Array.isArray(uris) ? uris : []).map(String)
    return await this.isAllowed({
      clientId: undefined,
      kind: 'registered',
      name: typeof name === 'string' ? name : undefined,
      redirectUris,
      host: redirectHost(String(redirectUris[0])),
    })
  }
}

/**
 * Asks about clients that register, and about those that start a sign-in. Checks the redirect URIs of registered clients again,
 * because the library keeps clients in the process.
 */
export function guardClients(
  provider: Provider,
  errors: typeof Oidc.errors,
  { options }: ServerParts,
  policy: ClientPolicy,
): void {
  const { Client } = provider
  const { adapter } = Client as unknown as { adapter: Oidc.Adapter }
  const store = adapter.upsert.bind(adapter)
  // The library has validated the metadata of a new client when it stores the client.
  adapter.upsert = async (id, metadata, expiresIn) => {
    if (!(await policy.isNewAllowed(metadata))) throw new errors.InvalidClientMetadata(errorText(DENIED))
    await store(id, metadata, expiresIn)
  }
  const Library = provider.constructor as typeof Provider
  const find = Client.find.bind(Client)
  /** The answers about clients that start a sign-in, by request. The library looks a client up again after an error. */
  const answers = new WeakMap<object, Promise<boolean>>()
  Client.find = async (id) => {
    const client = await find(id)
    if (client === undefined) return undefined
    checkRedirectUris(errors, options, client)
    const { ctx } = Library
    if (ctx?.oidc?.route !== 'authorization') return client
    const answer = answers.get(ctx) ?? policy.isKnownAllowed(client)
    answers.set(ctx, answer)
    if (!(await answer)) throw new ClientDeniedError()
    return client
  }
}

/** @throws if `clients.redirectUris` refuses a redirect URI of a client. */
function checkRedirectUris(
  { InvalidClientMetadata }: typeof Oidc.errors,
  { clients }: ResolvedFacadeOptions,
  client: Oidc.Client,
): void {
  if (kindOf(client, { clients }) === 'static') return
  const { clientId, clientName: name, redirectUris = [] } = client
  for (const uri of redirectUris)
    if (!clients.redirectUris(uri, { clientId, name }))
      throw new InvalidClientMetadata('redirect_uris contains a URI that this server does not accept')
}

/** Makes each grant of the token endpoint ask about the client first. A client that is not allowed keeps its grant. */
export function guardingProvider(
  Base: typeof Oidc.Provider,
  { InvalidGrant }: typeof Oidc.errors,
  policy: ClientPolicy,
): typeof Oidc.Provider {
  return class extends Base {
    override registerGrantType<Params extends object>(
      name: string,
      handler: (ctx: Oidc.TokenEndpointGrantContext<Params>) => Oidc.CanBePromise<void>,
      ...rest: [params?: Names, duplicates?: Names]
    ): void {
      const guarded = async (ctx: Oidc.TokenEndpointGrantContext<Params>): Promise<void> => {
        if (!(await policy.isKnownAllowed(ctx.oidc.client))) throw new InvalidGrant(DENIED)
        await handler(ctx)
      }
      super.registerGrantType(name, guarded, ...rest)
    }
  }
}

type Names = string | readonly string[] | ReadonlySet<string>
