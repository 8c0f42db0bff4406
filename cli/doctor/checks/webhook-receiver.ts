import { randomBytes } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isRecord } from '../../../src/base/options/value-kinds.ts'
import { bodyOf, listenOnLoopback, stopServer } from '../../loopback.ts'
import { InconclusiveError } from '../finding.ts'
import { parseJson } from '../http-exchange.ts'
import { type JsonObject, urlOf } from '../values.ts'

/** The parameter of a callback URL that names its endpoint. Only the server that got the URL knows the value. */
const PARAMETER = 'doctor'
/** The maximum size of a message (SEP-3415, "Delivery profile"). */
const MAX_BODY_BYTES = 262_144
/** The maximum number of messages that one endpoint keeps. Further ones are rejected. */
const MAX_MESSAGES = 20
/** The maximum number of messages that arrive at the same time. */
const MAX_CONNECTIONS = 50

/** A message that the server has sent to an endpoint. */
export interface WebhookMessage {
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** The body, if it is a JSON object. */
  readonly content: JsonObject | undefined
}

/** A callback URL that no client has used before, and everything that was sent to it. */
export type WebhookEndpoint = ReturnType<typeof newEndpoint>

/** @param base the URL that leads to the receiver @param answersRightly `false` for a wrong answer to each challenge */
function newEndpoint(base: URL, answersRightly: boolean) {
  const key = randomBytes(16).toString('base64url')
  const url = new URL(base)
  url.searchParams.set(PARAMETER, key)
  const challenges: WebhookMessage[] = []
  const messages: WebhookMessage[] = []
  const arrivals = new EventEmitter()
  return {
    key,
    url: url.href,
    secret: `whsec_${randomBytes(32).toString('base64')}`,
    challenges,
    messages,

    /** Keeps a message. Returns the response. */
    take(message: WebhookMessage): readonly [status: number, body?: string] {
      const { type, challenge } = message.content ?? {}
      const isChallenge = type === 'verification'
      const kept = isChallenge ? challenges : messages
      if (kept.length >= MAX_MESSAGES) return [429]
      kept.push(message)
      if (!isChallenge) arrivals.emit('message')
      const answer = answersRightly ? challenge : randomBytes(32).toString('base64url')
      return isChallenge ? [200, JSON.stringify({ challenge: answer })] : [204]
    },

    /** Returns the first message that is not a `gap`, or `undefined` if none arrives in time. */
    async next(timeoutMs: number): Promise<WebhookMessage | undefined> {
      const signal = AbortSignal.timeout(timeoutMs)
      for (;;) {
        const first = messages.find(({ content }) => content?.type !== 'gap')
        if (first !== undefined || signal.aborted) return first
        await once(arrivals, 'message', { signal }).catch(() => undefined)
      }
    },
  }
}

/** Starts a server on 127.0.0.1. Resolves with its port. @throws {InconclusiveError} if the port of the option is not available */
export async function listen(server: Server, port: number, option: string): Promise<number> {
  return await listenOnLoopback(server, { number: port, orAnother: false }, option).catch(() => {
    throw new InconclusiveError(`port ${port} on 127.0.0.1 is not available. Use another ${option}`)
  })
}

/** Receives webhooks on 127.0.0.1. @throws {InconclusiveError} if the port is not available */
export async function receiveWebhooks(port: number) {
  const endpoints = new Map<string, WebhookEndpoint>()
  const serve = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const key = urlOf(`http://127.0.0.1${req.url}`)?.searchParams.get(PARAMETER)
    const endpoint = endpoints.get(key ?? '')
    const respond = (status: number, body?: string): void => {
      res.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(body)
    }
    if (endpoint === undefined || req.method !== 'POST') return respond(404)
    const body = await bodyOf(req, MAX_BODY_BYTES)
    if (body === undefined) return respond(413)
    const content = parseJson(body)
    respond(
      ...endpoint.take({ headers: req.headers, body, content: isRecord(content) ? content : undefined }),
    )
  }
  const server = createServer((req, res) => void serve(req, res))
  server.maxConnections = MAX_CONNECTIONS
  await listen(server, port, '--events-port')
  return {
    /** Returns a new endpoint. @param answersRightly `false` for a wrong answer to each challenge */
    endpoint(base: URL, answersRightly: boolean): WebhookEndpoint {
      const endpoint = newEndpoint(base, answersRightly)
      endpoints.set(endpoint.key, endpoint)
      return endpoint
    },
    close: (): Promise<void> => stopServer(server),
  }
}
