import { isRecord } from '../../src/options/value-kinds.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const MAX_REDIRECTS = 3

/** The result of a request for a JSON document. */
export interface FoundDocument {
  readonly url: URL
  /** The last response, or `undefined` if the URL is not safe to fetch or the server did not respond. */
  readonly response: HttpExchange | undefined
  /** The document, if the response was 200 with a JSON object. */
  readonly document: Readonly<Record<string, unknown>> | undefined
  /** The reason for a missing response, if the URL was fetched. */
  readonly failure?: NoResponseError
}

/** Returns the URLs that clients try if a challenge names none (RFC 9728 §3.1): first with the path, then at the root. */
export function metadataUrls({ origin, pathname }: URL): { readonly path: URL; readonly root: URL } {
  const suffix = pathname === '/' ? '' : pathname
  return { path: new URL(`${WELL_KNOWN}${suffix}`, origin), root: new URL(WELL_KNOWN, origin) }
}

/** Fetches a JSON document as a web page would, and follows redirects to URLs that are safe to fetch. */
export async function fetchDocument(examination: Examination, url: URL): Promise<FoundDocument> {
  let at = url
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    if (!examination.mayFetch(at)) break
    const response = await examination
      .fetch('GET', at, { headers: { accept: 'application/json', origin: examination.pageOrigin } })
      .catch((error: Error) =>
        error instanceof NoResponseError ? error : new NoResponseError('network', error.name),
      )
    if (response instanceof NoResponseError)
      return { url, response: undefined, document: undefined, failure: response }
    const location = response.header('location')
    if (response.status < 300 || response.status > 399 || location === undefined)
      return { url, response, document: documentOf(response) }
    if (!URL.canParse(location, at.href)) return { url, response, document: undefined }
    at = new URL(location, at)
  }
  return { url, response: undefined, document: undefined }
}

function documentOf(response: HttpExchange): Readonly<Record<string, unknown>> | undefined {
  const json = response.status === 200 ? response.json : undefined
  return isRecord(json) ? json : undefined
}

/** The documents at the two well-known URLs, in the order in which clients try them. */
export const wellKnownDocuments: Observation<readonly FoundDocument[]> = observation(async (examination) => {
  const { path, root } = metadataUrls(examination.url)
  const places = path.href === root.href ? [root] : [path, root]
  const found: FoundDocument[] = []
  for (const url of places) found.push(await fetchDocument(examination, url))
  return found
})

/** Returns the well-known documents that describe a protected resource. */
export async function publishedDocuments(examination: Examination): Promise<readonly FoundDocument[]> {
  return (await wellKnownDocuments(examination)).filter(({ document }) => document?.resource !== undefined)
}

/** The source of the URL of a document. */
export type Place = 'challenge' | 'path' | 'root'

export interface PlacedDocument extends FoundDocument {
  readonly place: Place
}

/** Lists the documents in the order in which clients read them. @param named the URL in the challenge */
export async function placedDocuments(
  examination: Examination,
  named: string | undefined,
): Promise<readonly PlacedDocument[]> {
  const wellKnown = await wellKnownDocuments(examination)
  const { path } = metadataUrls(examination.url)
  const placed = wellKnown.map(
    (found): PlacedDocument => ({ ...found, place: found.url.href === path.href ? 'path' : 'root' }),
  )
  if (named === undefined || !URL.canParse(named)) return placed
  const url = new URL(named)
  const same = wellKnown.find((found) => found.url.href === url.href)
  const challenged = same ?? (await fetchDocument(examination, url))
  return [{ ...challenged, place: 'challenge' }, ...placed.filter((found) => found.url.href !== url.href)]
}

/** Returns a member that is an array of strings, or `undefined` if it is not. */
export function textsOf(
  document: Readonly<Record<string, unknown>>,
  member: string,
): readonly string[] | undefined {
  const value = document[member]
  return Array.isArray(value) && value.every((entry): entry is string => typeof entry === 'string')
    ? value
    : undefined
}
