import type { Agent, ClientRequest } from 'node:http'
import { environmentVariable, requiredModule } from '../../../runtime.ts'
import { setLongTimeout } from '../../../timers.ts'
import type { HttpProxy } from '../http/env-proxy.ts'
import { tunnelThrough } from '../http/proxy-tunnel.ts'

/** An agent for HTTP or HTTPS, or a function that returns one. */
export type OtlpAgent = Agent | ((protocol: string) => Agent | Promise<Agent>)

/** The method that `http.request` calls. The types of Node do not contain it. */
interface RequestTaker {
  addRequest(request: ClientRequest, options: object): void
}

export interface OtlpConnectionOptions {
  /** The agent of the application, which is never destroyed. */
  readonly agent: OtlpAgent | undefined
  readonly proxy: HttpProxy | undefined
  /** The timeout for opening a tunnel through the proxy, in milliseconds. */
  readonly timeoutMs: number
}

/** Holds the agent that all requests to one collector share. */
export class OtlpConnection {
  readonly #options: OtlpConnectionOptions
  readonly #tunnels = new Set<ClientRequest>()
  #agent: Promise<Agent> | undefined
  #released = false

  constructor(options: OtlpConnectionOptions) {
    this.#options = options
  }

  /** Returns an agent that passes each request to `onRequest` before it is sent. */
  async watched(protocol: string, onRequest: (request: ClientRequest) => void): Promise<Agent> {
    this.#agent ??= this.#makeAgent(protocol)
    const agent = await this.#agent
    const { proxy } = this.#options
    const prepare = proxy !== undefined && protocol === 'http:' ? forwardTo(proxy) : (): object => ({})
    return Object.create(agent, {
      // The agent of an HTTPS proxy does not have the protocol of the collector.
      ...(proxy !== undefined && { protocol: { value: protocol } }),
      addRequest: {
        value: (request: ClientRequest, options: object) => {
          onRequest(request)
          ;(agent as unknown as RequestTaker).addRequest(request, { ...options, ...prepare(request) })
        },
      },
    })
  }

  /** From now on, opening a tunnel does not keep the process alive. */
  release(): void {
    this.#released = true
    for (const { socket } of this.#tunnels) socket?.unref()
  }

  /** Closes all sockets, unless the agent belongs to the application. */
  close(): void {
    if (this.#options.agent !== undefined) return
    for (const tunnel of this.#tunnels) tunnel.destroy()
    this.#agent?.then(
      (agent) => agent.destroy(),
      () => {},
    )
  }

  /** Loads HTTP late, because instrumentations need to load before it. */
  async #makeAgent(protocol: string): Promise<Agent> {
    const { agent: given, proxy } = this.#options
    if (typeof given === 'function') return await given(protocol)
    if (given !== undefined) return given
    if (protocol === 'http:' && proxy?.url.protocol !== 'https:')
      return new (requiredModule('node:http').Agent)({ keepAlive: true })
    const agent = new (requiredModule('node:https').Agent)({ keepAlive: true, ...readEnvironmentTls() })
    if (protocol === 'https:' && proxy !== undefined)
      tunnelThrough(agent, proxy, (tunnel) => this.#watchTunnel(tunnel))
    return agent
  }

  #watchTunnel(tunnel: ClientRequest): void {
    this.#tunnels.add(tunnel)
    const late = Object.assign(new Error('The proxy did not respond'), { code: 'ETIMEDOUT' })
    const timer = setLongTimeout(() => tunnel.destroy(late), this.#options.timeoutMs)
    tunnel.once('close', () => {
      timer.clear()
      this.#tunnels.delete(tunnel)
    })
    tunnel.once('connect', () => timer.clear())
    tunnel.once('socket', (socket) => {
      if (this.#released) socket.unref()
    })
  }
}

/** Changes a plain request to a proxy, which contains the whole URL. @returns the options of the connection to the proxy. */
function forwardTo({ url, authorization }: HttpProxy): (request: ClientRequest) => object {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = url.port || (url.protocol === 'https:' ? 443 : 80)
  const servername = /^[\d.]+$|:/.test(host) ? '' : host
  return (request) => {
    request.path = `http://${request.getHeader('host')}${request.path}`
    if (authorization !== undefined) request.setHeader('proxy-authorization', authorization)
    return { host, hostname: host, port, servername }
  }
}

/**
 * Reads the certificate files of the environment. The exporter uses these variables only for its own agent, but it reads the
 * files too, and warns on OpenTelemetry's `diag` logger if it cannot read one. Such a file is ignored here.
 */
function readEnvironmentTls(): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
  const tls: { ca?: Buffer; cert?: Buffer; key?: Buffer } = {}
  const { readFileSync } = requiredModule('node:fs')
  const { resolve } = requiredModule('node:path')
  for (const [option, variable] of [
    ['ca', 'CERTIFICATE'],
    ['cert', 'CLIENT_CERTIFICATE'],
    ['key', 'CLIENT_KEY'],
  ] as const) {
    const path =
      environmentVariable(`OTEL_EXPORTER_OTLP_LOGS_${variable}`)?.trim() ||
      environmentVariable(`OTEL_EXPORTER_OTLP_${variable}`)?.trim()
    try {
      if (path) tls[option] = readFileSync(resolve(path))
    } catch {
      // The exporter reports this.
    }
  }
  return tls
}
