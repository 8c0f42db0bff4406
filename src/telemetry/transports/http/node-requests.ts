import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { responseOf } from '../../../http/response-of.ts'
import { untilAborted } from '../../../http/until-aborted.ts'
import { requiredModule } from '../../../runtime.ts'
import type { HttpProxy } from './env-proxy.ts'
import { type Post, type PostResult, readText, resultOf } from './post.ts'
import { tunnelThrough } from './proxy-tunnel.ts'
import { protocolOf } from './target-options.ts'

/** The time for which an idle connection is kept. Servers keep it longer, so that a request never uses a connection that closes. */
const IDLE_MS = 4_000

/**
 * Posts with `node:http` and `node:https`.
 *
 * Requests do not use `http.request`, which instrumentations replace. The path may be a secret. It is set only while the head
 * of the request is written, so that subscribers of diagnostics channels do not see it. With a proxy agent, the request is made
 * in the normal way.
 */
export class NodeRequests {
  readonly #url: URL
  readonly #given: Agent | undefined
  readonly #proxy: HttpProxy | undefined
  readonly #requests: Set<ClientRequest> = new Set()
  /** The requests to the proxy for a tunnel. */
  readonly #tunnels: Set<ClientRequest> = new Set()
  #agent: Agent | undefined
  /** `released` of the latest request. */
  #released: AbortSignal | undefined

  /** @param agent the agent of the application. By default, there is an own one, which uses `proxy`. */
  constructor(url: URL, agent: Agent | undefined, proxy: HttpProxy | undefined) {
    this.#url = url
    this.#given = agent
    this.#proxy = proxy
  }

  /** Posts once. @throws errors of the connection, also as a rejection. */
  send(post: Post): Promise<PostResult> {
    const agent = this.#given
    if (agent !== undefined && protocolOf(agent) === undefined) return this.#sendSeen(agent, post)
    return this.#sendUnseen(post)
  }

  /** Closes idle connections. */
  close(): void {
    // Pending requests have been released, and may still arrive.
    if (this.#requests.size === 0) this.#agent?.destroy()
  }

  /** Makes a request for an agent that may read the request at any time, as proxy agents do. */
  #sendSeen(agent: Agent, post: Post): Promise<PostResult> {
    const { request } = requiredModule(this.#url.protocol === 'https:' ? 'node:https' : 'node:http')
    const outgoing = request(this.#url, { method: 'POST', agent, headers: Object.fromEntries(post.headers) })
    return this.#exchange(outgoing, post, () => outgoing.end(Buffer.from(post.body)))
  }

  #sendUnseen(post: Post): Promise<PostResult> {
    const { ClientRequest } = requiredModule('node:http')
    const url = this.#url
    const agent = this.#given ?? this.#ownAgent()
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
    return this.#exchange(request, post, () => {
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

  #ownAgent(): Agent {
    this.#agent ??= this.#makeAgent()
    return this.#agent
  }

  #makeAgent(): Agent {
    const proxy = this.#proxy
    const { protocol } = this.#url
    const secure = protocol === 'https:' || proxy?.url.protocol === 'https:'
    const { Agent } = requiredModule(secure ? 'node:https' : 'node:http')
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
      tunnelThrough(agent, proxy, (tunnel) => this.#trackTunnel(tunnel))
    return agent
  }

  async #exchange(request: ClientRequest, { signal, released }: Post, send: () => void): Promise<PostResult> {
    const abort = (): void => {
      for (const open of [request, ...this.#tunnels]) open.destroy(new Error('Aborted'))
    }
    const release = (): void => {
      for (const { socket } of [request, ...this.#tunnels]) socket?.unref()
    }
    const begin = async (): Promise<void> => {
      if (signal.aborted) abort()
      else send()
    }
    this.#released = released
    signal.addEventListener('abort', abort, { once: true })
    released.addEventListener('abort', release, { once: true })
    request.once('socket', () => {
      if (released.aborted) release()
    })
    this.#requests.add(request)
    try {
      // An agent may never give the request a socket. The request would then not even close.
      const [response] = await Promise.all([untilAborted(responseOf(request), signal), begin()])
      return await readResponse(response)
    } finally {
      this.#requests.delete(request)
      signal.removeEventListener('abort', abort)
      released.removeEventListener('abort', release)
    }
  }

  #trackTunnel(tunnel: ClientRequest): void {
    this.#tunnels.add(tunnel)
    tunnel.once('close', () => this.#tunnels.delete(tunnel))
    tunnel.once('socket', (socket) => {
      if (this.#released?.aborted) socket.unref()
    })
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
