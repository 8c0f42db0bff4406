import type * as Oidc from 'oidc-provider'
import type { Provider } from 'oidc-provider'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { errorText, type ServerParts } from '../context.ts'
import { JWT_BEARER } from '../grants/assertion-grant.ts'
import { signingKeyOf } from '../keys.ts'
import type { ResolvedFacadeOptions } from '../options.ts'
import { plainName } from '../pages/pages.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'
import type { AllowClientInput, ClientKind } from './client-options.ts'
import { redirectHost, redirectProblem } from './redirect-uris.ts'

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

  /**
   * Asks about the client of a grant, before its token is used up.
   * @throws `InvalidGrant` if the client may not use the server.
   */
  async checkGrant({ InvalidGrant }: typeof Oidc.errors, client: Oidc.Client | undefined): Promise<void> {
    if (client !== undefined && !(await this.isKnownAllowed(client))) throw new InvalidGrant(DENIED)
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

/** The metadata of clients that is kept. Logos and other addresses are never fetched or shown. */
const KEPT_METADATA: ReadonlySet<string> = new Set([
  'application_type',
  'client_id',
  'client_id_issued_at',
  'client_name',
  'client_secret',
  'client_secret_expires_at',
  'dpop_bound_access_tokens',
  'grant_types',
  'id_token_signed_response_alg',
  'jwks',
  'jwks_uri',
  'redirect_uris',
  'response_modes',
  'response_types',
  'token_endpoint_auth_method',
  'token_endpoint_auth_signing_alg',
])

const GRANT_TYPES = ['authorization_code', 'refresh_token']
/** The ways in which clients may authenticate. */
export const AUTHENTICATION_METHODS = [
  'none',
  'client_secret_basic',
  'client_secret_post',
  'private_key_jwt',
] as const

/** The limits for the metadata of a client. */
const MAX_REDIRECT_URIS = 20
const MAX_NAME_LENGTH = 200
const MAX_KEYS_LENGTH = 16_384

/** The longest id of a client, in characters. */
export const MAX_CLIENT_ID_LENGTH = 500

/** Returns the grants that a client may register. */
export function grantTypesOf(
  { identityAssertions }: ResolvedFacadeOptions,
  isConfidential: boolean,
): readonly string[] {
  return isConfidential && identityAssertions.length > 0 ? [...GRANT_TYPES, JWT_BEARER] : GRANT_TYPES
}

/** Applies the rules for clients to their metadata. Throws if the client is not accepted. */
export function checkClientMetadata(
  { InvalidClientMetadata }: typeof Oidc.errors,
  options: ResolvedFacadeOptions,
  metadata: Record<string, unknown>,
): void {
  const { clients } = options
  const { client_id: clientId, client_name: name, redirect_uris: uris, grant_types: grants } = metadata
  for (const member of Object.keys(metadata)) if (!KEPT_METADATA.has(member)) delete metadata[member]
  const wrong = (description: string) => new InvalidClientMetadata(description)
  if (name !== undefined && (typeof name !== 'string' || name.length > MAX_NAME_LENGTH))
    throw wrong(`client_name must be a string of at most ${MAX_NAME_LENGTH} characters`)
  if (!isShortJson([metadata.jwks, metadata.jwks_uri], MAX_KEYS_LENGTH)) throw wrong('jwks is too large')
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > MAX_REDIRECT_URIS)
    throw wrong(`redirect_uris must be an array of 1 to ${MAX_REDIRECT_URIS} URIs`)
  const isStatic = clients.static.some((client) => client.clientId === clientId)
  const redirectClient = { clientId: String(clientId), name }
  for (const uri of uris) {
    const problem = typeof uri === 'string' ? redirectProblem(uri) : 'is not a string'
    if (problem !== undefined) throw wrong(`redirect_uris must not contain a URI that ${problem}`)
    if (isStatic) continue
    if (!clients.redirectUris(uri, redirectClient))
      throw wrong('redirect_uris contains a URI that this server does not accept')
  }
  // A client may register more than this server supports (RFC 7591 §2), and must be able to request other scopes later.
  const grantTypes = grantTypesOf(options, metadata.token_endpoint_auth_method !== 'none')
  const supported = Array.isArray(grants) ? grants.filter((grant) => grantTypes.includes(grant)) : []
  metadata.grant_types = [...new Set(['authorization_code', ...supported])]
  metadata.response_types = ['code']
  metadata.response_modes = ['query']
  metadata.id_token_signed_response_alg = signingKeyOf(options.keys).alg
  // A loopback redirect URI of a native client may have any port (RFC 8252 §7.3).
  metadata.application_type = 'native'
}

/** Returns `false` for a value whose JSON is longer than `max`, or nested more deeply than can be written. */
function isShortJson(value: unknown, max: number): boolean {
  const json = tryOrUndefined(() => JSON.stringify(value))
  return json !== undefined && json.length <= max
}

/** A client and the redirect URI of a request. */
export interface KnownClient {
  readonly id: string
  readonly name: string
  readonly kind: ClientKind
  readonly redirectUri: string
}

/** Returns how a client is known. */
export function kindOf(
  client: { readonly clientId: string },
  { clients }: Pick<ResolvedFacadeOptions, 'clients'>,
): ClientKind {
  if (clients.static.some(({ clientId }) => clientId === client.clientId)) return 'static'
  const { clientIdMetadataDocument } = client as { clientIdMetadataDocument?: unknown }
  return clientIdMetadataDocument === true ? 'metadata-document' : 'registered'
}

/** Returns the id, the name, and the host of a client, as lists of grants show them. */
export function describeClient({ id, name, kind, redirectUri }: KnownClient): {
  readonly id: string
  readonly name: string
  readonly host: string
} {
  const host = kind === 'metadata-document' ? new URL(id).host : redirectHost(redirectUri)
  return { id, name: plainName(name) || id, host }
}

/** Returns the host of the metadata document of a client, or of its first redirect URI. */
export function hostOf(
  client: { readonly clientId: string; readonly redirectUris?: readonly string[] | undefined },
  kind: ClientKind,
): string {
  if (kind === 'metadata-document') return new URL(client.clientId).host
  const [uri] = client.redirectUris ?? []
  return uri === undefined ? '' : redirectHost(uri)
}
