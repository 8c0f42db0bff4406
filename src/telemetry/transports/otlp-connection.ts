import { channel } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import type { Agent, IncomingMessage } from 'node:http'
import { resolve } from 'node:path'
import type { Duplex } from 'node:stream'

type Socket = Duplex & { unref?(): unknown }

/** Whom to tell of an answer, by the socket on which it came. */
const listeners = new WeakMap<object, (answer: IncomingMessage) => void>()

const answers = channel('http.client.response.finish')

function tellOfAnswer(message: unknown): void {
  const { response } = message as { readonly response?: IncomingMessage }
  if (response?.socket) listeners.get(response.socket)?.(response)
}

/** Once for all connections. */
let subscribed = false

/**
 * The sockets of one exporter. The exporter gets its agent from here, so that an answer is seen before the
 * exporter reads it, a request can be broken off, and nothing stays open in the end.
 */
export class OtlpConnection {
  readonly #onAnswer: (answer: IncomingMessage) => void
  readonly #sockets = new Set<Socket>()
  #agent: Agent | undefined
  #released = false

  /** @param onAnswer is told of each answer as soon as its head has come, before anybody reads its body */
  constructor(onAnswer: (answer: IncomingMessage) => void) {
    this.#onAnswer = onAnswer
    if (subscribed) return
    subscribed = true
    answers.subscribe(tellOfAnswer)
  }

  /** What the exporter takes as `httpAgentOptions`. HTTP is loaded late, as instrumentations want it. */
  readonly makeAgent = async (protocol: string): Promise<Agent> => {
    const agent =
      protocol === 'https:'
        ? new (await import('node:https')).Agent({ keepAlive: true, ...readEnvironmentTls() })
        : new (await import('node:http')).Agent({ keepAlive: true })
    const connect = agent.createConnection
    agent.createConnection = (...args) => {
      const socket = connect.apply(agent, args)
      if (socket) this.#watch(socket)
      return socket
    }
    const reuse = agent.reuseSocket
    agent.reuseSocket = (...args) => {
      reuse.apply(agent, args)
      if (this.#released) (args[0] as Socket).unref?.()
    }
    this.#agent = agent
    return agent
  }

  /** Breaks off the request that is under way. The next one opens a new socket. */
  cut(): void {
    this.#agent?.destroy()
  }

  /** From now on requests keep no process alive. */
  release(): void {
    this.#released = true
    for (const socket of this.#sockets) socket.unref?.()
  }

  #watch(socket: Socket): void {
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    listeners.set(socket, this.#onAnswer)
    if (this.#released) socket.unref?.()
  }
}

/**
 * The exporter uses these variables only where it makes the agent, but it reads the files, and warns on
 * OpenTelemetry's `diag` logger of one that cannot be read. Such a one is left out here as well.
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
      // Told by the exporter.
    }
  }
  return tls
}
