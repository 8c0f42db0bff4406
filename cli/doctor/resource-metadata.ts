import { isScopeToken } from '../../src/options/scope-token.ts'
import type { Check } from './check.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import { metadataUrls, type PlacedDocument, placedDocuments, textsOf } from './metadata-documents.ts'
import { bearerChallenge, isGuarded } from './protection.ts'
import { quote, quoteAll } from './quote.ts'

/** The documents about this resource, in the order in which clients read them. */
const documents: Observation<readonly PlacedDocument[]> = observation(async (examination) => {
  const challenge = (await isGuarded(examination)) ? await bearerChallenge(examination) : undefined
  return await placedDocuments(examination, challenge?.parameters.get('resource_metadata'))
})

/** The document that clients go by. @throws {InconclusiveError} where there is none */
export async function resourceMetadata(
  examination: Examination,
): Promise<PlacedDocument & { readonly document: Readonly<Record<string, unknown>> }> {
  const found = (await documents(examination)).find(({ document }) => document !== undefined)
  if (found?.document === undefined)
    throw new InconclusiveError('there is no metadata document: see metadata.found')
  return { ...found, document: found.document }
}

const PLACES = { challenge: 'where the challenge says', path: 'in the path form', root: 'in the root form' }

export const RESOURCE_METADATA: readonly Check[] = [
  {
    id: 'metadata.found',
    title: 'The metadata document is where clients look',
    needs: ['server.endpoint'],
    async run(examination) {
      const all = await documents(examination)
      const found = all.filter(({ document }) => document !== undefined)
      const seen = all.map(({ place, answer, document }) =>
        document === undefined
          ? `not ${PLACES[place]} (${answer?.summary ?? 'not to be had'})`
          : `${PLACES[place]}`,
      )
      if (found.length === 0 && !(await isGuarded(examination)))
        throw new InconclusiveError('none is published, and no token is wanted')
      const hint = `answer GET ${metadataUrls(examination.url).path.href} with 200 and a JSON object, without asking for a token (RFC 9728; mcp-gatekit: protectedResourceRouter at the root of the application)`
      const [first] = all
      if (found.length === 0) return fail(`nowhere: ${seen.join(', ')}`, hint)
      if (first?.place === 'challenge' && first.document === undefined) {
        return fail(
          `${seen.join(', ')}; many clients look nowhere else than where the challenge says`,
          `serve the document at ${quote(first.url.href)}, or name the right URL in the challenge`,
        )
      }
      const plain = found.filter(({ answer }) => answer?.mediaType !== 'application/json')
      return plain.length > 0
        ? warn(
            `it comes as ${quote(plain[0]?.answer?.mediaType || 'no media type')}`,
            'send it as application/json (RFC 9728 §3.2)',
          )
        : ok(seen.join(', '))
    },
  },
  {
    id: 'metadata.resource',
    title: 'Its resource is the URL that clients use',
    needs: ['metadata.found'],
    async run(examination) {
      const first = await resourceMetadata(examination)
      const others = (await documents(examination)).filter(
        ({ place, document }) => place === 'path' && document !== undefined && document !== first.document,
      )
      return worst(
        [first, ...others].map(({ document }) => judgeResource(document?.resource, examination.url)),
      )
    },
  },
  {
    id: 'metadata.authorization-servers',
    title: 'It names an authorization server',
    needs: ['metadata.found'],
    async run(examination) {
      const { document } = await resourceMetadata(examination)
      const hint =
        'list the issuer of every authorization server in authorization_servers, as https URLs (RFC 9728 §2)'
      const given = document.authorization_servers
      if (!Array.isArray(given) || given.length === 0)
        return fail(
          `authorization_servers is ${given === undefined ? 'missing' : 'no list with an entry'}`,
          hint,
        )
      const wrong = given.filter((entry) => !isIssuer(entry, examination))
      return wrong.length > 0
        ? fail(`no https URL, or one with a query or fragment: ${quoteAll(wrong)}`, hint)
        : ok(quoteAll(given))
    },
  },
  {
    id: 'metadata.members',
    title: 'Its other members are sound',
    needs: ['metadata.found'],
    async run(examination) {
      const { document } = await resourceMetadata(examination)
      const findings: Finding[] = []
      if (document.scopes_supported !== undefined) findings.push(judgeScopes(document))
      if (document.bearer_methods_supported !== undefined) {
        findings.push(
          textsOf(document, 'bearer_methods_supported')?.includes('header') === true
            ? ok('tokens in the header')
            : fail(
                'bearer_methods_supported does not hold "header"',
                'add it, or leave the member out: MCP clients send tokens in the Authorization header only',
              ),
        )
      }
      return findings.length === 0 ? ok('there are none') : worst(findings)
    },
  },
]

/**
 * The rule of the official clients: the same origin, and the path of `resource` is the URL's or a parent of it. RFC
 * 9728 §3.3 wants them to be identical.
 */
function judgeResource(resource: unknown, url: URL): Finding {
  const used = `${url.origin}${url.pathname === '/' ? '' : url.pathname}${url.search}`
  const hint = `let resource be ${used} to the letter: no other host or scheme, no trailing slash more or less (mcp-gatekit: the option resource)`
  if (typeof resource !== 'string' || !URL.canParse(resource))
    return fail(`resource is ${resource === undefined ? 'missing' : 'no URL'}`, hint)
  if (resource === used || resource === url.href) return ok(quote(resource))
  return isResourceOf(resource, url)
    ? warn(
        `resource is ${quote(resource)}: accepted by the official clients, refused by those that compare by RFC 9728 §3.3`,
        hint,
      )
    : fail(`resource is ${quote(resource)}, which clients of ${used} refuse`, hint)
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

function judgeScopes(document: Readonly<Record<string, unknown>>): Finding {
  const scopes = textsOf(document, 'scopes_supported')
  if (scopes === undefined || scopes.length === 0 || !scopes.every(isScopeToken)) {
    return fail(
      scopes === undefined || scopes.length === 0
        ? `scopes_supported is ${scopes === undefined ? 'no list of texts' : 'empty'}`
        : `scopes_supported holds what is no scope: ${quoteAll(scopes)}`,
      'list scopes of RFC 6749 §3.3, or leave the member out',
    )
  }
  return scopes.includes('offline_access')
    ? warn(
        'scopes_supported holds offline_access',
        'leave it out: it is asked of the authorization server, not of a resource',
      )
    : ok(`scopes ${quoteAll(scopes)}`)
}
