import type { X509Certificate } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import {
  type BodyLimits,
  type BodyMemory,
  type BodyRead,
  type BodySource,
  readBody,
} from '../base/http/body-reader.ts'
import { firstIpAddress } from '../base/http/client-address.ts'
import type { NodeRequest } from '../base/http/node-middleware.ts'
import { requestOrigin } from '../base/http/request-origin.ts'
import { isCut, onceClosed } from '../base/http/response-close.ts'
import { isLoopbackHostname } from '../base/options/option-checks.ts'
import type { Exchange } from '../mcp/wire/exchange.ts'
import { isEncoded, type McpRequest } from '../mcp/wire/mcp-request.ts'
import type { AuthInfo } from '../oauth/auth-info.ts'
import type { Gate } from '../oauth/gate.ts'
import { authenticatedBy } from './authenticated-requests.ts'
import { addHeaders, isCorsDecided, restrictCors } from './cors-decision.ts'

/** Returns `true` for a CORS preflight (Fetch §3.3.5). */
export function isPreflight(req: IncomingMessage): boolean {
  return (
    req.method === 'OPTIONS' &&
    req.headers.origin !== undefined &&
    req.headers['access-control-request-method'] !== undefined
  )
}

/** A request of `(req, res)` of Node.js. Every member except the method is computed when it is read. */
export class NodeMcpRequest implements McpRequest {
  readonly method: string
  readonly req: NodeRequest
  readonly res: ServerResponse
  /** `true` if the whole body was read. Node.js reports the end of the body later. */
  hasReadBody = false
  readonly #trustsProxy: boolean
  #request: Request | undefined

  /** @param trustsProxy applies if there is no Express application */
  constructor(req: NodeRequest, res: ServerResponse, trustsProxy: boolean) {
    this.method = req.method ?? 'GET'
    this.req = req
    this.res = res
    this.#trustsProxy = trustsProxy
  }

  get authorization(): string | readonly string[] | undefined {
    return receivedValues(this.req, 'authorization')
  }

  get dpop(): string | readonly string[] | undefined {
    return receivedValues(this.req, 'dpop')
  }

  get clientAddress(): string | undefined {
    return firstIpAddress(this.req.ip, this.req.socket.remoteAddress)
  }

  get peerCertificate(): X509Certificate | undefined {
    return (this.req.socket as Partial<TLSSocket>).getPeerX509Certificate?.()
  }

  get host(): string | undefined {
    return this.header('host') ?? this.header(':authority')
  }

  get origin(): string | undefined {
    const protocol = (this.req.socket as TLSSocket).encrypted === true ? 'https' : 'http'
    return requestOrigin(
      { protocol, host: this.host, header: (name) => this.header(name) },
      trustsProxyOf(this.req) ?? this.#trustsProxy,
    )
  }

  get path(): string {
    return pathOf(this.req.originalUrl ?? this.req.url)
  }

  get httpVersion(): string {
    return this.req.httpVersion
  }

  get listensOnLoopback(): boolean {
    const server = (this.req.socket as { server?: Server }).server
    if (server === undefined) return false
    let onLoopback = loopbackServers.get(server)
    if (onLoopback === undefined) {
      const address = server.address?.()
      const host = typeof address === 'object' && address !== null ? address.address : ''
      onLoopback = host === '::1' || isLoopbackHostname(host)
      loopbackServers.set(server, onLoopback)
      server.once?.('close', () => loopbackServers.delete(server))
    }
    return onLoopback
  }

  /** The web-standard request without its body. */
  get request(): Request {
    this.#request ??= webRequest(this)
    return this.#request
  }

  setCorsHeaders(headers: Readonly<Record<string, string>>, restricts: boolean): void {
    if (restricts) restrictCors(this.res, headers)
    else if (!isCorsDecided(this.res)) addHeaders(this.res, headers)
  }

  authenticatedBy(gate: Gate | undefined): Exchange | undefined {
    return authenticatedBy(this.req, gate)
  }

  authenticatedAs(auth: AuthInfo): void {
    this.req.auth = auth
  }

  header(name: string): string | undefined {
    const value = this.req.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  get disconnected(): boolean {
    return isCut(this.req, this.res)
  }

  /** Calls `listener` if the client disconnects before the response is complete, at once if it has. */
  onDisconnect(listener: () => void): void {
    const { req, res } = this
    onceClosed(req, res, () => {
      if (isCut(req, res)) listener()
    })
  }

  readBody(limits: BodyLimits, memory?: BodyMemory): BodyRead | Promise<BodyRead> {
    const { req } = this
    const { 'content-length': length, 'content-encoding': coding } = req.headers
    if (Number(length) > limits.maxBytes) return { kind: 'too-large' }
    if (isParsed(req)) return parsedBody(req.body, limits)
    if (coding !== undefined && isEncoded(coding)) return { kind: 'encoded' }
    if (req.readableDidRead) return { kind: 'consumed' }
    return this.readStream(limits, memory)
  }

  protected readStream(limits: BodyLimits, memory?: BodyMemory): BodyRead | Promise<BodyRead> {
    const received = readReceived(this.req, limits)
    if (received === undefined) return readBody(nodeSource(this.req), limits, memory)
    this.hasReadBody = true
    return received
  }
}

/** Returns all values of a header by its lowercase name. `req.headers` keeps only the first value, or joins them. */
function receivedValues(req: IncomingMessage, header: string): string | readonly string[] | undefined {
  const rawHeaders = rawHeadersOf(req)
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    if (name.length === header.length && name.toLowerCase() === header)
      values.push(rawHeaders[index + 1] as string)
  }
  return values.length > 1 ? values : values[0]
}

