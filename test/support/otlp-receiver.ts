import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import { createServer as createSecureServer, type ServerOptions } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { gunzipSync } from 'node:zlib'
import {
  type AnyValue,
  decodeLogsRequest,
  encodeLogsResponse,
  type KeyValue,
  type LogsRequest,
} from './otlp-protobuf.ts'

/** A log record that arrived, with its values as plain JavaScript values. */
export interface ReceivedRecord {
  readonly eventName: string | undefined
  readonly body: unknown
  /** Nanoseconds since 1970. */
  readonly time: bigint
  /** Nanoseconds since 1970. */
  readonly observedTime: bigint
  readonly severityNumber: number | undefined
  readonly severityText: string | undefined
  /** 64-bit integers that are not safe numbers are bigints. */
  readonly attributes: Readonly<Record<string, unknown>>
  /** The same attributes in OTLP's typed form: `{ intValue: '1' }`, `{ doubleValue: 1.5 }`. */
  readonly typed: Readonly<Record<string, AnyValue>>
  readonly droppedAttributesCount: number
  readonly resource: Readonly<Record<string, unknown>>
  readonly scope: { readonly name?: string | undefined; readonly version?: string | undefined }
  readonly traceId: string | undefined
  readonly spanId: string | undefined
  readonly flags: number | undefined
}

export interface ReceivedRequest {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly bytes: number
  /** The status of the response, or `undefined` if `answer` sent the response. */
  readonly status: number | undefined
}

/** A response that differs from the usual one. `records` are kept only with a status below 300. */
export interface OtlpAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The number of records that a partial success rejects. They are the last ones of the request. */
  readonly rejected?: number
  /** Ends the response in another way. The records are kept nevertheless. */
  readonly end?: (response: ServerResponse) => void
}

type Answer = Omit<OtlpAnswer, 'body'> & { readonly body?: string | Buffer }

export interface OtlpReceiverOptions {
  /** Defaults to a free port. */
  readonly port?: number
  /** If given, the receiver speaks TLS. */
  readonly tls?: ServerOptions
  /** Called after the headers of each request, with `count` from 1. Returns `true` if it handles the request itself. */
  readonly interrupt?: (count: number, request: IncomingMessage, response: ServerResponse) => boolean
  /**
   * Called once per complete request, with `count` from 1. Returns nothing for the usual response, or `'hang'` if it
   * handles the response itself.
   */
  readonly answer?: (
    count: number,
    response: ServerResponse,
    bytes: number,
  ) => OtlpAnswer | 'hang' | undefined | Promise<OtlpAnswer | undefined>
}

export interface OtlpReceiver {
  /** The origin, without a path. */
  readonly url: string
  readonly port: number
  readonly records: readonly ReceivedRecord[]
  readonly requests: readonly ReceivedRequest[]
  /** Returns the number of open connections. */
  connections(): number
  /** Serves a connection that another server has accepted. */
  adopt(socket: Socket): void
  close(): Promise<void>
}

/**
 * Starts an OTLP/HTTP log receiver on loopback that is as strict as the OpenTelemetry Collector. It accepts JSON and
 * protobuf, with or without gzip, at `/v1/logs`, and rejects a whole batch with 400 for one invalid value.
 */
