import { type Examination, observation } from './examination.ts'
import { answerOf, type HttpExchange, NoResponseError } from './http-exchange.ts'
import type { JsonObject } from './values.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const MAX_REDIRECTS = 3

/** The result of a request for a JSON document. */
export type FoundDocument = Awaited<ReturnType<typeof fetchDocument>>

/** Returns the URLs that clients try if a challenge names none (RFC 9728 §3.1): first with the path, then at the root. */
export function metadataUrls({ origin, pathname }: URL): { readonly path: URL; readonly root: URL } {
  const suffix = pathname === '/' ? '' : pathname
  return { path: new URL(`${WELL_KNOWN}${suffix}`, origin), root: new URL(WELL_KNOWN, origin) }
}

/** Returns the URLs without those that occur before. */
export function distinctUrls(urls: readonly URL[]): readonly URL[] {
  return [...new Set(urls.map(({ href }) => href))].map((href) => new URL(href))
}

/**
 * Requests a URL, and follows redirects. Returns `undefined` without a response.
 * @param send requests one URL, if it is safe to fetch
 */
export async function followRedirects(
  url: URL,
  send: (url: URL) => Promise<HttpExchange | undefined>,
): Promise<HttpExchange | undefined> {
  let at = url
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const response = await send(at)
    const location = response?.redirect === undefined ? undefined : response.header('location')
    if (location === undefined || !URL.canParse(location, at.href)) return response
    at = new URL(location, at)
  }
  return undefined
}

/** Fetches a JSON document as a web page would, and follows redirects to URLs that are safe to fetch. */
export async function fetchDocument(examination: Examination, url: URL, accept = 'application/json') {
  let failure: NoResponseError | undefined
  const headers = { accept, origin: examination.pageOrigin }
  const response = await followRedirects(url, async (at) => {
    if (!examination.mayFetch(at)) return undefined
    const answer = await answerOf(examination.fetch('GET', at, { headers }))
    if (!(answer instanceof NoResponseError)) return answer
    failure = answer
    return undefined
  })
  return {
    url,
    /** The last response, or `undefined` if the URL is not safe to fetch or the server did not respond. */
    response,
    /** The document, if the response was 200 with a JSON object. */
    document: documentOf(response),
    /** The reason for a missing response, if the URL was fetched. */
    failure,
  }
}

/** Returns the JSON object of a response with the status 200, or `undefined`. */
export function documentOf(response: HttpExchange | undefined): JsonObject | undefined {
  return response?.status === 200 ? response.object : undefined
}

/** The documents at the two well-known URLs, in the order in which clients try them. */
export const wellKnownDocuments = observation(async (examination) => {
  const { path, root } = metadataUrls(examination.url)
  const found: FoundDocument[] = []
  for (const url of distinctUrls([path, root])) found.push(await fetchDocument(examination, url))
  return found
})

/** Returns the well-known documents that describe a protected resource. */
export async function publishedDocuments(examination: Examination): Promise<readonly FoundDocument[]> {
  return (await wellKnownDocuments(examination)).filter(({ document }) => document?.resource !== undefined)
}
