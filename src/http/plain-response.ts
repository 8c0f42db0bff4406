/** A complete, short HTTP response as plain values, for the Node.js and the web-standard handler. */
export interface PlainResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** A response of the MCP endpoint. Its body is a stream of events if it is not complete. */
export interface HttpResponse extends Omit<PlainResponse, 'body'> {
  readonly body?: string | ReadableStream<Uint8Array>
}

/** Converts a response of plain values to a web-standard one. */
export function toResponse({ status, headers, body }: HttpResponse, method?: string): Response {
  return new Response(method === 'HEAD' ? null : (body ?? null), { status, headers })
}
