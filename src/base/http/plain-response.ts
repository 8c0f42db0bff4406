/** A complete, short HTTP response as plain values, for the Node.js and the web-standard handler. */
export interface PlainResponse<Body = string> {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Body
}

/** A response of the MCP endpoint. Its body is a stream of events if it is not complete. */
export type HttpResponse = PlainResponse<string | ReadableStream<Uint8Array>>

/** Converts a response of plain values to a web-standard one. */
export function toResponse({ status, headers, body }: HttpResponse, method?: string): Response {
  return new Response(method === 'HEAD' ? null : (body ?? null), { status, headers })
}
