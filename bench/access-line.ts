import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { Writable } from 'node:stream'
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http'
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import express, { type RequestHandler } from 'express'
import morgan from 'morgan'
import { pinoHttp } from 'pino-http'
import winston from 'winston'
import { KitTelemetry } from '../src/telemetry/builder.ts'
import { httpTelemetry } from '../src/telemetry/http-telemetry.ts'
import { LoggerTransportAdapter } from '../src/telemetry/transports/logger.ts'
import type { Contestant } from './contestants.ts'
import { nullSink } from './emit-event.ts'
import { measureLoad } from './load.ts'
import { printRatios } from './report.ts'

const PATH = '/orders/7/items'

const OWN = 'mcp-gatekit httpTelemetry, a session and a line of JSON'
const WITHOUT = 'Express without an access line'

/** One Express route behind each logger of requests. Every line is encoded, and dropped. */
export const contestants: Record<string, Contestant> = {
  [WITHOUT]: () => app(),
  'pino-http, a line of JSON': () => {
    const sink = nullSink()
    return app(pinoHttp({}, { write: (line: string) => sink.write(line) }) as RequestHandler)
  },
  'morgan with winston, a line of JSON': () => {
    const sink = nullSink()
    const stream = new Writable({
      decodeStrings: false,
      write(line, _encoding, done) {
        sink.write(line)
        done()
      },
    })
    const logger = winston.createLogger({
      format: winston.format.combine(winston.format.timestamp(), winston.format.json()),
      transports: [new winston.transports.Stream({ stream })],
    })
    return app(
      morgan(
        (tokens, req, res) => {
          logger.info('http.request.completed', {
            method: tokens.method?.(req, res),
            url: tokens.url?.(req, res),
            status: res.statusCode,
            duration_ms: Number(tokens['response-time']?.(req, res)),
          })
          return undefined
        },
        { stream: { write: () => undefined } },
      ),
    )
  },
  'OpenTelemetry HTTP instrumentation (batch), a span': () => {
    const processor = new BatchSpanProcessor({
      export: (_spans, done) => done({ code: 0 }),
      shutdown: async () => undefined,
    })
    const provider = new BasicTracerProvider({ spanProcessors: [processor] })
    new HttpInstrumentation().setTracerProvider(provider)
    // The instrumentation changes the module when it is required.
    createRequire(import.meta.url)('node:http')
    return app()
  },
  [OWN]: () => {
    const sink = nullSink()
    const write = (line: string) => sink.write(`${line}\n`)
    const logger = { debug: write, info: write, warn: write, error: write }
    const telemetry = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .addTransport(LoggerTransportAdapter.create({ logger, format: 'json' }))
      .build()
    return app(httpTelemetry(telemetry) as RequestHandler)
  },
}

function app(...middleware: RequestHandler[]) {
  const orders = express.Router().get('/:id/items', (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end('{"ok":true}')
  })
  const served = express()
  for (const one of middleware) served.use(one)
  return createServer(served.use('/orders', orders))
}

/** (k) Measures what a line or a span for each request costs. */
export async function benchAccessLine(): Promise<void> {
  const { rounds, cpu } = await measureLoad({
    module: new URL(import.meta.url),
    names: Object.keys(contestants),
    request: { headers: { 'user-agent': 'bench/1.0' } },
    path: PATH,
    expectStatus: 200,
  })
  printRatios('(k) an access line for each request', rounds, 'pino-http, a line of JSON', 'requests/s', cpu)
}
