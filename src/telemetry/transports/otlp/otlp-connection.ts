import type { Agent, ClientRequest } from 'node:http'
import { environmentVariable, requiredModule } from '../../../base/runtime.ts'

/** An agent for HTTP or HTTPS, or a function that returns one. */
export type OtlpAgent = Agent | ((protocol: string) => Agent | Promise<Agent>)

/** The method that `http.request` calls. The types of Node do not contain it. */
interface RequestTaker {
  addRequest(request: ClientRequest, options: object): void
}

/** Holds the agent that all requests to one collector share. */
export class OtlpConnection {
  readonly #given: OtlpAgent | undefined
  #agent: Promise<Agent> | undefined

  /** @param given the agent of the application, which is never destroyed. */
  constructor(given: OtlpAgent | undefined) {
    this.#given = given
  }

  /** Returns an agent that passes each request to `onRequest` before it is sent. */
  async watched(protocol: string, onRequest: (request: ClientRequest) => void): Promise<Agent> {
    this.#agent ??= this.#makeAgent(protocol)
    const agent = await this.#agent
    return Object.create(agent, {
      addRequest: {
        value: (request: ClientRequest, options: object) => {
          onRequest(request)
          ;(agent as unknown as RequestTaker).addRequest(request, options)
        },
      },
    })
  }

  /** Closes all sockets, unless the agent belongs to the application. */
  close(): void {
    if (this.#given !== undefined) return
    this.#agent?.then(
      (agent) => agent.destroy(),
      () => {},
    )
  }

  /** Loads HTTP late, because instrumentations need to load before it. */
  async #makeAgent(protocol: string): Promise<Agent> {
    const given = this.#given
    if (typeof given === 'function') return await given(protocol)
    if (given !== undefined) return given
    // In versions of Node.js that support `NODE_USE_ENV_PROXY`, only an agent with `proxyEnv` uses the proxy.
    const options = { keepAlive: true, ...readEnvironmentProxy() }
    if (protocol === 'http:') return new (requiredModule('node:http').Agent)(options)
    return new (requiredModule('node:https').Agent)({ ...options, ...readEnvironmentTls() })
  }
}

/** Returns the option of an agent that makes it use the proxy of the environment, if Node.js is to use it. */
function readEnvironmentProxy(): object {
  const { env, execArgv = [] } = globalThis.process ?? {}
  const flags = [...execArgv, ...(env?.NODE_OPTIONS ?? '').split(' ')]
  return env?.NODE_USE_ENV_PROXY === '1' || flags.includes('--use-env-proxy') ? { proxyEnv: env } : {}
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
