import { once } from 'node:events'
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type RequestListener,
} from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export const MODERN = '2026-07-28'
export const LEGACY = '2025-11-25'
export const BOTH_KINDS = 'application/json, text/event-stream'

/** One HTTP request, as a test writes it. */
export interface WireRequest {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Text is sent with a `Content-Length`, chunks are sent one by one without. */
  readonly body?: string | Buffer | readonly (string | Buffer)[]
  /** The end of a chunked body is never sent. */
  readonly unfinished?: boolean
}

/** One HTTP answer, read to its end. */
export class WireAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string

  constructor(status: number, headers: Headers, text: string) {
    this.status = status
    this.headers = headers
    this.text = text
  }

  /** The JSON-RPC messages of the answer, be it JSON or an event stream. */
  get messages(): any[] {
    if (this.text === '') return []
    if (!this.headers.get('content-type')?.startsWith('text/event-stream'))
      return [JSON.parse(this.text)].flat()
    return eventsOf(this.text)
  }

  /** The only message, or the last one after notifications. */
  get message(): any {
    return this.messages.at(-1)
  }
}

/** The data of each event of a stream so far; events without any only mark a place in it. */
export function eventsOf(text: string): any[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line.length > 'data: '.length)
    .map((line) => JSON.parse(line.slice('data: '.length)))
}

/** Reads a stream until it has `count` events. */
export async function firstEvents(stream: AsyncIterable<unknown>, count: number): Promise<any[]> {
  let text = ''
  for await (const chunk of stream) {
    text += chunk
    if (eventsOf(text).length >= count) break
  }
  return eventsOf(text)
}

export async function readAnswer(response: Response): Promise<WireAnswer> {
  return new WireAnswer(response.status, response.headers, await response.text())
}

/** A server on a loopback port of its own. */
export interface Listening {
  readonly origin: string
  readonly port: number
  send(request: WireRequest): Promise<WireAnswer>
  close(): Promise<void>
}

export async function listen(listener: RequestListener, host = '127.0.0.1'): Promise<Listening> {
  const server = createServer(listener)
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  await once(server.listen(0, host), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    port,
    send: (request) => send(port, request),
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Sends a request over a connection of its own. Headers go out exactly as given. */
export async function send(port: number, request: WireRequest): Promise<WireAnswer> {
  const { method = 'POST', path = '/mcp', headers = {}, body, unfinished = false } = request
  const outgoing = httpRequest({
    host: '127.0.0.1',
    port,
    method,
    path,
    agent: false,
    headers: definedOf(headers),
  })
  const answered = once(outgoing, 'response')
  // A server may answer and close before it has read everything.
  outgoing.on('error', () => undefined)
  if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
    if (body !== undefined) outgoing.setHeader('content-length', Buffer.byteLength(body))
    outgoing.end(body)
  } else {
    for (const chunk of body) outgoing.write(chunk)
    if (!unfinished) outgoing.end()
  }
  const [response] = await answered
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return new WireAnswer(
    response.statusCode,
    headersOf(response.headers),
    Buffer.concat(chunks).toString('utf8'),
  )
}

function headersOf(headers: IncomingHttpHeaders): Headers {
  return new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}

export function definedOf(headers: NonNullable<WireRequest['headers']>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >
}

export type HeaderFields = NonNullable<WireRequest['headers']>

/** A POST of revision 2025-11-25; a header given as undefined is left out. */
export function legacy(message: unknown, headers: HeaderFields = {}): WireRequest {
  return {
    headers: {
      'content-type': 'application/json',
      accept: BOTH_KINDS,
      'mcp-protocol-version': LEGACY,
      ...headers,
    },
    body: typeof message === 'string' ? message : JSON.stringify(message),
  }
}

/** A POST of revision 2026-07-28, with the headers and the envelope it wants. */
export function modern(method: string, params: Record<string, unknown> = {}, headers: HeaderFields = {}) {
  const { _meta, ...rest } = params
  const message = {
    jsonrpc: '2.0',
    id: 1,
    method,
    params: {
      ...rest,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': MODERN,
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        ...(_meta as object | undefined),
      },
    },
  }
  const name = typeof rest.name === 'string' ? { 'mcp-name': rest.name } : {}
  return legacy(message, { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...name, ...headers })
}

/** A JSON-RPC request. */
export function rpc(method: string, params?: unknown, id: unknown = 1): Record<string, unknown> {
  return { jsonrpc: '2.0', id, method, ...(params !== undefined && { params }) }
}

/** An `initialize` of 2025-11-25. */
export function initialization(
  capabilities: object = {},
  clientInfo: unknown = { name: 'test', version: '1' },
  id: unknown = 1,
) {
  return rpc('initialize', { protocolVersion: LEGACY, capabilities, clientInfo }, id)
}

/** Begins a session. Resolves with its header. */
export async function beginSession(
  { send }: { send(request: WireRequest): Promise<WireAnswer> },
  headers: Record<string, string> = {},
): Promise<{ 'mcp-session-id': string }> {
  const answer = await send(legacy(initialization(), { ...headers, 'mcp-protocol-version': undefined }))
  return { 'mcp-session-id': answer.headers.get('mcp-session-id') ?? 'none' }
}

/** A `tools/call`. */
export function call(name: string, args: Record<string, unknown> = {}, id: unknown = 1) {
  return rpc('tools/call', { name, arguments: args }, id)
}

/** `Authorization` for a token. */
export function bearer(token: string): { authorization: string } {
  return { authorization: `Bearer ${token}` }
}

/** A promise that a test settles. */
export interface Signalled<T = void> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
}

export function signalled<T = void>(): Signalled<T> {
  let resolve!: (value: T) => void
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
