import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { listen, stop } from './listen.ts'

/** A decoded log record. */
export interface OtlpRecord {
  readonly eventName: string
  readonly time: Date
  readonly severityText: string
  readonly attributes: Readonly<Record<string, unknown>>
  /** The attributes of the sending service, such as `service.name`. */
  readonly resource: Readonly<Record<string, unknown>>
  readonly traceId?: string
}

export interface OtlpReceiver {
  /** The base URL, for `POST {url}/v1/logs`. */
  readonly url: string
  /** Returns all received records in order of arrival. */
  records(): OtlpRecord[]
  /** Returns the bodies of all requests, in which tests search for secrets. */
  text(): string
  /** Resolves when the given number of records, or a matching record, has arrived. Rejects after ten seconds. */
  waitFor(wanted: number | ((record: OtlpRecord) => boolean)): Promise<OtlpRecord[]>
  close(): Promise<unknown>
}

/** The part of OTLP that this receiver reads. See opentelemetry/proto/collector/logs/v1/logs_service.proto. */
interface ExportLogsRequest {
  resourceLogs?: { resource?: { attributes?: KeyValue[] }; scopeLogs?: { logRecords?: LogRecord[] }[] }[]
}

interface LogRecord {
  eventName?: string
  timeUnixNano?: string
  severityText?: string
  attributes?: KeyValue[]
  traceId?: string
}

interface KeyValue {
  key: string
  value?: AnyValue
}

interface AnyValue {
  stringValue?: string
  boolValue?: boolean
  intValue?: number | string
  doubleValue?: number
  arrayValue?: { values?: AnyValue[] }
  kvlistValue?: { values?: KeyValue[] }
}

/** Starts a minimal OpenTelemetry collector, which decodes JSON log records and keeps them. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const received: OtlpRecord[] = []
  const bodies: string[] = []
  const arrival = new EventEmitter()

  const server = createServer(async (request, response) => {
    response.setHeader('content-type', 'application/json')
    try {
      if (request.method !== 'POST' || request.url !== '/v1/logs') {
        response.writeHead(404).end('{"message":"Send logs to POST /v1/logs"}')
      } else if (request.headers['content-type'] !== 'application/json') {
        response.writeHead(415).end('{"message":"Only application/json is supported"}')
      } else {
        const body = await readBody(request)
        received.push(...decode(JSON.parse(body)))
        bodies.push(body)
        response.end('{}')
        arrival.emit('records')
      }
    } catch (error) {
      response.writeHead(400).end(JSON.stringify({ message: String(error) }))
    }
  })
  const port = await listen(server, 0)

  return {
    url: `http://127.0.0.1:${port}`,
    records: () => [...received],
    text: () => bodies.join('\n'),
    async waitFor(wanted) {
      const signal = AbortSignal.timeout(10_000)
      const enough = () =>
        typeof wanted === 'number' ? received.length >= wanted : received.some((record) => wanted(record))
      while (!enough()) await once(arrival, 'records', { signal })
      return [...received]
    },
    close: () => stop(server),
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  return String(request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body)
}

function* decode({ resourceLogs = [] }: ExportLogsRequest): Generator<OtlpRecord> {
  for (const { resource, scopeLogs = [] } of resourceLogs) {
    const service = toObject(resource?.attributes)
    for (const { logRecords = [] } of scopeLogs) {
      for (const {
        eventName = '',
        timeUnixNano = '0',
        severityText = '',
        attributes,
        traceId,
      } of logRecords) {
        yield {
          eventName,
          time: new Date(Number(BigInt(timeUnixNano) / 1_000_000n)),
          severityText,
          attributes: toObject(attributes),
          resource: service,
          ...(traceId ? { traceId } : {}),
        }
      }
    }
  }
}

function toObject(pairs: KeyValue[] = []): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, toPlain(value)]))
}

function toPlain(value: AnyValue = {}): unknown {
  if (value.arrayValue) return (value.arrayValue.values ?? []).map(toPlain)
  if (value.kvlistValue) return toObject(value.kvlistValue.values)
  // In JSON, 64-bit integers are strings because numbers would lose digits.
  if (value.intValue !== undefined) return Number(value.intValue)
  return value.stringValue ?? value.boolValue ?? value.doubleValue ?? null
}
