import { isScopeToken } from '../../src/options/scope-token.ts'
import type { Challenge } from './challenges.ts'
import type { Check } from './check.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import { metadataUrls, type PlacedDocument, placedDocuments, textsOf } from './metadata-documents.ts'
import { nearMiss } from './near-miss.ts'
import { bearerChallenge, isGuarded } from './protection.ts'
import { quote, quoteAll } from './quote.ts'

/** The metadata documents of this resource, in the order in which clients read them. */
const documents: Observation<readonly PlacedDocument[]> = observation(async (examination) => {
  const challenge = (await isGuarded(examination)) ? await challengeOf(examination) : undefined
  return await placedDocuments(examination, challenge?.parameters.get('resource_metadata'))
})

/** Returns the challenge of the 401, or `undefined` if the server sends challenges only in results. */
async function challengeOf(examination: Examination): Promise<Challenge | undefined> {
  return await bearerChallenge(examination).catch((error: unknown) => {
    if (error instanceof InconclusiveError) return undefined
    throw error
  })
}

/** Returns the document that clients use. @throws {InconclusiveError} if there is none */
export async function resourceMetadata(
  examination: Examination,
): Promise<PlacedDocument & { readonly document: Readonly<Record<string, unknown>> }> {
  const found = (await documents(examination)).find(({ document }) => document !== undefined)
  if (found?.document === undefined)
    throw new InconclusiveError('the metadata document is missing: see metadata.found')
  return { ...found, document: found.document }
}

const PLACES = {
  challenge: 'at the URL of the challenge',
  path: 'at the well-known URL with the path',
  root: 'at the well-known URL of the host',
}

export const RESOURCE_METADATA: readonly Check[] = [
  {
    id: 'metadata.found',
    title: 'Clients find the metadata document',
    needs: ['server.endpoint'],
    async run(examination) {
      const all = await documents(examination)
      const found = all.filter(({ document }) => document !== undefined)
      const seen = all.map(({ place, response, document }) =>
        document === undefined
          ? `not ${PLACES[place]} (${response?.summary ?? 'no response'})`
          : PLACES[place],
      )
      if (found.length === 0 && !(await isGuarded(examination)))
        throw new InconclusiveError('the server publishes none and requires no token')
      const hint = `respond to GET ${metadataUrls(examination.url).path.href} with 200 and a JSON object, without requiring a token (RFC 9728; mcp-gatekit: mount protectedResourceRouter at the root of the application)`
      const [first] = all
      if (found.length === 0) return fail(`not found: ${seen.join(', ')}`, hint)
      if (first?.place === 'challenge' && first.document === undefined) {
        return fail(
          `${seen.join(', ')}; many clients use only the URL of the challenge`,
          `serve the document at ${quote(first.url.href)}, or correct the URL in the challenge`,
        )
      }
      const plain = found.filter(({ response }) => response?.mediaType !== 'application/json')
      return plain.length > 0
        ? warn(
            `Content-Type is ${quote(plain[0]?.response?.mediaType || 'missing')}`,
            'send it as application/json (RFC 9728 §3.2)',
          )
        : ok(seen.join(', '))
    },
  },
  {
    id: 'metadata.resource',
    title: 'The resource in the metadata is the URL that clients use',
    needs: ['metadata.found'],
    async run(examination) {
      const first = await resourceMetadata(examination)
      const others = (await documents(examination)).filter(
        ({ place, document }) => place === 'path' && document !== undefined && document !== first.document,
      )
      return worst(
        [first, ...others].map(({ document }) => checkResource(document?.resource, examination.url)),
      )
    },
  },
  {
    id: 'metadata.authorization-servers',
    title: 'The metadata names an authorization server',
    needs: ['metadata.found'],
    async run(examination) {
      const { document } = await resourceMetadata(examination)
      const hint =
        'list the issuer of every authorization server in authorization_servers, as https URLs (RFC 9728 §2)'
      const given = document.authorization_servers
      if (!Array.isArray(given) || given.length === 0)
        return fail(
          `authorization_servers is ${given === undefined ? 'missing' : 'not an array with at least one entry'}`,
          hint,
        )
      const wrong = given.filter((entry) => !isIssuer(entry, examination))
      return wrong.length > 0
        ? fail(`not an https URL, or with a query or fragment: ${quoteAll(wrong)}`, hint)
        : ok(quoteAll(given))
    },
  },
  {
    id: 'metadata.members',
    title: 'The other members of the metadata are valid',
    needs: ['metadata.found'],
    async run(examination) {
      const { document } = await resourceMetadata(examination)
      const findings: Finding[] = []
      if (document.scopes_supported !== undefined) findings.push(checkScopes(document))
      if (document.bearer_methods_supported !== undefined) {
        findings.push(
          textsOf(document, 'bearer_methods_supported')?.includes('header') === true
            ? ok('bearer_methods_supported contains "header"')
            : fail(
                'bearer_methods_supported does not contain "header"',
                'add it, or remove the member: MCP clients send tokens only in the Authorization header',
              ),
        )
      }
      return findings.length === 0 ? ok('no other members') : worst(findings)
    },
  },
]

/**
 * Applies the rule of the official clients: the same origin, and the path of `resource` is the path of the URL or a
 * parent of it. RFC 9728 §3.3 requires identical URLs.
 */
function checkResource(resource: unknown, url: URL): Finding {
  const used = `${url.origin}${url.pathname === '/' ? '' : url.pathname}${url.search}`
  const hint = `set resource to exactly ${used}: scheme, host, and trailing slash must match (mcp-gatekit: option resource)`
  if (typeof resource !== 'string' || !URL.canParse(resource))
    return fail(`resource is ${resource === undefined ? 'missing' : 'not a URL'}`, hint)
  if (resource === used || resource === url.href) return ok(quote(resource))
  const near = nearMiss(resource, used)
  return isResourceOf(resource, url)
    ? warn(
        `resource is ${quote(resource)}: official clients accept it, clients that follow RFC 9728 §3.3 reject it`,
        hint,
      )
    : fail(
        `resource is ${quote(resource)}, which clients of ${used} reject${near === undefined ? '' : `: ${near}`}`,
        hint,
      )
}

/** Returns `true` if `resource` has the origin of `url`, and its path or a parent of it. */
export function isResourceOf(resource: string, url: URL): boolean {
  if (!URL.canParse(resource)) return false
  const named = new URL(resource)
  const folder = (path: string): string => (path.endsWith('/') ? path : `${path}/`)
  return (
    named.origin === url.origin &&
    url.pathname.length >= named.pathname.length &&
    folder(url.pathname).startsWith(folder(named.pathname))
  )
}

function isIssuer(value: unknown, examination: Examination): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false
  const url = new URL(value)
  return examination.mayFetch(url) && !/[?#]/.test(value)
}

function checkScopes(document: Readonly<Record<string, unknown>>): Finding {
  const scopes = textsOf(document, 'scopes_supported')
  if (scopes === undefined || scopes.length === 0 || !scopes.every(isScopeToken)) {
    return fail(
      scopes === undefined || scopes.length === 0
        ? `scopes_supported is ${scopes === undefined ? 'not an array of strings' : 'empty'}`
        : `scopes_supported contains invalid scopes: ${quoteAll(scopes)}`,
      'use valid scopes (RFC 6749 §3.3), or remove the member',
    )
  }
  return scopes.includes('offline_access')
    ? warn(
        'scopes_supported contains offline_access',
        'remove it: clients request it from the authorization server, not for a resource',
      )
    : ok(`scopes ${quoteAll(scopes)}`)
}
