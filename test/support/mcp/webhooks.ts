import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { SafeFetchSettings } from '../../../src/base/http/safe-fetch.ts'
import { type McpAdapter, mcpHandler, memoryEventStore } from '../../../src/index.ts'
import { adapterWith, type CreateMcpAdapterOptions } from '../../../src/mcp/adapter.ts'
import type { DeliveryOutcome, EventStore } from '../../../src/mcp/events/store.ts'
import { spokenOAuth, token } from '../attacks/spoken-tokens.ts'
import { selfSigned } from '../certificates.ts'
import { listen } from '../listen.ts'
import { until } from '../until.ts'
import { incidentRouter } from './incident-router.ts'
import { bearer, modern, send } from './wire.ts'

export const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`
export const OTHER_SECRET = `whsec_${Buffer.alloc(32, 2).toString('base64')}`

/** One request that a receiver has got. */
export interface ReceivedMessage {
  readonly path: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body. */
  readonly json: any
}

/** The response to a message. Undefined leaves the request open. */
export interface ReceiverResponse {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** An endpoint for webhooks on 127.0.0.1, with TLS. */
export interface WebhookReceiver {
  readonly server: Server
  readonly port: number
  /** A callback URL. */
  readonly url: string
  /** Lets the sender reach loopback, and trust the certificate. */
  readonly network: SafeFetchSettings
  /** All messages, in their order. */
  readonly messages: ReceivedMessage[]
  readonly challenges: ReceivedMessage[]
  /** The messages that are not challenges. */
  readonly deliveries: ReceivedMessage[]
  /** Responds to a message. It may be replaced. By default, it answers challenges, and accepts the rest. */
  respond: (message: ReceivedMessage) => ReceiverResponse | undefined | Promise<ReceiverResponse | undefined>
  /** Resolves with the deliveries when there are `count`. */
  received(count: number): Promise<readonly ReceivedMessage[]>
  close(): Promise<void>
}

/** The certificate of every receiver. */
export const certificate = selfSigned('hook.example.com')

/** Access to all receivers. */
export const LOOPBACK: SafeFetchSettings = {
  isAllowed: (address) => address === '127.0.0.1',
  ca: certificate.cert,
}

/** Answers challenges, and accepts everything else. */
export function accept({ json }: ReceivedMessage): ReceiverResponse {
  return json?.type === 'verification'
    ? { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ challenge: json.challenge }) }
    : { status: 204 }
}

const open = new Set<WebhookReceiver>()

/** Starts a receiver that ends with the test. */
export async function startReceiver(): Promise<WebhookReceiver> {
  const messages: ReceivedMessage[] = []
  const server = createServer(certificate, async (req, res) => {
    let text = ''
    for await (const chunk of req.setEncoding('utf8')) text += chunk
    const { url: path = '', method = '', headers } = req
    const message = { path, method, headers: headers as Record<string, string>, text, json: JSON.parse(text) }
    messages.push(message)
    const response = await receiver.respond(message)
    if (response === undefined) return
    res.writeHead(response.status ?? 200, response.headers).end(response.body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const receiver: WebhookReceiver = {
    server,
    port,
    url: `https://127.0.0.1:${port}/hook`,
    network: LOOPBACK,
    messages,
    get challenges() {
      return messages.filter(({ json }) => json?.type === 'verification')
    },
    get deliveries() {
      return messages.filter(({ json }) => json?.type !== 'verification')
    },
    respond: accept,
    async received(count) {
      await until(() => receiver.deliveries.length >= count, 2)
      return receiver.deliveries
    },
    async close() {
      open.delete(receiver)
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
  open.add(receiver)
  return receiver
}

/** Returns `true` if a message has a valid signature, as a receiver checks it. */
export function isSignedWith({ headers, text }: ReceivedMessage, secret: string): boolean {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`
  const age = Math.abs(Date.now() / 1_000 - Number(headers['webhook-timestamp']))
  return age < 300 && (headers['webhook-signature'] ?? '').split(' ').includes(expected)
}

/** Returns a store that notes the outcomes of attempts, and repeats those that fail after a moment. */
export function quickStore(outcomes: DeliveryOutcome[] = []): EventStore {
  const store = memoryEventStore()
  const { work } = store
  store.work = (attempt, max) =>
    work.call(
      store,
      async (delivery) => {
        const outcome = await attempt(delivery)
        outcomes.push(outcome)
        return outcome.outcome === 'failed' ? { ...outcome, delayMs: 10 } : outcome
      },
      max,
    )
  return store
}

/** A server whose webhooks reach a receiver. */
export interface WebhookServer {
  readonly adapter: McpAdapter
  readonly port: number
  /** Returns the result, or the error, of a request of a user. */
  ask(
    user: string,
    method: string,
    params?: Record<string, unknown>,
    scopes?: readonly string[],
  ): Promise<any>
  /** Subscribes a user to an event type. */
  subscribe(user: string, url: string, rest?: Record<string, unknown>): Promise<any>
}

const adapters = new Set<McpAdapter>()

/** Serves `incidentRouter`, or another router, until the test ends. */
export async function serveWebhooks(
  network: SafeFetchSettings,
  options: Partial<CreateMcpAdapterOptions> = {},
): Promise<WebhookServer> {
  const given = { router: incidentRouter, oauth: spokenOAuth(), telemetry: false as const, ...options }
  const adapter = adapterWith(given as never, network)
  adapters.add(adapter)
  const { port } = await listen(mcpHandler(adapter))
  const server: WebhookServer = {
    adapter,
    port,
    async ask(user, method, params = {}, scopes = []) {
      const answer = await send(port, modern(method, params, user === '' ? {} : bearer(token(user, scopes))))
      return answer.message?.error ?? answer.message?.result ?? { status: answer.status }
    },
    subscribe: (user, url, rest = {}) =>
      server.ask(user, 'events/subscribe', {
        name: 'incident',
        arguments: {},
        delivery: { mode: 'webhook', url, secret: SECRET },
        cursor: null,
        ...rest,
      }),
  }
  return server
}

afterEach(async () => {
  await Promise.all([...adapters].map((adapter) => adapter.events.close()))
  adapters.clear()
  await Promise.all([...open].map((receiver) => receiver.close()))
})
