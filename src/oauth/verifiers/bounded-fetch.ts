/** No key set, metadata document or introspection answer of a real authorization server comes near this. */
const MAX_DOCUMENT_BYTES = 1_048_576

/** `fetch` that follows no redirect and gives up on a body of more than 1 MiB. How long it may take, `init.signal` says. */
export async function boundedFetch(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, { ...init, redirect: 'manual' })
  if (response.body === null) return response
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    size += chunk.byteLength
    if (size > MAX_DOCUMENT_BYTES) throw new Error(`the answer is larger than ${MAX_DOCUMENT_BYTES} bytes`)
    chunks.push(chunk)
  }
  return new Response(response.status === 204 || response.status === 304 ? null : Buffer.concat(chunks), {
    status: response.status,
    headers: response.headers,
  })
}
