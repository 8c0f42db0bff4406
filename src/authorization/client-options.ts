import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { isPromiseLike } from '../options/value-kinds.ts'
import { isDefaultRedirectUri, type RedirectClient, redirectProblem } from './redirect-uris.ts'

const {
  checkBoolean,
  checkFunction,
  checkKnownMembers,
  checkSecret,
  checkText,
  checkTexts,
  checkWholeNumber,
  invalidKind,
  invalidOption,
} = optionChecksOf('authorizationFacade')

/** A client that is registered in advance. */
export interface StaticClient {
  /** The client id. */
  readonly clientId: string
  /** The client secret. Without one, the client is public. */
  readonly clientSecret?: string | undefined
  /** The redirect URIs. A loopback address may have any port in requests. */
  readonly redirectUris: readonly string[]
  /** The name that the consent page shows. Defaults to the client id. */
  readonly name?: string | undefined
}

/** The clients that an authorization server accepts. */
export interface AuthorizationClientsOptions {
  /** Accepts clients whose id is the URL of a metadata document. Defaults to `true`. */
  readonly metadataDocuments?: boolean | undefined
  /** Accepts dynamic registration (RFC 7591). Defaults to `true`. */
  readonly registration?: boolean | undefined
  /**
   * Decides which redirect URIs clients may register, instead of the default: loopback addresses with any port, https, and
   * the private schemes of known MCP clients. It is also called for clients that are registered already.
   */
  readonly redirectUris?: ((uri: string, client: RedirectClient) => boolean) | undefined
  /** Clients that are registered in advance. Defaults to none. */
  readonly static?: readonly StaticClient[] | undefined
  /** The number of days after which a registered client is removed that never finished a sign-in. Defaults to 30. */
  readonly unusedTtlDays?: number | undefined
}

/** `AuthorizationClientsOptions`, checked, copied, and with their defaults. */
export interface ResolvedClients {
  readonly metadataDocuments: boolean
  readonly registration: boolean
  readonly redirectUris: (uri: string, client: RedirectClient) => boolean
  readonly static: readonly StaticClient[]
  readonly unusedTtlDays: number
}

const CLIENTS_OPTIONS = ['metadataDocuments', 'registration', 'redirectUris', 'static', 'unusedTtlDays']
const STATIC_OPTIONS = ['clientId', 'clientSecret', 'redirectUris', 'name']

const MAX_TTL_DAYS = 3_650

/** Checks the option `clients`. */
export function resolveClients(value: AuthorizationClientsOptions = {}): ResolvedClients {
  if (!isOptionsObject(value))
    throw invalidKind('clients', 'must be an object such as { registration: false }', value)
  checkKnownMembers('clients', value, CLIENTS_OPTIONS)
  const { metadataDocuments = true, registration = true, redirectUris, unusedTtlDays = 30 } = value
  if (redirectUris !== undefined)
    checkFunction('clients.redirectUris', redirectUris, 'it decides which redirect URIs clients may register')
  const { static: clients = [] } = value
  if (!Array.isArray(clients))
    throw invalidKind('clients.static', 'must be an array of { clientId, redirectUris }', clients)
  const ids = new Set(clients.map((client) => client?.clientId))
  if (ids.size < clients.length)
    throw invalidKind('clients.static', 'must have a different clientId for each client', clients)
  return {
    metadataDocuments: checkBoolean('clients.metadataDocuments', metadataDocuments),
    registration: checkBoolean('clients.registration', registration),
    redirectUris: redirectUris === undefined ? isDefaultRedirectUri : exactly(redirectUris),
    static: clients.map(checkStaticClient),
    unusedTtlDays: checkWholeNumber('clients.unusedTtlDays', unusedTtlDays, 1, MAX_TTL_DAYS),
  }
}

function checkStaticClient(value: StaticClient): StaticClient {
  if (!isOptionsObject(value))
    throw invalidKind('clients.static', 'must contain objects such as { clientId, redirectUris }', value)
  checkKnownMembers('clients.static', value, STATIC_OPTIONS)
  const { clientId, clientSecret, redirectUris, name } = value
  checkText('clients.static.clientId', clientId)
  if (!/^[\x21-\x7e]+$/.test(clientId))
    throw invalidOption('clients.static.clientId', 'must be printable ASCII without spaces', clientId)
  if (clientSecret !== undefined) checkSecret('clients.static.clientSecret', clientSecret)
  if (name !== undefined) checkText('clients.static.name', name)
  const uris = checkTexts('clients.static.redirectUris', redirectUris)
  if (uris.length === 0)
    throw invalidKind('clients.static.redirectUris', 'must be a non-empty array of URIs', redirectUris)
  for (const uri of uris) {
    const problem = redirectProblem(uri)
    if (problem !== undefined)
      throw invalidOption('clients.static.redirectUris', `must not contain a URI that ${problem}`, uri)
  }
  return { clientId, clientSecret, redirectUris: uris, name }
}

/** Returns a function that accepts a redirect URI only for `true`. A promise is neither `true` nor waited for. */
function exactly(decide: (uri: string, client: RedirectClient) => unknown): ResolvedClients['redirectUris'] {
  return (uri, client) => {
    const decided = decide(uri, client)
    // A rejection that nothing handles would end the process.
    if (isPromiseLike(decided)) decided.then(undefined, () => undefined)
    return decided === true
  }
}
