/** A complete, short HTTP response as plain values, for the Node.js and the web-standard handler. */
export interface PlainResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** A response of the MCP endpoint. */
export type HttpResponse = PlainResponse | Response

/** Converts a response of plain values to a web-standard one. */
export function toResponse({ status, headers, body }: PlainResponse, method?: string): Response {
  return new Response(method === 'HEAD' ? null : (body ?? null), { status, headers })
}
