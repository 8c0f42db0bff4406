import { retryAfterMs } from '../../retry-after.ts'
import { VERSION } from '../../version.ts'

/** What a target answered, or why there is no answer; neither holds the URL nor a header that was sent. */
export type Answer =
  | {
      readonly status: number
      readonly headers: Headers
      readonly body: string
      /** How long the target asks to wait, in milliseconds. */
      readonly retryAfterMs: number | undefined
    }
  | { readonly status?: undefined; readonly reason: string }

/** Longest answer that is read; the rest is cancelled. In characters. */
const MAX_ANSWER = 65_536

/** The headers of every request, unless the caller replaces them. */
export function jsonHeaders(): Headers {
  return new Headers({ 'content-type': 'application/json', 'user-agent': `mcp-gatekit/${VERSION}` })
}

/**
 * Posts a JSON text once. Redirects are not followed, and the answer's body is always consumed or cancelled.
 * Never rejects.
 * @param timeoutMs how long the attempt may take, its answer included
 */
export async function post(url: string, headers: Headers, body: string, timeoutMs: number): Promise<Answer> {
  const attempt = new AbortController()
  // Does not hold the process by itself; the open request does.
  const timer = setTimeout(() => attempt.abort(), timeoutMs).unref()
  try {
    const { signal } = attempt
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal })
    const { status, headers: answered } = response
    const waitMs = retryAfterMs({ retryAfter: answered.get('retry-after'), date: answered.get('date') })
    return { status, headers: answered, body: await readText(response), retryAfterMs: waitMs }
  } catch (error) {
    // The error itself is not kept: it may name the target.
    const reason = attempt.signal.aborted
      ? `gave no answer in ${timeoutMs} ms`
      : `could not be reached${codeOf(error)}`
    return { reason }
  } finally {
    clearTimeout(timer)
  }
}

/** The body of an answer as JSON, where it is an object. */
export function readObject(body: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** `seconds`, out of a JSON answer, in milliseconds. */
export function secondsToMs(seconds: unknown): number | undefined {
  return typeof seconds === 'number' && seconds >= 0 ? seconds * 1000 : undefined
}

/** Never rejects: once there is a status, an answer that breaks off changes nothing. */
async function readText(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true })
      // Leaving the loop cancels the rest.
      if (text.length > MAX_ANSWER) break
    }
  } catch {
    // Cut short by the target or the timeout.
  }
  return text
}

/** ` (ECONNREFUSED)`: the code of a network error, which `fetch` puts into the cause. */
function codeOf(error: unknown): string {
  const code: unknown = (error as { cause?: { code?: unknown } } | undefined)?.cause?.code
  return typeof code === 'string' && /^[A-Z\d_]{1,64}$/.test(code) ? ` (${code})` : ''
}
