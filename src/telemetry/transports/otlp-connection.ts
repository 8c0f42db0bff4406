import { readFileSync } from 'node:fs'
import type { Agent, ClientRequest } from 'node:http'
import { resolve } from 'node:path'

/** An agent for HTTP or HTTPS, or a function that makes one. */
export type OtlpAgent = Agent | ((protocol: string) => Agent | Promise<Agent>)

/** `addRequest` is what agents are made of, and what `http.request` calls, but the types leave it out. */
interface RequestTaker {
  addRequest(request: ClientRequest, ...rest: unknown[]): void
}

/** The agent that all requests to one collector share. */
export class OtlpConnection {
  readonly #given: OtlpAgent | undefined
  #agent: Promise<Agent> | undefined

  /** @param agent the application's own, which is never destroyed */
  constructor(agent: OtlpAgent | undefined) {
    this.#given = agent
  }

  /** @returns an agent that tells `onRequest` of each request before it is sent */
  async watched(protocol: string, onRequest: (request: ClientRequest) => void): Promise<Agent> {
    this.#agent ??= this.#makeAgent(protocol)
    const agent = await this.#agent
    return Object.create(agent, {
      addRequest: {
        value: (request: ClientRequest, ...rest: unknown[]) => {
          onRequest(request)
          ;(agent as unknown as RequestTaker).addRequest(request, ...rest)
        },
      },
    })
  }

  /** Closes every socket, unless they are the application's. */
  close(): void {
    if (this.#given !== undefined) return
    this.#agent?.then(
      (agent) => agent.destroy(),
      () => {},
    )
  }

  /** HTTP is loaded late, since instrumentations need to load before it. */
  async #makeAgent(protocol: string): Promise<Agent> {
    if (typeof this.#given === 'function') return await this.#given(protocol)
    if (this.#given !== undefined) return this.#given
    const options = { keepAlive: true, ...proxyOptions() }
    return protocol === 'https:'
      ? new (await import('node:https')).Agent({ ...options, ...readEnvironmentTls() })
      : new (await import('node:http')).Agent(options)
  }
}

/** Node.js itself gives the variables only to its global agents. Versions without proxy support ignore the option. */
function proxyOptions(): { proxyEnv?: NodeJS.ProcessEnv } {
  const flags = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(/\s+/)]
  const asked = process.env.NODE_USE_ENV_PROXY === '1' || flags.includes('--use-env-proxy')
  return asked ? { proxyEnv: process.env } : {}
}

/**
 * The exporter uses these variables only for an agent that it makes itself, but it reads the files, and warns on
 * OpenTelemetry's `diag` logger if one cannot be read. Such a file is left out here as well.
 */
function readEnvironmentTls(): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
  const tls: { ca?: Buffer; cert?: Buffer; key?: Buffer } = {}
  for (const [option, variable] of [
    ['ca', 'CERTIFICATE'],
    ['cert', 'CLIENT_CERTIFICATE'],
    ['key', 'CLIENT_KEY'],
  ] as const) {
    const path =
      process.env[`OTEL_EXPORTER_OTLP_LOGS_${variable}`]?.trim() ||
      process.env[`OTEL_EXPORTER_OTLP_${variable}`]?.trim()
    try {
      if (path) tls[option] = readFileSync(resolve(path))
    } catch {
      // The exporter reports it.
    }
  }
  return tls
}
