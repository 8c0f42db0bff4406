import { type Examination, type Observation, observation } from './examination.ts'
import type { HttpExchange } from './http-exchange.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const MAX_REDIRECTS = 3

/** A JSON document that was looked for. */
export interface FoundDocument {
  readonly url: URL
  /** The last answer; undefined when the URL may not be fetched, or nothing came. */
  readonly answer: HttpExchange | undefined
  /** The document, where the answer was 200 and a JSON object. */
  readonly document: Readonly<Record<string, unknown>> | undefined
}

/** Where clients look when a challenge names nothing (RFC 9728 §3.1): first with the path, then at the root. */
export function metadataUrls({ origin, pathname }: URL): { readonly path: URL; readonly root: URL } {
  const suffix = pathname === '/' ? '' : pathname
  return { path: new URL(`${WELL_KNOWN}${suffix}`, origin), root: new URL(WELL_KNOWN, origin) }
}

/** Gets a JSON document as a page would, following redirects to where it may be fetched. */
export async function fetchDocument(examination: Examination, url: URL): Promise<FoundDocument> {
  let at = url
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    if (!examination.mayFetch(at)) break
    const answer = await examination
      .fetch('GET', at, { headers: { accept: 'application/json', origin: examination.pageOrigin } })
      .catch(() => undefined)
    const location = answer?.header('location')
    if (answer === undefined || answer.status < 300 || answer.status > 399 || location === undefined) {
      return { url, answer, document: documentOf(answer) }
    }
    if (!URL.canParse(location, at.href)) return { url, answer, document: undefined }
    at = new URL(location, at)
  }
  return { url, answer: undefined, document: undefined }
}

function documentOf(answer: HttpExchange | undefined): Readonly<Record<string, unknown>> | undefined {
  const json = answer?.status === 200 ? answer.json : undefined
  return typeof json === 'object' && json !== null && !Array.isArray(json)
    ? (json as Record<string, unknown>)
    : undefined
}

/** What is at the two well-known places, in the order of clients. */
export const wellKnownDocuments: Observation<readonly FoundDocument[]> = observation(async (examination) => {
  const { path, root } = metadataUrls(examination.url)
  const places = path.href === root.href ? [root] : [path, root]
  const found: FoundDocument[] = []
  for (const url of places) found.push(await fetchDocument(examination, url))
  return found
})

/** Those of them that are documents about a protected resource. */
export async function publishedDocuments(examination: Examination): Promise<readonly FoundDocument[]> {
  return (await wellKnownDocuments(examination)).filter(({ document }) => document?.resource !== undefined)
}

/** How a document came to be known. */
export type Place = 'challenge' | 'path' | 'root'

export interface PlacedDocument extends FoundDocument {
  readonly place: Place
}

/** Lists the documents in the order in which clients read them, given what the challenge names. */
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

/** The strings of a member that is a list of them; undefined when it is none. */
export function textsOf(
  document: Readonly<Record<string, unknown>>,
  member: string,
): readonly string[] | undefined {
  const value = document[member]
  return Array.isArray(value) && value.every((entry): entry is string => typeof entry === 'string')
    ? value
    : undefined
}
