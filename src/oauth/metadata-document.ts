import { createHash } from 'node:crypto'
import fresh from 'fresh'
import type { PlainResponse } from '../http/plain-response.ts'

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

/** The headers of a response instead of a document. */
export const UNCACHED = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' } as const

/** The caching of a document that is the same for all clients. */
export const PUBLIC = 'public, max-age=3600'

/** @param body the document as JSON */
export function renderDocument(body: string, cacheControl: string): RenderedDocument {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`
  const headers = { ...CROSS_ORIGIN, 'Cache-Control': cacheControl, ETag: etag }
  return {
    etag,
    unchanged: { status: 304, headers },
    whole: {
      status: 200,
      headers: {
        ...headers,
        'Content-Type': 'application/json',
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
export function refusedMethod(method: string): PlainResponse | undefined {
  if (method === 'GET' || method === 'HEAD') return undefined
  return {
    status: 405,
    headers: { Allow: 'GET, HEAD, OPTIONS', ...CROSS_ORIGIN, 'Content-Type': 'application/json' },
    body: '{"error":"method_not_allowed"}',
  }
}
