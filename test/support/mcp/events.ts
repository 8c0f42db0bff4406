import { once } from 'node:events'
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import express, { type RequestHandler } from 'express'
import { type KitMcpRouter, type McpAdapter, mcpServer } from '../../../src/index.ts'
import { adapterWith, type CreateMcpAdapterOptions } from '../../../src/mcp/adapter.ts'
import { listen } from '../listen.ts'
import { until } from '../until.ts'
import { incidentRouter } from './incident-router.ts'
import { LOOPBACK } from './webhooks.ts'
import { eventsOf, legacy, modern, send, type WireAnswer } from './wire.ts'

/** The revisions in which events are tested. */
export const ERAS = { '2026-07-28': modern, '2025-11-25': legacyCall } as const

function legacyCall(method: string, params: unknown, headers: Record<string, string> = {}) {
  return legacy({ jsonrpc: '2.0', id: 1, method, params }, headers)
}

/** OAuth in which the token `ada` or `ada/scope+scope` belongs to the user ada. */
export const NAMED_USERS = {
  issuer: 'https://auth.example.com',
  verifyToken: ({ bearerToken = '' }: { bearerToken?: string | undefined }) => {
    const [id = '', scopes = ''] = bearerToken.split('/')
    return { valid: true as const, user: { id }, scopes: scopes.split('+').filter((scope) => scope !== '') }
  },
}

export interface EventServer {
  readonly adapter: McpAdapter
  readonly port: number
  /** Sends a request of 2026-07-28 as a user. */
  send(user: string, method: string, params?: Record<string, unknown>): Promise<WireAnswer>
  /** Returns the result, or the error, of a request. */
  ask(user: string, method: string, params?: Record<string, unknown>): Promise<any>
  /** Opens a stream of events. */
  stream(user: string, params: Record<string, unknown>, era?: keyof typeof ERAS): Promise<OpenStream>
}

/** Serves `incidentRouter`, or another router, until the test ends. */
export async function serveEvents(
  options: Partial<CreateMcpAdapterOptions> & { readonly router?: KitMcpRouter<any> } = {},
): Promise<EventServer> {
  const given = { router: incidentRouter, oauth: NAMED_USERS, telemetry: false as const, ...options }
  const adapter = adapterWith(given as never, LOOPBACK)
  const { port } = await listen(express().use(mcpServer(adapter) as RequestHandler))
  const headersOf = (user: string) => (user === '' ? {} : { authorization: `Bearer ${user}` })
  const server: EventServer = {
    adapter,
    port,
    send: (user, method, params = {}) => send(port, modern(method, params, headersOf(user))),
    async ask(user, method, params) {
      const { message } = await server.send(user, method, params)
      return message.error ?? message.result
    },
    stream: (user, params, era = '2026-07-28') =>
      openStream(port, ERAS[era]('events/stream', params, headersOf(user))),
  }
  return server
}

/** The response to `events/stream`, while it is open. */
export interface OpenStream {
  readonly status: number
  /** The messages so far. */
  readonly messages: any[]
  /** `true` when the server has ended it. */
  readonly ended: boolean
  /** Everything that has arrived. */
  readonly text: string
  /** Resolves when there are `count` messages. */
  received(count: number): Promise<any[]>
  close(): void
}

async function openStream(
  port: number,
  { headers, body }: { headers?: object; body?: unknown },
): Promise<OpenStream> {
  const outgoing: ClientRequest = httpRequest({
    host: '127.0.0.1',
    port,
    path: '/mcp',
    method: 'POST',
    agent: false,
    headers: Object.fromEntries(Object.entries(headers ?? {}).filter(([, value]) => value !== undefined)),
  })
  outgoing.end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  let text = ''
  let ended = false
  response.on('data', (chunk) => {
    text += chunk
  })
  response.once('end', () => {
    ended = true
  })
  response.on('error', () => undefined)
  outgoing.on('error', () => undefined)
  const stream: OpenStream = {
    status: response.statusCode ?? 0,
    get messages() {
      return text.startsWith('{') ? [JSON.parse(text)] : eventsOf(text.slice(0, text.lastIndexOf('\n\n') + 1))
    },
    get ended() {
      return ended
    },
    get text() {
      return text
    },
    async received(count) {
      await until(() => stream.messages.length >= count, 5)
      return stream.messages
    },
    close: () => outgoing.destroy(),
  }
  return stream
}
