import type { Check } from './check.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import { type FoundDocument, fetchDocument, textsOf } from './metadata-documents.ts'
import { quote, quoteAll, quoteValue } from './quote.ts'
import { resourceMetadata } from './resource-metadata.ts'

/** More are not looked at. */
const MAX_SERVERS = 5

type Metadata = Readonly<Record<string, unknown>>

/** An authorization server, as its discovery says. */
export interface AuthorizationServerSeen {
  /** As the resource names it. */
  readonly issuer: string
  /** The first document that was found, in the order of clients. */
  readonly found: (FoundDocument & { readonly document: Metadata }) | undefined
}

/** Where the metadata of an issuer is (RFC 8414 §3.1, OpenID Connect Discovery §4), in the order of MCP clients. */
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

/** The authorization servers that the resource names. @throws {InconclusiveError} where it names none */
export const authorizationServers: Observation<readonly AuthorizationServerSeen[]> = observation(
  async (examination) => {
    const { document } = await resourceMetadata(examination)
    const named = textsOf(document, 'authorization_servers') ?? []
    const issuers = named.filter((issuer) => URL.canParse(issuer))
    if (issuers.length === 0) throw new InconclusiveError('the resource names no authorization server')
    const servers: AuthorizationServerSeen[] = []
    for (const issuer of issuers.slice(0, MAX_SERVERS)) servers.push(await discover(examination, issuer))
    return servers
  },
)

async function discover(examination: Examination, issuer: string): Promise<AuthorizationServerSeen> {
  for (const url of discoveryUrls(issuer)) {
    const found = await fetchDocument(examination, url)
    if (found.document !== undefined) return { issuer, found: { ...found, document: found.document } }
  }
  return { issuer, found: undefined }
}

/** Puts one question to each server whose metadata was found. */
function ofEach(judge: (metadata: Metadata, issuer: string, examination: Examination) => Finding) {
  return async (examination: Examination): Promise<Finding> => {
    const known = (await authorizationServers(examination)).filter(({ found }) => found !== undefined)
    return worst(known.map(({ issuer, found }) => judge(found?.document as Metadata, issuer, examination)))
  }
}

export const AUTHORIZATION_SERVERS: readonly Check[] = [
  {
    id: 'issuer.metadata',
    title: 'Each authorization server can be discovered',
    needs: ['metadata.authorization-servers'],
    async run(examination) {
      return worst(
        (await authorizationServers(examination)).map(({ issuer, found }) =>
          found === undefined
            ? fail(
                `${quote(issuer)} has no metadata`,
                `serve it at ${quote(discoveryUrls(issuer)[0]?.href ?? '')} (RFC 8414) or as OpenID configuration, or name the issuer by its exact URL`,
              )
            : ok(quote(found.url.href)),
        ),
      )
    },
  },
  {
    id: 'issuer.identity',
    title: 'Its issuer is the one that was named',
    needs: ['issuer.metadata'],
    run: ofEach(({ issuer: said }, issuer) => {
      if (said === issuer) return ok(quote(issuer))
      const seen = `named as ${quote(issuer)}, it calls itself ${quoteValue(said)}`
      const hint =
        'write both alike, to the letter (RFC 8414 §3.3): clients that compare refuse the document otherwise'
      return typeof said === 'string' && said.replace(/\/$/, '') === issuer.replace(/\/$/, '')
        ? warn(seen, hint)
        : fail(seen, hint)
    }),
  },
  {
    id: 'issuer.endpoints',
    title: 'It issues tokens for an authorization code',
    needs: ['issuer.metadata'],
    run: ofEach((metadata, issuer, examination) => {
      const hint = 'enable the authorization code flow at the authorization server, with endpoints on https'
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
        ? ok('both endpoints, and code')
        : fail(`response types are ${quoteAll(types ?? []) || 'no list'}`, hint)
    }),
  },
  {
    id: 'issuer.pkce',
    title: 'It supports PKCE with S256',
    needs: ['issuer.metadata'],
    run: ofEach((metadata, issuer) => {
      const hint =
        'enable PKCE with S256, and say so in code_challenge_methods_supported: MCP clients must not go on without'
      if (metadata.code_challenge_methods_supported === undefined)
        return fail(`${quote(issuer)} does not name code_challenge_methods_supported`, hint)
      const methods = textsOf(metadata, 'code_challenge_methods_supported')
      return methods?.includes('S256') === true
        ? ok(quoteAll(methods))
        : fail(`only ${quoteAll(methods ?? []) || 'nothing'}`, hint)
    }),
  },
  {
    id: 'issuer.registration',
    title: 'Clients it does not know can register',
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
            'enable one of them, the former if there is a choice; otherwise register every client by hand and give it its client_id',
          )
    }),
  },
]
