import type { Check } from './check.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import type { NoResponseError } from './http-exchange.ts'
import { type FoundDocument, fetchDocument, textsOf } from './metadata-documents.ts'
import { quote, quoteAll, quoteValue } from './quote.ts'
import { noResponse } from './reachability.ts'
import { resourceMetadata } from './resource-metadata.ts'

/** Further servers are ignored. */
const MAX_SERVERS = 5

type Metadata = Readonly<Record<string, unknown>>

/** An authorization server with its metadata. */
export interface AuthorizationServerSeen {
  /** The issuer, as the resource names it. */
  readonly issuer: string
  /** The first document that a client finds. */
  readonly found: (FoundDocument & { readonly document: Metadata }) | undefined
  /** The reason if the authorization server does not respond. */
  readonly failure?: NoResponseError
}

/** Returns `true` for an http or https URL. Other URLs have no origin, and thus no well-known URLs. */
export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)
}

/** Returns the metadata URLs of an issuer (RFC 8414 §3.1, OpenID Connect Discovery §4), in the order of MCP clients. */
export function discoveryUrls(issuer: string): readonly URL[] {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const places = [
    `/.well-known/oauth-authorization-server${path}`,
    `/.well-known/openid-configuration${path}`,
    `${path}/.well-known/openid-configuration`,
  ]
  return [...new Set(places)].map((place) => new URL(place, origin))
}

/** The authorization servers that the resource names. @throws {InconclusiveError} if it names none */
export const authorizationServers: Observation<readonly AuthorizationServerSeen[]> = observation(
  async (examination) => {
    const { document } = await resourceMetadata(examination)
    const named = textsOf(document, 'authorization_servers') ?? []
    const issuers = named.filter(isHttpUrl)
    if (issuers.length === 0) throw new InconclusiveError('the resource names no authorization server')
    const servers: AuthorizationServerSeen[] = []
    for (const issuer of issuers.slice(0, MAX_SERVERS)) servers.push(await discover(examination, issuer))
    return servers
  },
)

async function discover(examination: Examination, issuer: string): Promise<AuthorizationServerSeen> {
  let failure: NoResponseError | undefined
  for (const url of discoveryUrls(issuer)) {
    const found = await fetchDocument(examination, url)
    if (found.document !== undefined) return { issuer, found: { ...found, document: found.document } }
    failure = found.failure
    // The other URLs are on the same host. Only a closed connection can depend on the path.
    if (failure !== undefined && failure.kind !== 'closed') break
  }
  return { issuer, found: undefined, ...(failure !== undefined && { failure }) }
}

/** Returns `true` if an authorization server does not respond. */
export async function isAuthorizationServerDown(examination: Examination): Promise<boolean> {
  const servers = await authorizationServers(examination).catch(() => [])
  return servers.some(({ failure }) => failure !== undefined)
}

/** Returns a check of each authorization server whose metadata was found. */
function ofEach(check: (metadata: Metadata, issuer: string, examination: Examination) => Finding) {
  return async (examination: Examination): Promise<Finding> => {
    const known = (await authorizationServers(examination)).filter(({ found }) => found !== undefined)
    return worst(known.map(({ issuer, found }) => check(found?.document as Metadata, issuer, examination)))
  }
}

export const AUTHORIZATION_SERVERS: readonly Check[] = [
  {
    id: 'issuer.metadata',
    title: 'Clients find the metadata of each authorization server',
    needs: ['metadata.authorization-servers'],
    async run(examination) {
      return worst(
        (await authorizationServers(examination)).map(({ issuer, found, failure }) => {
          if (failure !== undefined) {
            const { seen, hint = '' } = noResponse(failure)
            return fail(`${quote(issuer)}: ${seen}`, `at the authorization server: ${hint}`)
          }
          return found === undefined
            ? fail(
                `${quote(issuer)} has no metadata`,
                `serve it at ${quote(discoveryUrls(issuer)[0]?.href ?? '')} (RFC 8414) or as an OpenID configuration, or correct the URL of the issuer in the resource metadata`,
              )
            : ok(quote(found.url.href))
        }),
      )
    },
  },
  {
    id: 'issuer.identity',
    title: 'The issuer in the metadata matches the resource metadata',
    needs: ['issuer.metadata'],
    run: ofEach(({ issuer: said }, issuer) => {
      if (said === issuer) return ok(quote(issuer))
      const seen = `the resource names ${quote(issuer)}, the authorization server ${quoteValue(said)}`
      const hint =
        'make both identical (RFC 8414 §3.3): clients that compare them reject the document otherwise'
      return typeof said === 'string' && said.replace(/\/$/, '') === issuer.replace(/\/$/, '')
        ? warn(seen, hint)
        : fail(seen, hint)
    }),
  },
  {
    id: 'issuer.endpoints',
    title: 'The authorization code flow is available',
    needs: ['issuer.metadata'],
    run: ofEach((metadata, issuer, examination) => {
      const hint = 'enable the authorization code flow at the authorization server, with https endpoints'
      for (const name of ['authorization_endpoint', 'token_endpoint']) {
        const value = metadata[name]
        if (typeof value !== 'string' || !URL.canParse(value))
          return fail(`${quote(issuer)} has no ${name}`, hint)
        if (!examination.mayFetch(new URL(value)))
          return fail(`${name} is ${quote(value)}, which is not https`, hint)
      }
      if (metadata.response_types_supported === undefined) return ok('both endpoints')
      const types = textsOf(metadata, 'response_types_supported')
      return types?.includes('code') === true
        ? ok('both endpoints, and the response type code')
        : fail(
            `response_types_supported is ${quoteAll(types ?? []) || 'not an array of strings, or empty'}`,
            hint,
          )
    }),
  },
  {
    id: 'issuer.pkce',
    title: 'PKCE with S256 is supported',
    needs: ['issuer.metadata'],
    run: ofEach((metadata, issuer) => {
      const hint =
        'enable PKCE with S256 and list it in code_challenge_methods_supported: MCP clients must stop without it'
      if (metadata.code_challenge_methods_supported === undefined)
        return fail(`${quote(issuer)} has no code_challenge_methods_supported`, hint)
      const methods = textsOf(metadata, 'code_challenge_methods_supported')
      return methods?.includes('S256') === true
        ? ok(quoteAll(methods))
        : fail(
            `code_challenge_methods_supported is ${quoteAll(methods ?? []) || 'empty or not an array'}`,
            hint,
          )
    }),
  },
  {
    id: 'issuer.registration',
    title: 'New clients can register',
    needs: ['issuer.metadata'],
    run: ofEach((metadata) => {
      const ways = [
        ...(metadata.client_id_metadata_document_supported === true ? ['client ID metadata documents'] : []),
        ...(typeof metadata.registration_endpoint === 'string' ? ['dynamic registration (RFC 7591)'] : []),
      ]
      return ways.length > 0
        ? ok(ways.join(' and '))
        : warn(
            'neither client ID metadata documents nor dynamic registration',
            'enable one of them, preferably client ID metadata documents; otherwise register every client manually and configure its client_id',
          )
    }),
  },
]
