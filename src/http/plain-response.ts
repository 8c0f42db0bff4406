/** A complete, short HTTP response on plain values, for either face: Node's or the web standard's. */
export interface PlainResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** `answer` as a web-standard response. */
export function toResponse(answer: PlainResponse, method?: string): Response {
  const body = method === 'HEAD' ? null : (answer.body ?? null)
  return new Response(body, { status: answer.status, headers: answer.headers })
}
