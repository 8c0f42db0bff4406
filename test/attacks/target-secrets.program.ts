/**
 * Sends one event with each transport while an observer watches the process, and prints what the observer saw.
 * Arguments: the observer, the origin of the targets, the connection, the secret in all URLs. The secret is not in this
 * file, because Sentry reads the sources that an error names.
 */
import { subscribe } from 'node:diagnostics_channel'
import http from 'node:http'
import { createRequire } from 'node:module'
import { setImmediate } from 'node:timers/promises'
import { inspect } from 'node:util'
import * as api from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import * as telemetry from '../../src/telemetry/index.ts'

const [observer, origin = '', connection, secret = ''] = process.argv.slice(2)
const seen: unknown[] = []

/** Starts the observer. Returns a function that runs the work of the application. */
function observe(): (work: () => Promise<unknown>) => Promise<unknown> {
  if (observer === 'opentelemetry') return instrument()
  const require = createRequire(import.meta.url)
  const Sentry: typeof import('@sentry/node') = require(
    observer === 'sentry' ? '@sentry/node' : '@sentry/node-core/light',
  )
  const keep = (event: unknown): null => {
    seen.push(event)
    return null
  }
  Sentry.init({
    dsn: 'http://public@127.0.0.1:9/1',
    tracesSampleRate: 1,
    tracePropagationTargets: [/.*/],
    beforeSend: keep,
    beforeSendTransaction: keep,
  })
  return async (work) => {
    await Sentry.startSpan({ name: 'the application' }, work)
    Sentry.captureException(new Error('an error of the application'))
    await Sentry.flush(1000)
  }
}

/** Instruments requests as OpenTelemetry does for `http` and undici. */
function instrument(): ReturnType<typeof observe> {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  api.trace.setGlobalTracerProvider(provider)
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  api.propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  const tracer = api.trace.getTracer('instrumentation')
  const traceRequest = (url: string, setHeader: (name: string, value: string) => void): void => {
    const span = tracer.startSpan('POST', { attributes: { 'url.full': url } })
    const context = api.trace.setSpan(api.context.active(), span)
    api.propagation.inject(context, undefined, { set: (_, name, value) => setHeader(name, value) })
    span.end()
  }
  subscribe('undici:request:create', (message) => {
    const { request } = message as { request: { path: string; addHeader(name: string, value: string): void } }
    traceRequest(request.path, (name, value) => request.addHeader(name, value))
  })
  const { request } = http
  http.request = ((...args: Parameters<typeof request>) => {
    const outgoing = request(...args)
    traceRequest(outgoing.path, (name, value) => outgoing.setHeader(name, value))
    return outgoing
  }) as typeof request
  return async (work) => {
    await tracer.startActiveSpan('the application', async (span) => {
      await work()
      span.end()
    })
    seen.push(...exporter.getFinishedSpans().map(({ name, attributes }) => ({ name, attributes })))
  }
}

/** Returns the dispatcher of Node's own `fetch`. */
async function ownDispatcher(): Promise<telemetry.HttpTransportOptions['dispatcher']> {
  await fetch(`${origin}/first`, { method: 'POST' })
  return (globalThis as any)[Symbol.for('undici.globalDispatcher.1')]
}

// A pending transport does not keep the process alive.
setInterval(() => {}, 1000)
const dispatcher = connection === 'dispatcher' ? await ownDispatcher() : undefined
const run = observe()
const options = dispatcher === undefined ? {} : { dispatcher }
const event: telemetry.TelemetryEnvelope = {
  name: 'billing.invoice.failed',
  time: '2026-11-20T12:00:00.123Z',
  level: 'fatal',
  service: 'billing',
  environment: 'test',
  sessionId: 'ses_0',
}
/** Resolves when the collector has responded. */
async function sendOverOtlp(): Promise<void> {
  const transport = telemetry.OtlpTransportAdapter.create({
    url: `${origin}/otlp/${secret}`,
    headers: { 'x-api-key': secret },
  })
  const manager = telemetry.KitTelemetry.create().addTransport(transport).build()
  manager.emit(event.name, { level: 'fatal' })
  await manager.shutdown()
}

await run(async () => {
  if (connection === 'otlp') await sendOverOtlp()
  const transports = [
    telemetry.HttpTransportAdapter.create({
      url: `${origin}/http/${secret}?key=${secret}`,
      headers: { authorization: secret },
      ...options,
    }),
    telemetry.TeamChatTransportAdapter.create({ webhookUrl: `${origin}/slack/${secret}`, ...options }),
    telemetry.CommunityChatTransportAdapter.create({ webhookUrl: `${origin}/discord/${secret}`, ...options }),
    telemetry.MessengerTransportAdapter.create({
      botToken: `1:${secret}`,
      chatId: '1',
      apiRoot: origin,
      ...options,
    }),
  ]
  await Promise.all(transports.map((transport) => transport.handle(event)))
  // This request proves that the observer works.
  await fetch(`${origin}/control`, { method: 'POST' })
  await setImmediate()
})
const texts = seen.map((one) => inspect(one, { depth: 12 }))
process.stdout.write(JSON.stringify({ seen: texts }), () => process.exit())
