import { PushedBody } from './pushed-body.ts'

/** A complete, short HTTP response as plain values, for the Node.js and the web-standard handler. */
export interface PlainResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** Like `PlainResponse`, with a body that may stay open for hours. */
export interface PushedResponse extends Omit<PlainResponse, 'body'> {
  readonly body: PushedBody
}

/** A response of the MCP endpoint. */
export type HttpResponse = PlainResponse | PushedResponse | Response

/** Converts a response of plain values to a web-standard one. */
export function toResponse(
  { status, headers, body }: PlainResponse | PushedResponse,
  method?: string,
): Response {
  const sent = body instanceof PushedBody ? body.toStream() : (body ?? null)
  return new Response(method === 'HEAD' ? null : sent, { status, headers })
}
