import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { retryAfterMs } from '../../../http/retry-after.ts'
import { setLongTimeout } from '../../../timers.ts'
import { VERSION } from '../../../version.ts'
import { type HttpProxy, readEnvProxy } from './env-proxy.ts'
import { describeNetworkFailure } from './network-failure.ts'
import { tunnelThrough } from './proxy-tunnel.ts'
import { type FetchDispatcher, protocolOf, type TargetConnectionOptions } from './target-options.ts'
import { untraced } from './untraced.ts'
import { untracedDispatcher } from './untraced-dispatcher.ts'

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

interface Post {
  readonly headers: Headers
  readonly body: string
  /** Aborts the attempt. */
  readonly signal: AbortSignal
  /** When it aborts, the request must no longer keep the process alive. */
  readonly released: AbortSignal
}

/** A signal that never aborts. */
const NEVER = new AbortController().signal

/** The maximum length of a response body that is read, in characters. The rest is discarded. */
const MAX_BODY = 65_536

/** How long an idle connection is kept. Servers keep it longer, so that a request never uses a connection that closes. */
const IDLE_MS = 4_000

/** Returns the default headers of a request. */
export function jsonHeaders(): Headers {
  return new Headers({
    accept: '*/*',
    'content-type': 'application/json',
    'user-agent': `mcp-gatekit/${VERSION}`,
  })
}

/**
 * Posts JSON to a URL.
 *
 * Requests are not traced, and do not use `fetch` and `http.request`, which instrumentations replace. The path may be a
 * secret. It is set only while the head of the request is written, so that subscribers of diagnostics channels do not see it.
 * With a proxy agent or a `dispatcher`, the request is made in the normal way, but is still not traced.
 */
export class HttpTarget {
  readonly #url: URL
  readonly #connection: TargetConnectionOptions
  readonly #proxy: HttpProxy | undefined
  readonly #requests: Set<ClientRequest> = new Set()
  /** The requests to the proxy for a tunnel. */
  readonly #tunnels: Set<ClientRequest> = new Set()
  #agent: Promise<Agent> | undefined

  /** @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the proxy of the environment is invalid. */
  constructor(
    url: string,
    connection: TargetConnectionOptions = {},
    readProxy: (url: URL) => HttpProxy | undefined = readEnvProxy,
  ) {
    this.#url = new URL(url)
    this.#connection = connection
    const own = connection.agent === undefined && connection.dispatcher === undefined
    this.#proxy = own ? readProxy(this.#url) : undefined
  }

  /**
   * Posts JSON once. Redirects are not followed, and the body of the response is always read or discarded. Never rejects.
   * @param timeoutMs the maximum duration of the attempt, including the response.
   * @param released when it aborts, the request no longer keeps the process alive. A request of a `dispatcher` is aborted.
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
  async close(): Promise<void> {
    const agent = await this.#agent
    // Pending requests have been released, and may still arrive.
    if (this.#requests.size === 0) agent?.destroy()
  }

  #send(post: Post): Promise<PostResult> {
    const { agent, dispatcher } = this.#connection
    if (dispatcher !== undefined) return fetchResponse(this.#url, dispatcher, post)
    if (agent !== undefined && protocolOf(agent) === undefined) return this.#sendSeen(agent, post)
    return this.#sendUnseen(post)
  }

  /** Makes a request for an agent that may read the request at any time, as proxy agents do. */
  async #sendSeen(agent: Agent, post: Post): Promise<PostResult> {
    const { request } =
      this.#url.protocol === 'https:' ? await import('node:https') : await import('node:http')
    const outgoing = request(this.#url, { method: 'POST', agent, headers: Object.fromEntries(post.headers) })
    return await this.#exchange(outgoing, post, () => outgoing.end(Buffer.from(post.body)))
  }