export async function startOtlpReceiver(options: OtlpReceiverOptions = {}): Promise<OtlpReceiver> {
  const records: ReceivedRecord[] = []
  const requests: ReceivedRequest[] = []

  let heads = 0

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (options.interrupt?.(++heads, request, response)) return
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const { url = '', headers } = request
    const seen = { url, headers, bytes: body.length }
    const own = await options.answer?.(requests.length + 1, response, body.length)
    if (own === 'hang') {
      requests.push({ ...seen, status: undefined })
      return
    }
    const usual = own !== undefined && own.status >= 300 ? own : accept(request, body, records, own?.rejected)
    // Malformed requests are rejected, even if the test sets another response.
    const {
      status,
      headers: extra,
      body: text,
      end,
    }: Answer = usual.status === 400 ? usual : { ...usual, ...own }
    requests.push({ ...seen, status })
    response.writeHead(status, { 'content-type': headers['content-type'] ?? 'text/plain', ...extra })
    if (end !== undefined) end(response)
    else response.end(text)
  }

  const listener: RequestListener = (request, response) => {
    // A client that gives up aborts its request.
    receive(request, response).catch(() => response.destroy())
  }
  const { tls } = options
  const server = tls === undefined ? createServer(listener) : createSecureServer(tls, listener)
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(options.port ?? 0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    records,
    requests,
    connections: () => sockets.size,
    adopt: (socket) => void server.emit('connection', socket),
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

function accept(
  { method, url = '', headers }: IncomingMessage,
  raw: Buffer,
  into: ReceivedRecord[],
  rejected = 0,
): Answer {
  if (new URL(url, 'http://receiver').pathname !== '/v1/logs')
    return { status: 404, body: '404 page not found' }
  if (method !== 'POST') return { status: 405 }
  const type = headers['content-type']
  if (type !== 'application/json' && type !== 'application/x-protobuf') return { status: 415 }
  try {
    const body = headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw
    const request = type === 'application/json' ? JSON.parse(utf8(body)) : decodeLogsRequest(body)
    const received = [...readRequest(request)]
    for (const record of received.slice(0, received.length - rejected)) into.push(record)
    return {
      status: 200,
      body: type === 'application/json' ? jsonAnswer(rejected) : encodeLogsResponse(rejected),
    }
  } catch (error) {
    return { status: 400, body: JSON.stringify({ code: 3, message: String(error) }) }
  }
}

function jsonAnswer(rejected: number): string {
  const partialSuccess = { rejectedLogRecords: String(rejected), errorMessage: 'too old' }
  return JSON.stringify(rejected === 0 ? {} : { partialSuccess })
}

function utf8(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
}

function* readRequest({ resourceLogs = [] }: LogsRequest): Generator<ReceivedRecord> {
  for (const { resource, scopeLogs = [] } of resourceLogs) {
    const service = readAttributes(resource?.attributes ?? [])
    for (const { scope = {}, logRecords = [] } of scopeLogs) {
      for (const record of logRecords) {
        const attributes = record.attributes ?? []
        yield {
          eventName: optional(record.eventName, text),
          body: record.body === undefined ? undefined : readValue(record.body),
          time: nanoseconds(record.timeUnixNano),
          observedTime: nanoseconds(record.observedTimeUnixNano),
          severityNumber: optional(record.severityNumber, severity),
          severityText: optional(record.severityText, text),
          attributes: readAttributes(attributes),
          typed: Object.fromEntries(attributes.map(({ key, value }) => [key, typed(value ?? {})])),
          droppedAttributesCount: record.droppedAttributesCount ?? 0,
          resource: service,
          scope: { name: optional(scope.name, text), version: optional(scope.version, text) },
          traceId: optional(record.traceId, (value) => hex(value, 32)),
          spanId: optional(record.spanId, (value) => hex(value, 16)),
          flags: record.flags,
        }
      }
    }
  }
}

function readAttributes(pairs: readonly KeyValue[]): Record<string, unknown> {
  const keys = new Set(pairs.map(({ key }) => text(key)))
  refuseUnless(keys.size === pairs.length, 'attribute keys are not unique')
  return Object.fromEntries(pairs.map(({ key, value }) => [key, readValue(value ?? {})]))
}

function readValue(value: AnyValue): unknown {
  refuseUnless(Object.keys(value).length <= 1, 'a value has more than one type')
  if ('stringValue' in value) return text(value.stringValue)
  if ('boolValue' in value) {
    refuseUnless(typeof value.boolValue === 'boolean', 'boolValue is not a boolean')
    return value.boolValue
  }
  if ('intValue' in value) {
    const integer = int64(value.intValue)
    return Number.isSafeInteger(Number(integer)) ? Number(integer) : integer
  }
  if ('doubleValue' in value) {
    refuseUnless(typeof value.doubleValue === 'number', 'doubleValue is not a number')
    return value.doubleValue
  }
  if ('arrayValue' in value) return (value.arrayValue?.values ?? []).map(readValue)
  if ('kvlistValue' in value) return readAttributes(value.kvlistValue?.values ?? [])
  if ('bytesValue' in value) return Buffer.from(text(value.bytesValue), 'base64')
  refuseUnless(Object.keys(value).length === 0, `unknown type ${Object.keys(value)}`)
  return null
}

/** Returns the value with its integer as a string. */
function typed(value: AnyValue): AnyValue {
  return value.intValue === undefined ? value : { intValue: String(value.intValue) }
}

function optional<T, R>(value: T | undefined, read: (value: T) => R): R | undefined {
  return value === undefined ? undefined : read(value)
}

function text(value: unknown): string {
  refuseUnless(
    typeof value === 'string' && !/\p{Surrogate}/u.test(value),
    `${JSON.stringify(value)} is not a Unicode string`,
  )
  return value
}

function hex(value: unknown, length: number): string {
  refuseUnless(new RegExp(`^[0-9a-f]{${length}}$`).test(String(value)), `${value} is not an id`)
  return String(value)
}

function severity(value: unknown): number {
  refuseUnless(
    Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 24,
    `severity ${value}`,
  )
  return value as number
}

function int64(value: unknown): bigint {
  const written = typeof value === 'number' ? String(value) : value
  refuseUnless(typeof written === 'string' && /^-?\d+$/.test(written), `${written} is not an integer`)
  refuseUnless(BigInt.asIntN(64, BigInt(written)) === BigInt(written), `${written} is beyond 64 bits`)
  return BigInt(written)
}

function nanoseconds(value: unknown): bigint {
  refuseUnless(typeof value === 'string' && /^\d+$/.test(value), `${value} is not a time`)
  refuseUnless(BigInt(value) > 0n && BigInt(value) < 2n ** 63n, `time ${value} is out of range`)
  return BigInt(value)
}

function refuseUnless(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Error(problem)
}
