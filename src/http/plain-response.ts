/** A complete, short HTTP response as plain values, for the Node.js and the web-standard handler. */
export interface PlainResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** Converts a plain response to a web-standard one. */
export function toResponse(response: PlainResponse, method?: string): Response {
  const body = method === 'HEAD' ? null : (response.body ?? null)
  return new Response(body, { status: response.status, headers: response.headers })
}
