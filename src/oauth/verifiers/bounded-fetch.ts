/** The maximum size of a key set, metadata document, or introspection response. Real ones are much smaller. */
const MAX_DOCUMENT_BYTES = 1_048_576

/** The initial size of the buffer for a body. It doubles when it is full. */
const FIRST_BYTES = 16_384

/**
 * Like `fetch`, but does not follow redirects and fails for a body of more than 1 MiB. `init.signal` limits the time.
 * The memory for the body depends on its size only, not on the size of the chunks that it comes in.
 */
export async function boundedFetch(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, { ...init, redirect: 'manual' })
  if (response.body === null) return response
  let body = Buffer.alloc(FIRST_BYTES)
  let size = 0
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    const end = size + chunk.byteLength
    if (end > MAX_DOCUMENT_BYTES) throw new Error(`the response is larger than ${MAX_DOCUMENT_BYTES} bytes`)
    if (end > body.length) body = Buffer.concat([body], Math.max(end, 2 * body.length))
    body.set(chunk, size)
    size = end
  }
  const isEmpty = response.status === 204 || response.status === 304
  return new Response(isEmpty ? null : body.subarray(0, size), {
    status: response.status,
    headers: response.headers,
  })
}
