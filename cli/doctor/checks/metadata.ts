import { isScopeToken } from '../../../src/base/options/scope-token.ts'
import {
  distinctUrls,
  type FoundDocument,
  fetchDocument,
  metadataUrls,
  wellKnownDocuments,
} from '../documents.ts'
import { type CheckFunctions, clientProblem, type Examination, observation } from '../examination.ts'
import { type Finding, fail, findingsOfEach, ifPossible, ok, onlyIf, warn, worst } from '../finding.ts'
import { answerOf, type HttpExchange, NoResponseError } from '../http-exchange.ts'
import { quote, quoteAll } from '../quote.ts'
import { type JsonObject, nearMiss, textsOf, urlOf, withoutSlash } from '../values.ts'
import { isGuarded, refusal } from './protection.ts'
import { requestEndpoint } from './server.ts'

const CHALLENGED = 'at the URL of the challenge'
const AT_PATH = 'at the well-known URL with the path'
const AT_ROOT = 'at the well-known URL of the host'

/** The metadata documents of this resource with their places, in the order in which clients read them. */
const documents = observation(async (examination) => {
  // A server can send challenges only in results.
  const challenged = (await isGuarded(examination))
    ? urlOf((await ifPossible(refusal(examination)))?.parameter('resource_metadata'))
    : undefined
  const wellKnown = await wellKnownDocuments(examination)
  const { path } = metadataUrls(examination.url)
  const placed = wellKnown.map((found) => ({
    ...found,
    place: found.url.href === path.href ? AT_PATH : AT_ROOT,
  }))
  if (challenged === undefined) return placed
  const isChallenged = ({ url }: FoundDocument): boolean => url.href === challenged.href
  const first = wellKnown.find(isChallenged) ?? (await fetchDocument(examination, challenged))
  return [{ ...first, place: CHALLENGED }, ...placed.filter((found) => !isChallenged(found))]
})

/** Returns the document that clients use. @throws {InconclusiveError} if there is none */
export async function resourceMetadata(
  examination: Examination,
): Promise<FoundDocument & { readonly document: JsonObject }> {
  const found = (await documents(examination)).find(({ document }) => document !== undefined)
  const { document } = found ?? {}
  onlyIf(
    found !== undefined && document !== undefined,
    'the metadata document is missing: see metadata.found',
  )
  return { ...found, document }
}

/** Returns the document that clients use, or `undefined` if there is none. */
export async function resourceDocument(examination: Examination): Promise<JsonObject | undefined> {
  return (await resourceMetadata(examination).catch(() => undefined))?.document
}

/**
 * Applies the rule of the official clients: the same origin, and the path of `resource` is the path of the URL or a
 * parent of it. RFC 9728 §3.3 requires identical URLs.
 */
function checkResource(resource: unknown, url: URL): Finding {
  const used = `${url.origin}${url.pathname === '/' ? '' : url.pathname}${url.search}`
  const hint = `set resource to exactly ${used}: scheme, host, and trailing slash must match (mcp-gatekit: option resource)`
  if (resource === undefined) return fail('resource is missing', hint)
  if (typeof resource !== 'string' || !URL.canParse(resource)) return fail('resource is not a URL', hint)
  if (resource === used || resource === url.href) return ok(quote(resource))
  const seen = `resource is ${quote(resource)}`
  if (isResourceOf(resource, url))
    return warn(`${seen}: official clients accept it, clients that follow RFC 9728 §3.3 reject it`, hint)
  const near = nearMiss(resource, used)
  return fail(`${seen}, which clients of ${used} reject${near === undefined ? '' : `: ${near}`}`, hint)
}

/** Returns `true` if `resource` has the origin of `url`, and its path or a parent of it. */
export function isResourceOf(resource: unknown, url: URL): boolean {
  const named = urlOf(resource)
  const folder = (path: string): string => (path.endsWith('/') ? path : `${path}/`)
  return (
    named !== undefined &&
    named.origin === url.origin &&
    url.pathname.length >= named.pathname.length &&
    folder(url.pathname).startsWith(folder(named.pathname))
  )
}

function checkScopes(document: JsonObject): Finding {
  const hint = 'use valid scopes (RFC 6749 §3.3), or remove the member'
  const scopes = textsOf(document, 'scopes_supported')
  if (scopes === undefined) return fail('scopes_supported is not an array of strings', hint)
  if (scopes.length === 0) return fail('scopes_supported is empty', hint)
  if (!scopes.every(isScopeToken))
    return fail(`scopes_supported contains invalid scopes: ${quoteAll(scopes)}`, hint)
  if (!scopes.includes('offline_access')) return ok(`scopes ${quoteAll(scopes)}`)
  return warn(
    'scopes_supported contains offline_access',
    'remove it: clients request it from the authorization server, not for a resource',
  )
}

