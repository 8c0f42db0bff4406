import type * as Oidc from 'oidc-provider'
import { tryOrUndefined } from '../try-or-undefined.ts'
import { JWT_BEARER } from './assertion-grant.ts'
import { signingKeyOf } from './keys.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import { redirectProblem } from './redirect-uris.ts'

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
