import { describeNetworkFailure } from '../../../base/http/network-failure.ts'
import { retryAfterMs } from '../../../base/http/retry-after.ts'
import { processId } from '../../../base/runtime.ts'
import { setLongTimeout } from '../../../base/timers.ts'
import { VERSION } from '../../../base/version.ts'
import type { TargetConnectionOptions } from './target-options.ts'
import { untracedFetch } from './untraced.ts'

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

/** The maximum length of a response body that is read, in characters. The rest is discarded. */
const MAX_BODY = 65_536

/** Returns the default headers of a request. Edge runtimes have their own `User-Agent`. */
export function jsonHeaders(): Headers {
  return new Headers({
    accept: '*/*',
    'content-type': 'application/json',
    ...(processId() !== undefined && { 'user-agent': `mcp-gatekit/${VERSION}` }),
  })
}

/** Posts to a URL with `fetch`. Requests are not traced. */
export class HttpTarget {
  readonly #url: URL
  readonly #connection: TargetConnectionOptions

  constructor(url: string, connection: TargetConnectionOptions = {}) {
    this.#url = new URL(url)
    this.#connection = connection
  }

  /**
   * Posts a body once. Redirects are not followed, and the body of the response is always read or discarded. Never rejects.
   * @param timeoutMs the maximum duration of the attempt, including the response.
   * @param released when it aborts, so does the request.
   */
  async post(
    headers: Headers,
    body: string | Uint8Array,
    timeoutMs: number,
    released?: AbortSignal,
  ): Promise<PostResult> {
    const attempt = new AbortController()
    const abort = (): void => attempt.abort()
    let late = false
    const timer = setLongTimeout(() => {
      late = true
      abort()
    }, timeoutMs)
    if (released?.aborted) abort()
    else released?.addEventListener('abort', abort, { once: true })
    try {
      // `fetch` keeps a string and its bytes until the response, and reads a blob, which is not in the heap, in parts.
      const content = body.length > MAX_BODY ? new Blob([body as string]) : body
      const init = {
        method: 'POST',
        body: content,
        signal: attempt.signal,
        redirect: 'manual',
        ...this.#connection,
      }
      const response = await untracedFetch(this.#url, headers, init as RequestInit)
      const header = (name: string): string | undefined => response.headers.get(name) ?? undefined
      const waitMs = retryAfterMs({ retryAfter: header('retry-after'), date: header('date') })
      return { status: response.status, header, body: await readText(response), retryAfterMs: waitMs }
    } catch (error) {
      // The error is not kept, because it may contain the URL.
      if (late) return { reason: `did not respond within ${timeoutMs} ms` }
      if (released?.aborted) return { reason: 'had not responded when the transport was shut down' }
      return { reason: `could not be reached${describeNetworkFailure(error)}` }
    } finally {
      timer.clear()
      released?.removeEventListener('abort', abort)
    }
  }
}

/** Reads a body. Never rejects: if the target or the timeout ends it early, the received part is returned. */
async function readText({ body }: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true })
      // Leaving the loop discards the rest.
      if (text.length > MAX_BODY) break
    }
  } catch {
    // The status is known, and the rest of the body does not matter.
  }
  return text
}

/** Returns a response body as JSON if it is an object, otherwise an empty object. */
export function readObject(body: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** Converts a number of seconds of a JSON response to milliseconds. */
export function secondsToMs(seconds: unknown): number | undefined {
  return typeof seconds === 'number' && seconds >= 0
    ? Math.min(seconds * 1000, Number.MAX_SAFE_INTEGER)
    : undefined
}
