import type * as Oidc from 'oidc-provider'
import type { Provider } from 'oidc-provider'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { errorText, type ServerParts } from '../context.ts'
import { JWT_BEARER } from '../grants/assertion-grant.ts'
import type { ConnectedGrant } from '../grants/grants.ts'
import { signingKeyOf } from '../keys.ts'
import type { ResolvedFacadeOptions } from '../options.ts'
import { plainName } from '../pages/pages.ts'
import { TemporarilyUnavailableError, unavailableIn } from '../unavailable.ts'
import type { AllowClientInput, ClientKind } from './client-options.ts'
import { type RedirectClient, redirectHost, redirectProblem } from './redirect-uris.ts'

const DENIED = 'This application may not use this server'

/**
 * Asks the application whether a client may use the server. Emits an event if not.
 * @throws {TemporarilyUnavailableError} if `clients.allow` throws, or does not decide in time.
 */
async function isAllowed(
  { options, emit }: ServerParts,
  client: Omit<AllowClientInput, 'host'>,
): Promise<boolean> {
  const host = hostOf(client, client.redirectUris[0])
  const { clientId, kind } = client
  const refused = (reason: string): void =>
    emit('client.refused', { client: clientId, client_kind: kind, redirect_host: host, reason })
  try {
    if ((await options.clients.allow({ ...client, host })) === true) return true
  } catch {
    refused('check_failed')
    // The error may contain anything.
    throw new TemporarilyUnavailableError('The application could not be checked')
  }
  refused('not_allowed')
  return false
}

/** Asks about a client that is known. */
async function isKnownAllowed(parts: ServerParts, client: Oidc.Client): Promise<boolean> {
  const { clientId, clientName: name, redirectUris = [] } = client
  const kind = kindOf(client, parts.options)
  return await isAllowed(parts, { clientId, kind, name, redirectUris: [...redirectUris] })
}

/**
 * Asks about the client of a grant, before its token is used up.
 * @throws `InvalidGrant` if the client may not use the server.
 */
export async function checkGrant(
  { InvalidGrant }: typeof Oidc.errors,
  parts: ServerParts,
  client: Oidc.Client | undefined,
): Promise<void> {
  if (client !== undefined && !(await isKnownAllowed(parts, client))) throw new InvalidGrant(DENIED)
}

/**
 * Asks about clients that register, and about those that start a sign-in. Checks the redirect URIs of registered clients again,
 * because the library keeps clients in the process.
 */
export function guardClients(provider: Provider, errors: typeof Oidc.errors, parts: ServerParts): void {
  const { options } = parts
  const { Client } = provider
  const { adapter } = Client as unknown as { adapter: Oidc.Adapter }
  const store = adapter.upsert.bind(adapter)
  // The library has validated the metadata of a new client when it stores the client.
  adapter.upsert = async (id, metadata, expiresIn) => {
    const { client_name: name, redirect_uris: uris = [] } = metadata as {
      client_name?: string
      redirect_uris?: readonly string[]
    }
    if (!(await isAllowed(parts, { clientId: undefined, kind: 'registered', name, redirectUris: [...uris] })))
      throw new errors.InvalidClientMetadata(errorText(DENIED))
    await store(id, metadata, expiresIn)
  }
  const Library = provider.constructor as typeof Provider
  const find = Client.find.bind(Client)
  /** The answers about clients that start a sign-in, by request. The library looks a client up again after an error. */
  const answers = new WeakMap<object, Promise<boolean>>()
  Client.find = async (id) => {
    const client = await find(id).catch((error: unknown) => {
      // The library would reject the client if its document or its keys cannot be fetched.
      throw unavailableIn(error) ?? error
    })
    if (client === undefined) return undefined
    const { clientId, clientName: name, redirectUris = [] } = client
    if (kindOf(client, options) !== 'static')
      checkRedirectUris(errors, options, redirectUris, { clientId, name })
    const { ctx } = Library
    if (ctx?.oidc?.route !== 'authorization') return client
    const answer = answers.get(ctx) ?? isKnownAllowed(parts, client)
    answers.set(ctx, answer)
    // This error is never sent to the client.
    const asPage = { status: 403, statusCode: 403, allow_redirect: false }
    if (!(await answer)) throw Object.assign(new errors.AccessDenied(DENIED), asPage)
    return client
  }
}

/** @throws if `clients.redirectUris` refuses a redirect URI of a client. */
function checkRedirectUris(
  { InvalidClientMetadata }: typeof Oidc.errors,
  { clients }: ResolvedFacadeOptions,
  redirectUris: readonly string[],
  client: RedirectClient,
): void {
  for (const uri of redirectUris)
    if (!clients.redirectUris(uri, client))
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
  errors: typeof Oidc.errors,
  options: ResolvedFacadeOptions,
  metadata: Record<string, unknown>,
): void {
  const { clients } = options
  const { client_id: clientId, client_name: name, redirect_uris: uris, grant_types: grants } = metadata
  for (const member of Object.keys(metadata)) if (!KEPT_METADATA.has(member)) delete metadata[member]
  const wrong = (description: string) => new errors.InvalidClientMetadata(description)
  if (name !== undefined && (typeof name !== 'string' || name.length > MAX_NAME_LENGTH))
    throw wrong(`client_name must be a string of at most ${MAX_NAME_LENGTH} characters`)
  // JSON that is nested too deeply cannot be written.
  const keys = tryOrUndefined(() => JSON.stringify([metadata.jwks, metadata.jwks_uri]))
  if (keys === undefined || keys.length > MAX_KEYS_LENGTH) throw wrong('jwks is too large')
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > MAX_REDIRECT_URIS)
    throw wrong(`redirect_uris must be an array of 1 to ${MAX_REDIRECT_URIS} URIs`)
  for (const uri of uris) {
    const problem = typeof uri === 'string' ? redirectProblem(uri) : 'is not a string'
    if (problem !== undefined) throw wrong(`redirect_uris must not contain a URI that ${problem}`)
  }
  if (!clients.static.some((client) => client.clientId === clientId))
    checkRedirectUris(errors, options, uris, { clientId: String(clientId), name })
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
export function describeClient({ id, name, kind, redirectUri }: KnownClient): ConnectedGrant['client'] {
  return { id, name: plainName(name) || id, host: hostOf({ clientId: id, kind }, redirectUri) }
}

/** Returns the host of the metadata document of a client, or of a redirect URI. */
function hostOf(
  { clientId, kind }: Pick<AllowClientInput, 'clientId' | 'kind'>,
  redirectUri: string | undefined,
): string {
  if (kind === 'metadata-document') return new URL(String(clientId)).host
  return redirectUri === undefined ? '' : redirectHost(redirectUri)
}
