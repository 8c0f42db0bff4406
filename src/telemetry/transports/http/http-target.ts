import { describeNetworkFailure } from '../../../http/network-failure.ts'
import { isNode, processId } from '../../../runtime.ts'
import { setLongTimeout } from '../../../timers.ts'
import { VERSION } from '../../../version.ts'
import { type HttpProxy, readEnvProxy } from './env-proxy.ts'
import { postWithFetch } from './fetch-requests.ts'
import { NodeRequests } from './node-requests.ts'
import type { Post, PostResult } from './post.ts'
import type { TargetConnectionOptions } from './target-options.ts'
import { untraced } from './untraced.ts'

/** A signal that never aborts. */
const NEVER = new AbortController().signal

/** Returns the default headers of a request. Browsers and edge runtimes have their own `User-Agent`. */
export function jsonHeaders(): Headers {
  return new Headers({
    accept: '*/*',
    'content-type': 'application/json',
    ...(processId() !== undefined && { 'user-agent': `mcp-gatekit/${VERSION}` }),
  })
}

/**
 * Posts JSON to a URL.
 *
 * Requests are not traced. Node.js uses `NodeRequests`, which hides the path from instrumentations. Other runtimes, and
 * transports with a `dispatcher`, use `fetch`.
 */
export class HttpTarget {
  readonly #url: URL
  readonly #connection: TargetConnectionOptions
  readonly #node: NodeRequests | undefined

  /** @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the proxy of the environment is invalid. */
  constructor(
    url: string,
    connection: TargetConnectionOptions = {},
    readProxy: (url: URL) => HttpProxy | undefined = readEnvProxy,
  ) {
    const { agent, dispatcher } = connection
    this.#url = new URL(url)
    this.#connection = connection
    if (dispatcher !== undefined || (agent === undefined && !isNode())) return
    this.#node = new NodeRequests(this.#url, agent, agent === undefined ? readProxy(this.#url) : undefined)
  }

  /**
   * Posts JSON once. Redirects are not followed, and the body of the response is always read or discarded. Never rejects.
   * @param timeoutMs the maximum duration of the attempt, including the response.
   * @param released when it aborts, the request no longer keeps the process alive. A request of `fetch` is aborted.
   */
  async post(
    headers: Headers,
    body: string,
    timeoutMs: number,
    released: AbortSignal = NEVER,
  ): Promise<PostResult> {
    const attempt = new AbortController()
    let late = false
    const timer = setLongTimeout(() => {
      late = true
      attempt.abort()
    }, timeoutMs)
    try {
      return await untraced(() => this.#send({ headers, body, signal: attempt.signal, released }))
    } catch (error) {
      // The error is not kept, because it may contain the URL.
      if (late) return { reason: `did not respond within ${timeoutMs} ms` }
      if (released.aborted) return { reason: 'had not responded when the transport was shut down' }
      return { reason: `could not be reached${describeNetworkFailure(error)}` }
    } finally {
      timer.clear()
    }
  }

  /** Closes idle connections. */
  close(): void {
    this.#node?.close()
  }

  #send(post: Post): Promise<PostResult> {
    return this.#node?.send(post) ?? postWithFetch(this.#url, this.#connection.dispatcher, post)
  }
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
