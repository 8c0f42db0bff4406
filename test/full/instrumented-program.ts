/**
 * A program that serves one tool with another instrumentation in the same process, and calls it once. It finds all packages in the
 * folder in which it runs. Its last line of output is an `InstrumentedReport` in JSON.
 */
import { once } from 'node:events'
import http from 'node:http'
import { register } from 'node:module'
import type { AddressInfo } from 'node:net'

/** The setup of the program, as JSON in its argument. */
export interface InstrumentedSetup {
  readonly instrumentation: 'sentry' | 'opentelemetry'
  /** Further options of `Sentry.init`. */
  readonly sentry?: Readonly<Record<string, unknown>>
  /** A router function that returns a server of the SDK, instead of a `KitMcpRouter`. */
  readonly isFunction?: boolean
  /** Options of the adapter. */
  readonly adapter?: Readonly<Record<string, unknown>>
  /** `traceparent` in `params._meta`. */
  readonly traceparent?: string
}

export interface ReportedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentId: string | undefined
  /** The instrumentation that has recorded the span. */
  readonly by: string
  readonly linked: readonly string[]
}

export interface InstrumentedReport {
  readonly status: number
  readonly spans: readonly ReportedSpan[]
  /** The headers with the trace that the tool has sent to its upstream server. */
  readonly sent: { readonly traceparent?: string; readonly 'sentry-trace'?: string }
}

const setup: InstrumentedSetup = JSON.parse(process.argv[2] ?? '{}')

/** Imports a package that is not one of this project. */
const load = (name: string): Promise<any> => import(name)

const finished = await { sentry: startSentry, opentelemetry: startOpenTelemetry }[setup.instrumentation]()

// After the instrumentation, which replaces functions of these packages.
const { default: express } = await load('express')
const { createMcpAdapter, KitMcpRouter, mcpServer } = await load('mcp-gatekit')
const { McpServer } = await load('@modelcontextprotocol/server')

let sent: http.IncomingHttpHeaders = {}
const upstream = http.createServer((req, res) => {
  sent = req.headers
  res.end('x')
})

async function useUpstream(): Promise<string> {
  const [response] = await once(http.get({ ...addressOf(upstream), path: '/upstream' }), 'response')
  await response.resume().toArray()
  return 'done'
}

const router = setup.isFunction
  ? () => {
      const server = new McpServer({ name: 'x', version: '1' })
      server.registerTool('work', { description: 'x' }, async () => ({
        content: [{ type: 'text', text: await useUpstream() }],
      }))
      return server
    }
  : KitMcpRouter.create().tool('work', { description: 'x' }, useUpstream)

const adapter = createMcpAdapter({ router, telemetry: false, ...setup.adapter })
const server = http.createServer(express().use(mcpServer(adapter, { path: '/mcp' })))
for (const one of [upstream, server]) await once(one.listen(0, '127.0.0.1'), 'listening')

const status = await call()
for (const one of [upstream, server]) {
  one.closeAllConnections()
  await once(one.close(), 'close')
}
const spans = await finished()
const { traceparent, 'sentry-trace': sentryTrace } = sent
console.log(JSON.stringify({ status, spans, sent: { traceparent, 'sentry-trace': sentryTrace } }))

function addressOf(one: http.Server): { host: string; port: number } {
  return { host: '127.0.0.1', port: (one.address() as AddressInfo).port }
}

/** Calls the tool through a plain socket, so that the client is not instrumented. Returns the status. */
async function call(): Promise<number> {
  const { connect } = await import('node:net')
  const { host, port } = addressOf(server)
  const _meta = setup.traceparent === undefined ? {} : { traceparent: setup.traceparent }
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'work', arguments: {}, _meta },
  })
  const socket = connect(port, host)
  socket.write(
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n` +
      `Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  let text = ''
  for await (const chunk of socket) text += chunk
  if (!text.includes('done')) throw new Error(text)
  return Number(text.split(' ')[1])
}

async function startSentry(): Promise<() => Promise<ReportedSpan[]>> {
  const Sentry = await load('@sentry/node')
  const spans: ReportedSpan[] = []
  Sentry.init({
    dsn: 'http://public@127.0.0.1:9/1',
    tracesSampleRate: 1,
    transport: () => ({
      async send([, items]: [unknown, [{ type: string }, any][]]) {
        for (const [{ type }, payload] of items)
          if (type === 'span') spans.push(...payload.items.map(streamed))
        return {}
      },
      flush: async () => true,
    }),
    ...setup.sentry,
  })
  return async () => {
    await Sentry.flush(10_000)
    return spans
  }
}

function streamed(span: any): ReportedSpan {
  return {
    name: span.name,
    traceId: span.trace_id,
    spanId: span.span_id,
    parentId: span.parent_span_id,
    by: String(span.attributes['sentry.origin']?.value),
    linked: (span.links ?? []).map(({ span_id }: { span_id: string }) => span_id),
  }
}

async function startOpenTelemetry(): Promise<() => Promise<ReportedSpan[]>> {
  register('@opentelemetry/instrumentation/hook.mjs', import.meta.url)
  const { NodeTracerProvider } = await load('@opentelemetry/sdk-trace-node')
  const { InMemorySpanExporter, SimpleSpanProcessor } = await load('@opentelemetry/sdk-trace-base')
  const { registerInstrumentations } = await load('@opentelemetry/instrumentation')
  const { HttpInstrumentation } = await load('@opentelemetry/instrumentation-http')
  const { ExpressInstrumentation } = await load('@opentelemetry/instrumentation-express')
  const exporter = new InMemorySpanExporter()
  const tracerProvider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  tracerProvider.register()
  registerInstrumentations({
    tracerProvider,
    instrumentations: [
      new HttpInstrumentation({
        ignoreIncomingRequestHook: ({ url }: http.IncomingMessage) => url === '/upstream',
      }),
      new ExpressInstrumentation(),
    ],
  })
  return async () =>
    exporter.getFinishedSpans().map((span: any) => ({
      name: span.name,
      traceId: span.spanContext().traceId,
      spanId: span.spanContext().spanId,
      parentId: span.parentSpanContext?.spanId,
      by: span.instrumentationScope.name,
      linked: span.links.map(({ context }: { context: { spanId: string } }) => context.spanId),
    }))
}
