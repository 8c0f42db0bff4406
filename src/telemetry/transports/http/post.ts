import { retryAfterMs } from '../../../http/retry-after.ts'

/** The response of a target, or the reason why there is none. It contains neither the URL nor a header of the request. */
export type PostResult =
  | {
      readonly status: number
      /** Returns the value of a header by its name in lowercase. */
      readonly header: (name: string) => string | undefined
      /** The beginning of the body. */
      readonly body: string
      /** The pause that the target asks for, in milliseconds. */
      readonly retryAfterMs: number | undefined
    }
  | { readonly status?: undefined; readonly reason: string }

/** One attempt to post. */
export interface Post {
  readonly headers: Headers
  readonly body: string
  /** Aborts the attempt. */
  readonly signal: AbortSignal
  /** When it aborts, the request must no longer keep the process alive. */
  readonly released: AbortSignal
}

/** The maximum length of a response body that is read, in characters. The rest is discarded. */
const MAX_BODY = 65_536

export function resultOf(
  status: number,
  header: (name: string) => string | undefined,
  body: string,
): PostResult {
  const waitMs = retryAfterMs({ retryAfter: header('retry-after'), date: header('date') })
  return { status, header, body, retryAfterMs: waitMs }
}

/** Reads a body. Never rejects: if the target or the timeout ends it early, the received part is returned. */
export async function readText(chunks: AsyncIterable<unknown>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const chunk of chunks) {
      text += decoder.decode(chunk as Uint8Array, { stream: true })
      // Leaving the loop discards the rest.
      if (text.length > MAX_BODY) break
    }
  } catch {
    // The status is known, and the rest of the body does not matter.
  }
  return text
}