export const METADATA: CheckFunctions = {
  async 'metadata.found'(examination) {
    const all = await documents(examination)
    const found = all.filter(({ document }) => document !== undefined)
    const seen = all
      .map(({ place, response, document }) =>
        document === undefined ? `not ${place} (${response?.summary ?? 'no response'})` : place,
      )
      .join(', ')
    if (found.length === 0) {
      onlyIf(await isGuarded(examination), 'the server publishes none and requires no token')
      return fail(
        `not found: ${seen}`,
        `respond to GET ${metadataUrls(examination.url).path.href} with 200 and a JSON object, without requiring a token (RFC 9728; mcp-gatekit: mount protectedResourceRouter at the root of the application)`,
      )
    }
    const [first] = all
    if (first?.place === CHALLENGED && first.document === undefined)
      return fail(
        `${seen}; many clients use only the URL of the challenge`,
        `serve the document at ${quote(first.url.href)}, or correct the URL in the challenge`,
      )
    const plain = found.find(({ response }) => response?.mediaType !== 'application/json')
    if (plain === undefined) return ok(seen)
    return warn(
      `Content-Type is ${quote(plain.response?.mediaType || 'missing')}`,
      'send it as application/json (RFC 9728 §3.2)',
    )
  },
  async 'metadata.resource'(examination) {
    const { document: first } = await resourceMetadata(examination)
    const others = (await documents(examination)).filter(
      ({ place, document }) => place === AT_PATH && document !== undefined && document !== first,
    )
    const resources = [first, ...others.map(({ document }) => document)].map((one) => one?.resource)
    return worst(resources.map((resource) => checkResource(resource, examination.url)))
  },
  async 'metadata.authorization-servers'(examination) {
    const { authorization_servers: given } = (await resourceMetadata(examination)).document
    const hint =
      'list the issuer of every authorization server in authorization_servers, as https URLs (RFC 9728 §2)'
    if (given === undefined) return fail('authorization_servers is missing', hint)
    if (!Array.isArray(given) || given.length === 0)
      return fail('authorization_servers is not an array with at least one entry', hint)
    const wrong = given.filter((entry) => examination.safeUrl(entry) === undefined || /[?#]/.test(entry))
    return wrong.length > 0
      ? fail(`not an https URL, or with a query or fragment: ${quoteAll(wrong)}`, hint)
      : ok(quoteAll(given))
  },
  async 'metadata.members'(examination) {
    const { document } = await resourceMetadata(examination)
    const { scopes_supported: scopes, bearer_methods_supported: methods } = document
    if (scopes === undefined && methods === undefined) return ok('no other members')
    const hasHeader = textsOf(document, 'bearer_methods_supported')?.includes('header') === true
    const without = fail(
      'bearer_methods_supported does not contain "header"',
      'add it, or remove the member: MCP clients send tokens only in the Authorization header',
    )
    return worst([
      scopes !== undefined && checkScopes(document),
      methods !== undefined && (hasHeader ? ok('bearer_methods_supported contains "header"') : without),
    ])
  },
  async 'wellknown.format'(examination) {
    const { url } = examination
    const { path, root } = metadataUrls(url)
    const suffix = withoutSlash(url.pathname)
    const server = 'oauth-authorization-server'
    const names = [`${server}${suffix}`, server, 'openid-configuration']
    const others = names.map((name) => new URL(`/.well-known/${name}`, url.origin))
    const urls = distinctUrls([path, root, ...others])
    const documents = await findingsOfEach(urls, async (one) => {
      const request = examination.fetch('GET', one, { headers: { accept: 'application/json' } })
      const problem = problemOf(await answerOf(request))
      if (problem === undefined) return ok(`${urls.length} URLs`)
      return clientProblem(examination, 'well-known-html', `${quote(one.pathname)}: ${problem}`)
    })
    const userAgent = 'mcp-gatekit-doctor'
    // Not `text/event-stream`, which would open a stream. A stream that sends no headers is not a problem of this check.
    const request = { method: 'GET', userAgent, accept: 'application/json' } as const
    const page = await answerOf(requestEndpoint(examination, request))
    if (page.status !== 200 || page.mediaType === 'text/event-stream' || page.json !== undefined)
      return worst(documents)
    const seen = `GET ${quote(url.pathname)} without a token: ${page.summary}, which is not JSON`
    return worst([...documents, clientProblem(examination, 'body-at-endpoint', seen)])
  },
}

/** Returns the reason why clients do not continue with the next URL, or `undefined`. */
function problemOf(response: HttpExchange | NoResponseError): string | undefined {
  if (response instanceof NoResponseError) return `no response (${response.detail})`
  const { status, summary, redirect, succeeded, object } = response
  if (status === 401 || status === 403) return `${summary}, which requires a token or a sign-in`
  if (status >= 500) return summary
  if (redirect !== undefined) return `${status}, ${redirect}`
  return succeeded && object === undefined ? `${summary}, which is not a JSON object` : undefined
}