/** Returns names and values alternately, as received. Request objects of test tools may have no such list. */
function rawHeadersOf(req: IncomingMessage): readonly string[] {
  const received: readonly string[] | undefined = req.rawHeaders
  const given = (): string[] =>
    Object.entries(req.headers).flatMap(([name, value]) => [value ?? ''].flat().flatMap((one) => [name, one]))
  return received ?? given()
}

/** By server, `true` if it listens on a loopback address. The system is asked once per server. */
const loopbackServers = new WeakMap<Server, boolean>()

/** Evaluates Express's setting `trust proxy` for the sender. Returns `undefined` if there is no Express application. */
function trustsProxyOf(req: NodeRequest): boolean | undefined {
  const trust = req.app?.get?.('trust proxy fn')
  return typeof trust === 'function' ? Boolean(trust(req.socket.remoteAddress, 0)) : undefined
}

/**
 * Returns the path of a request target in any form (RFC 9112 §3.2). Dot segments are kept, because the gate checks
 * them.
 */
export function pathOf(target: string | undefined): string {
  const path = (target ?? '/').split(/[?#]/, 1)[0] as string
  if (path.startsWith('/')) return path
  return /^[a-z][a-z\d+.-]*:\/\/[^/\\]*([/\\].*)$/is.exec(path)?.[1] ?? '/'
}

/** Returns the URL of a request. A host in the request target is ignored. */
function urlOf(target: string, origin: string): string | URL {
  if (/^\/(?:[\w.~%-][\w./~%?&=+:@,-]*)?$/.test(target)) return origin + target
  const url = new URL(origin)
  url.pathname = pathOf(target)
  const query = target.indexOf('?')
  if (query >= 0) url.search = target.slice(query).split('#', 1)[0] as string
  return url
}

function webRequest(received: NodeMcpRequest): Request {
  const { req, method, origin = 'http://localhost' } = received
  const headers = new Headers()
  const rawHeaders = rawHeadersOf(req)
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    if (!name.startsWith(':')) headers.append(name, rawHeaders[index + 1] as string)
  }
  const abort = new AbortController()
  received.onDisconnect(() => abort.abort())
  const request = new Request(urlOf(req.originalUrl ?? req.url ?? '/', origin), {
    method: FORBIDDEN_METHODS.has(method) ? 'GET' : method,
    headers,
    signal: abort.signal,
  })
  return FORBIDDEN_METHODS.has(method) ? Object.defineProperty(request, 'method', { value: method }) : request
}

/** The methods that the constructor of `Request` rejects (Fetch §2.2.1), but that a server may receive. */
const FORBIDDEN_METHODS: ReadonlySet<string> = new Set(['CONNECT', 'TRACE', 'TRACK'])

/**
 * Returns `true` if a body parser has read the body. Body parsers of Express 4 set `{}` for bodies that they did not
 * read.
 */
export function isParsed(req: NodeRequest): boolean {
  if (req.body === undefined) return false
  const empty = typeof req.body === 'object' && req.body !== null && Object.keys(req.body).length === 0
  return !empty || req.readableDidRead || (req as { _body?: unknown })._body === true
}

/** Returns `true` if a body parser has parsed the body to an object. Strings and bytes are not inspected. */
export function holdsMessages(req: NodeRequest): boolean {
  const { body } = req
  return typeof body === 'object' && body !== null && !Buffer.isBuffer(body) && isParsed(req)
}

/** Returns a body that a body parser has read. The limit of the parser may be higher for a string or bytes. */
function parsedBody(body: unknown, { maxBytes }: BodyLimits): BodyRead {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) return { kind: 'value', value: body }
  if (Buffer.byteLength(body) > maxBytes) return { kind: 'too-large' }
  return { kind: 'text', text: typeof body === 'string' ? body : Buffer.from(body).toString('utf8') }
}

/**
 * Reads a body that was received together with its headers, as most are, without listeners and timers. Nothing has read it before.
 * @returns `undefined` if the body is not complete, or something else reads it
 */
function readReceived(req: NodeRequest, { maxBytes }: BodyLimits): BodyRead | undefined {
  const { readableLength } = req
  const isReceived = readableLength > 0 && readableLength === Number(req.headers['content-length'])
  const isUnread = req.readableFlowing === null && !req.destroyed
  // With an encoding, the length is one of characters.
  const isPlain = req.readableEncoding === null && req.httpVersionMajor < 2
  if (!isReceived || !isUnread || !isPlain || readableLength > maxBytes) return undefined
  const body: unknown = req.read()
  // Lets the stream end.
  req.resume()
  return Buffer.isBuffer(body) ? { kind: 'text', text: body.toString('utf8') } : { kind: 'unreadable' }
}

function nodeSource(req: NodeRequest): BodySource {
  return (sink) => {
    const onData = (chunk: unknown): void => sink.chunk(chunk, req.readableEncoding)
    const onEnd = (): void => {
      if (req.httpVersionMajor < 2) sink.end()
      // A client that cancels may end its stream first. The rest of the same packet decides.
      else setImmediate(() => (req.aborted ? sink.broken() : sink.end()))
    }
    if (req.readableEnded) onEnd()
    else if (req.destroyed) sink.broken()
    else req.on('data', onData).on('end', onEnd).on('error', sink.broken).on('close', sink.broken)
    return () => req.off('data', onData).off('end', onEnd).off('error', sink.broken).off('close', sink.broken)
  }
}
