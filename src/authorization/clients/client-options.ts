import { optionChecksOf } from '../../base/options/option-checks.ts'
import {
  also,
  type OptionRule,
  optional,
  type ReadBy,
  type RulesFor,
} from '../../base/options/option-rules.ts'
import { isPromiseLike } from '../../base/options/value-kinds.ts'
import { isDefaultRedirectUri, type RedirectClient, redirectProblem } from './redirect-uris.ts'

const checks = optionChecksOf('authorizationFacade')

type ClientDecision = (client: AllowClientInput) => boolean | Promise<boolean>
type RedirectDecision = (uri: string, client: RedirectClient) => boolean

/** How the client of a request is known. */
export type ClientKind = 'static' | 'registered' | 'metadata-document'

/** The argument of `clients.allow`. */
export interface AllowClientInput {
  /** The client id. It is `undefined` when a client registers, because the client has none yet. */
  readonly clientId: string | undefined
  /** How the client is known: registered dynamically, by the URL of a metadata document, or in `clients.static`. */
  readonly kind: ClientKind
  /** The name that the client gives itself. */
  readonly name: string | undefined
  /** The redirect URIs that the client has registered. */
  readonly redirectUris: readonly string[]
  /** The host of the metadata document, or of the first redirect URI. For a private scheme, it begins with the scheme. */
  readonly host: string
}

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
   * the private schemes of known MCP clients. It is also called each time a registered client is used.
   */
  readonly redirectUris?: ((uri: string, client: RedirectClient) => boolean) | undefined
  /**
   * Decides which clients may use the server, within 10 s. It is called when a client registers, when it starts a sign-in, and
   * each time it requests a token. Everything but `true` denies. If it throws, the response is 503. Defaults to all clients.
   */
  readonly allow?: ((client: AllowClientInput) => boolean | Promise<boolean>) | undefined
  /** Clients that are registered in advance. Defaults to none. */
  readonly static?: readonly StaticClient[] | undefined
  /** The number of days after which a registered client is removed that never finished a sign-in. Defaults to 30. */
  readonly unusedTtlDays?: number | undefined
  /**
   * The number of registrations, and apart from them of started sign-ins, that one address may request in a minute. All
   * addresses together may request ten times as many registrations. IPv6 addresses are counted by their /64. Each process counts
   * for itself. Further requests get a 429. Defaults to 60.
   */
  readonly maxRegistrationsPerMinute?: number | undefined
}

const STATIC_RULES = {
  clientId: also(checks.text, (option, clientId) => {
    if (!/^[\x21-\x7e]+$/.test(clientId))
      throw checks.invalidOption(option, 'must be printable ASCII without spaces', clientId)
  }),
  clientSecret: optional(checks.secret),
  redirectUris: also(checks.checkTexts, (option, uris) => {
    if (uris.length === 0) throw checks.invalidKind(option, 'must be a non-empty array of URIs', uris)
    for (const uri of uris) {
      const problem = redirectProblem(uri)
      if (problem !== undefined)
        throw checks.invalidOption(option, `must not contain a URI that ${problem}`, uri)
    }
  }),
  name: optional(checks.text),
} satisfies RulesFor<StaticClient>

const RULES = {
  metadataDocuments: optional(checks.checkBoolean, true),
  registration: optional(checks.checkBoolean, true),
  redirectUris: optional((option, value, given) => {
    const decides = checks.callable<RedirectDecision>('it decides which redirect URIs clients may register')
    return exactly(decides(option, value, given))
  }, isDefaultRedirectUri),
  allow: optional(
    checks.callable<ClientDecision>('it decides which clients may use the server'),
    (): boolean => true,
  ),
  static: optional(
    checks.items(
      'must be an array of { clientId, redirectUris }',
      checks.members('must contain objects such as { clientId, redirectUris }', STATIC_RULES),
    ),
    [],
  ),
  unusedTtlDays: optional(checks.wholeNumber(1, 3_650), 30),
  maxRegistrationsPerMinute: optional(checks.wholeNumber(1), 60),
} satisfies RulesFor<AuthorizationClientsOptions>

/** The rule of the option `clients`. */
export const clientsRule: OptionRule<ReadBy<typeof RULES>> = also(
  checks.members('must be an object such as { registration: false }', RULES),
  (option, { static: clients }) => {
    if (new Set(clients.map(({ clientId }) => clientId)).size < clients.length)
      throw checks.invalidKind(`${option}.static`, 'must have a different clientId for each client', clients)
  },
)

/** Returns a function that accepts a redirect URI only for `true`. A promise is neither `true` nor waited for. */
function exactly(decide: RedirectDecision): RedirectDecision {
  return (uri, client) => {
    const decided: unknown = decide(uri, client)
    // A rejection that nothing handles would end the process.
    if (isPromiseLike(decided)) decided.then(undefined, () => undefined)
    return decided === true
  }
}
