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

/** What a target answered, or why there is no answer; neither holds the URL nor a header that was sent. */
export type PostResult =
  | {
      readonly status: number
      /** The value of a header, by its name in lower case. */
      readonly header: (name: string) => string | undefined
      /** The beginning of the body. */
      readonly body: string
      /** How long the target asks to wait, in milliseconds. */
      readonly retryAfterMs: number | undefined
    }
  | { readonly status?: undefined; readonly reason: string }

interface Post {
  readonly headers: Headers
  readonly body: string
  /** Ends the attempt. */
  readonly signal: AbortSignal
  /** When it aborts, the request must not keep the process alive any longer. */
  readonly released: AbortSignal
}

/** A signal that never aborts. */
const NEVER = new AbortController().signal

/** The longest answer that is read, in characters. The rest is discarded. */
const MAX_ANSWER = 65_536

/** How long an idle connection is kept: shorter than servers do, so that no request meets a closing one. */
const IDLE_MS = 4_000

/** The headers of every request, unless the caller replaces them. */
export function jsonHeaders(): Headers {
  return new Headers({
    accept: '*/*',
    'content-type': 'application/json',
    'user-agent': `mcp-gatekit/${VERSION}`,
  })
}

/**
 * A URL that JSON is posted to.
 *
 * Requests are not traced, and bypass `fetch` and `http.request`, which instrumentations replace. The path, which may be
 * a secret, is put on the request only while its head is written, so that subscribers of diagnostics channels do not see
 * it either. With a proxy agent or a `dispatcher`, the request is made in the ordinary way, still untraced.
 */
export class HttpTarget {
  readonly #url: URL
  readonly #connection: TargetConnectionOptions
  readonly #proxy: HttpProxy | undefined
  readonly #requests: Set<ClientRequest> = new Set()
  /** Requests to the proxy for a tunnel. */
  readonly #tunnels: Set<ClientRequest> = new Set()
  #agent: Promise<Agent> | undefined

  /** @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the environment names a proxy that cannot be */
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
   * Posts a JSON text once. Redirects are not followed, and the answer's body is always consumed or discarded.
   * Never rejects.
   * @param timeoutMs how long the attempt may take, including its answer
   * @param released when it aborts, the request does not keep the process alive any longer. That of a `dispatcher` ends.
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
      // The error itself is not kept: it may name the target.
      if (late) return { reason: `gave no answer in ${timeoutMs} ms` }
      if (released.aborted) return { reason: 'had not answered when the transport was shut down' }
      return { reason: `could not be reached${describeNetworkFailure(error)}` }
    } finally {
      timer.clear()
    }
  }

  /** Closes idle connections. */
  async close(): Promise<void> {
    const agent = await this.#agent
    // What is under way has been released, and may still arrive.
    if (this.#requests.size === 0) agent?.destroy()
  }

  #send(post: Post): Promise<PostResult> {
    const { agent, dispatcher } = this.#connection
    if (dispatcher !== undefined) return fetchAnswer(this.#url, dispatcher, post)
    if (agent !== undefined && protocolOf(agent) === undefined) return this.#sendSeen(agent, post)
    return this.#sendUnseen(post)
  }

  /** For an agent that may read the request at any time, as proxy agents do. */
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
    // A plain request to a proxy names the whole URL.
    const forwarding = this.#proxy !== undefined && url.protocol === 'http:' ? this.#proxy : undefined
    const { protocol, hostname, port } = forwarding?.url ?? url
    const host = hostname.replace(/^\[|\]$/g, '')
    const request = new ClientRequest({
      ...{ protocol, hostname: host, port, method: 'POST', agent },
      // Otherwise the agent takes it from `Host`, which names the target even when a proxy is asked.
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
      // Writes the head at once, and so reads the path. Node would write a string and the head in the same encoding.
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
      // The target's own `Keep-Alive` may say less.
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
      request.once('response', (response) => resolve(readAnswer(response)))
      if (signal.aborted) abort()
      else send()
    })
  }

  #track(request: ClientRequest, open: Set<ClientRequest>): void {
    open.add(request)
    request.once('close', () => open.delete(request))
  }
}

/** Never rejects: once there is a status, an answer that breaks off changes nothing. */
async function readAnswer(response: IncomingMessage): Promise<PostResult> {
  const { statusCode = 0, headers } = response
  const header = (name: string): string | undefined => {
    const value = headers[name]
    return Array.isArray(value) ? value[0] : value
  }
  return answerOf(statusCode, header, await readText(response))
}

async function fetchAnswer(
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
  return answerOf(response.status, header, await readText(response.body ?? []))
}

function answerOf(status: number, header: (name: string) => string | undefined, body: string): PostResult {
  const waitMs = retryAfterMs({ retryAfter: header('retry-after'), date: header('date') })
  return { status, header, body, retryAfterMs: waitMs }
}

/** Never rejects: an answer that is cut short by the target or the timeout ends there. */
async function readText(chunks: AsyncIterable<unknown> | Iterable<unknown>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const chunk of chunks) {
      text += decoder.decode(chunk as Uint8Array, { stream: true })
      // Leaving the loop discards the rest.
      if (text.length > MAX_ANSWER) break
    }
  } catch {
    // The status is known, which is what counts.
  }
  return text
}

/** The body of an answer as JSON, if it is an object; else an empty object. */
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
  return typeof seconds === 'number' && seconds >= 0
    ? Math.min(seconds * 1000, Number.MAX_SAFE_INTEGER)
    : undefined
}
