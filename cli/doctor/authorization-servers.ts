import type { IssuerForm } from '../clients/profiles.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { InconclusiveError } from './finding.ts'
import { type JsonObject, textsOf } from './json-object.ts'
import { distinctUrls, type FoundDocument, fetchDocument } from './metadata-documents.ts'
import { withoutSlash } from './near-miss.ts'
import { resourceMetadata } from './resource-metadata.ts'

/** Further servers are ignored. */
const MAX_SERVERS = 5

/** The forms of the metadata URL (RFC 8414 §3.1, OpenID Connect Discovery §4), in the order of MCP clients. */
const ISSUER_FORMS = ['oauth-inserted', 'openid-inserted', 'openid-appended'] as const

/** An authorization server with the first metadata document that a client finds, or the last result if there is none. */
export interface AuthorizationServerSeen extends FoundDocument {
  /** The issuer, as the resource names it. */
  readonly issuer: string
}

/** Returns `true` for an http or https URL. Other URLs have no origin, and thus no well-known URLs. */
export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)
}

/** Compares two issuers, ignoring a slash at the end. */
export function isSameIssuer(one: unknown, other: string): boolean {
  return typeof one === 'string' && withoutSlash(one) === withoutSlash(other)
}

/** Returns `true` if clients accept an issuer in metadata: the official ones accept only one slash less than the resource names. */
export function isAcceptedIssuer(said: unknown, issuer: string): boolean {
  return said === issuer || (issuer.endsWith('/') && said === withoutSlash(issuer))
}

/** Returns the URL of one form of the metadata of an issuer. */
export function formUrl(issuer: string, form: IssuerForm): URL {
  const { origin, pathname } = new URL(issuer)
  const path = withoutSlash(pathname)
  const places: Readonly<Record<IssuerForm, string>> = {
    'oauth-inserted': `/.well-known/oauth-authorization-server${path}`,
    'openid-inserted': `/.well-known/openid-configuration${path}`,
    'openid-appended': `${path}/.well-known/openid-configuration`,
    'oauth-root': '/.well-known/oauth-authorization-server',
    'openid-root': '/.well-known/openid-configuration',
  }
  return new URL(places[form], origin)
}

/** Returns the metadata URLs of an issuer. */
export function discoveryUrls(issuer: string, forms: readonly IssuerForm[] = ISSUER_FORMS): readonly URL[] {
  return distinctUrls(forms.map((form) => formUrl(issuer, form)))
}

/** The authorization servers that the resource names. @throws {InconclusiveError} if it names none */
export const authorizationServers: Observation<readonly AuthorizationServerSeen[]> = observation(
  async (examination) => {
    const { document } = await resourceMetadata(examination)
    const issuers = (textsOf(document, 'authorization_servers') ?? []).filter(isHttpUrl)
    if (issuers.length === 0) throw new InconclusiveError('the resource names no authorization server')
    const servers: AuthorizationServerSeen[] = []
    for (const issuer of issuers.slice(0, MAX_SERVERS)) servers.push(await discover(examination, issuer))
    return servers
  },
)

async function discover(examination: Examination, issuer: string): Promise<AuthorizationServerSeen> {
  let found: FoundDocument | undefined
  for (const url of discoveryUrls(issuer)) {
    found = await fetchDocument(examination, url)
    // The other URLs are on the same host. Only a closed connection can depend on the path.
    if (found.document !== undefined || (found.failure !== undefined && found.failure.kind !== 'closed'))
      break
  }
  return { issuer, ...(found as FoundDocument) }
}

/** An authorization server whose metadata was found. */
export interface KnownServer extends AuthorizationServerSeen {
  readonly document: JsonObject
}

/** Returns the authorization servers whose metadata was found. */
export async function knownServers(examination: Examination): Promise<readonly KnownServer[]> {
  const servers = await authorizationServers(examination)
  return servers.filter((server): server is KnownServer => server.document !== undefined)
}

/** Returns `true` if an authorization server does not respond. */
export async function isAuthorizationServerDown(examination: Examination): Promise<boolean> {
  const servers = await authorizationServers(examination).catch(() => [])
  return servers.some(({ failure }) => failure !== undefined)
}
