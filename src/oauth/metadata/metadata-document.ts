import { createHash } from 'node:crypto'
import fresh from 'fresh'
import type { PlainResponse } from '../../base/http/plain-response.ts'

/** A JSON document that any web page may read, as complete responses. */
export interface RenderedDocument {
  readonly etag: string
  readonly whole: PlainResponse
  readonly unchanged: PlainResponse
}

/** The headers that let any web page read a document. */
export const CROSS_ORIGIN = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'ETag',
} as const

/** The headers of a document: which pages may read it, and its media type. */
export interface DocumentKind {
  readonly cors: Readonly<Record<string, string>>
  readonly mediaType: string
}

const JSON_DOCUMENT: DocumentKind = { cors: CROSS_ORIGIN, mediaType: 'application/json' }

/** The headers of a response instead of a document. */
export const UNCACHED = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' } as const

/** The caching of a document that is the same for all clients. */
export const PUBLIC = 'public, max-age=3600'

/**
 * The caching of a document that depends on the request, by its host or by a function. A cache that ignores the host would send
 * the document of one resource to clients of another.
 */
export const UNSTORED = 'no-store'

/** @param body the document as JSON */
export function renderDocument(
  body: string,
  cacheControl: string,
  { cors, mediaType }: DocumentKind = JSON_DOCUMENT,
): RenderedDocument {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`
  const headers = { ...cors, 'Cache-Control': cacheControl, ETag: etag }
  return {
    etag,
    unchanged: { status: 304, headers },
    whole: {
      status: 200,
      headers: {
        ...headers,
        'Content-Type': mediaType,
        'Content-Length': String(Buffer.byteLength(body)),
      },
      body,
    },
  }
}

/** Returns the document, or a 304 if the client has it. @param ifNoneMatch the `If-None-Match` header */
export function respondWith(document: RenderedDocument, ifNoneMatch: string | undefined): PlainResponse {
  // `Cache-Control` of the request is ignored, because fetch() adds `no-cache` to every conditional request.
  const isFresh =
    ifNoneMatch !== undefined && fresh({ 'if-none-match': ifNoneMatch }, { etag: document.etag })
  return isFresh ? document.unchanged : document.whole
}

/** Returns the 405 for a method other than GET and HEAD; `undefined` for these. */
export function refusedMethod(
  method: string,
  cors: DocumentKind['cors'] = CROSS_ORIGIN,
): PlainResponse | undefined {
  if (method === 'GET' || method === 'HEAD') return undefined
  return {
    status: 405,
    headers: { Allow: 'GET, HEAD, OPTIONS', ...cors, 'Content-Type': 'application/json' },
    body: '{"error":"method_not_allowed"}',
  }
}