  async #sendUnseen(post: Post): Promise<PostResult> {
    const { ClientRequest } = await import('node:http')
    const url = this.#url
    const agent = this.#connection.agent ?? (await this.#ownAgent())
    // A plain request to a proxy contains the whole URL.
    const forwarding = this.#proxy !== undefined && url.protocol === 'http:' ? this.#proxy : undefined
    const { protocol, hostname, port } = forwarding?.url ?? url
    const host = hostname.replace(/^\[|\]$/g, '')
    const request = new ClientRequest({
      ...{ protocol, hostname: host, port, method: 'POST', agent },
      // Otherwise the agent uses `Host`, which names the target even for a request to a proxy.
      ...{ servername: /^[\d.]+$|:/.test(host) ? '' : host },
      headers: { host: url.host },
    })
    return await this.#exchange(request, post, () => {
      // A subscriber of `http.client.request.created` may have added trace headers.
      for (const name of request.getHeaderNames()) if (name !== 'host') request.removeHeader(name)
      for (const [name, value] of post.headers) request.setHeader(name, value)
      if (forwarding?.authorization !== undefined)
        request.setHeader('proxy-authorization', forwarding.authorization)
      const placeholder = request.path
      request.path = `${forwarding === undefined ? '' : url.origin}${url.pathname}${url.search}`
      // Writes the head at once, which reads the path. Node would write a string body and the head in the same encoding.
      request.end(Buffer.from(post.body))
      request.path = placeholder
    })
  }

  #ownAgent(): Promise<Agent> {
    this.#agent ??= this.#makeAgent()
    return this.#agent
  }

  async #makeAgent(): Promise<Agent> {
    const proxy = this.#proxy
    const { protocol } = this.#url
    const secure = protocol === 'https:' || proxy?.url.protocol === 'https:'
    const { Agent } = secure ? await import('node:https') : await import('node:http')
    const agent = new Agent({ keepAlive: true })
    const { keepSocketAlive } = agent
    agent.keepSocketAlive = (idle) => {
      const kept = keepSocketAlive.call(agent, idle)
      const socket = idle as Socket
      // The `Keep-Alive` header of the target may be shorter.
      if (!socket.timeout || socket.timeout > IDLE_MS) socket.setTimeout(IDLE_MS)
      return kept
    }
    if (proxy !== undefined && protocol === 'https:')
      await tunnelThrough(agent, proxy, (tunnel) => this.#track(tunnel, this.#tunnels))
    return agent
  }

  #exchange(request: ClientRequest, { signal, released }: Post, send: () => void): Promise<PostResult> {
    this.#track(request, this.#requests)
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        for (const open of [request, ...this.#tunnels]) open.destroy(new Error('Aborted'))
      }
      const release = (): void => {
        for (const { socket } of [request, ...this.#tunnels]) socket?.unref()
      }
      signal.addEventListener('abort', abort, { once: true })
      released.addEventListener('abort', release, { once: true })
      request.once('close', () => {
        signal.removeEventListener('abort', abort)
        released.removeEventListener('abort', release)
      })
      request.once('socket', () => {
        if (released.aborted) release()
      })
      request.on('error', reject)
      request.once('response', (response) => resolve(readResponse(response)))
      if (signal.aborted) abort()
      else send()
    })
  }

  #track(request: ClientRequest, open: Set<ClientRequest>): void {
    open.add(request)
    request.once('close', () => open.delete(request))
  }
}

/** Reads a response. Never rejects: once there is a status, an incomplete body does not matter. */
async function readResponse(response: IncomingMessage): Promise<PostResult> {
  const { statusCode = 0, headers } = response
  const header = (name: string): string | undefined => {
    const value = headers[name]
    return Array.isArray(value) ? value[0] : value
  }
  return resultOf(statusCode, header, await readText(response))
}

async function fetchResponse(
  url: URL,
  dispatcher: FetchDispatcher,
  { headers, body, signal, released }: Post,
): Promise<PostResult> {
  const options = {
    method: 'POST',
    ...{ headers, body, signal: AbortSignal.any([signal, released]) },
    redirect: 'manual',
    dispatcher: untracedDispatcher(dispatcher, (name) => headers.has(name)),
  }
  const response = await fetch(url, options as RequestInit)
  const header = (name: string): string | undefined => response.headers.get(name) ?? undefined
  return resultOf(response.status, header, await readText(response.body ?? []))
}

function resultOf(status: number, header: (name: string) => string | undefined, body: string): PostResult {
  const waitMs = retryAfterMs({ retryAfter: header('retry-after'), date: header('date') })
  return { status, header, body, retryAfterMs: waitMs }
}

/** Reads a body. Never rejects: if the target or the timeout ends it early, the received part is returned. */
async function readText(chunks: AsyncIterable<unknown> | Iterable<unknown>): Promise<string> {
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
