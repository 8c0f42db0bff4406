import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import { KitTelemetry } from '../src/telemetry/builder.ts'
import { OtlpTransportAdapter } from '../src/telemetry/transports/otlp/otlp.ts'
import { attributes, EVENT, SERVICE, SESSION } from './emit-event.ts'
import { redactByHand } from './emit-peers.ts'

/** The options of a contestant's process, which receives an `OtlpLoad` and responds with a `Figure`. */
export interface OtlpClient {
  readonly name: 'OpenTelemetry SDK' | 'mcp-gatekit'
  readonly url: string
  readonly encoding: 'json' | 'protobuf'
  readonly compression: 'none' | 'gzip'
}

export interface OtlpLoad {
  readonly records: number
  /** The number of records that are emitted in one turn of the event loop. */
  readonly perTurn: number
}

export interface Figure {
  readonly ms: number
  readonly cpuMicros: number
}

interface Client {
  emit(): void
  /** Resolves when all records are delivered. */
  settle(): Promise<void>
}

function gatekit({ url, encoding, compression }: OtlpClient): Client {
  const telemetry = KitTelemetry.create()
    .withService(SERVICE.service)
    .withEnvironment(SERVICE.environment)
    .withVersion(SERVICE.version)
    .withValidation({ mode: 'none' })
    .withSampling({ infoRate: 1 })
    .withRedaction({ denylistKeys: ['password'], hashKeys: ['email'] })
    .addTransport(OtlpTransportAdapter.create({ url, encoding, compression }))
    .build()
  const session = telemetry
    .session()
    .id(SESSION.sessionId)
    .actor(SESSION.actor.type, SESSION.actor.id)
    .scope(SESSION.scope.type, SESSION.scope.id)
  return {
    emit: () => session.emit(EVENT, { attributes: attributes() }),
    settle: () => telemetry.flush(),
  }
}

async function bareSdk({ url, encoding, compression }: OtlpClient): Promise<Client> {
  const [{ resourceFromAttributes }, { OTLPLogExporter }] = await Promise.all([
    import('@opentelemetry/resources'),
    encoding === 'json'
      ? import('@opentelemetry/exporter-logs-otlp-http')
      : import('@opentelemetry/exporter-logs-otlp-proto'),
  ])
  const exporter = new OTLPLogExporter({ url, compression: compression as never })
  const provider = new LoggerProvider({
    resource: resourceFromAttributes({
      'service.name': SERVICE.service,
      'service.version': SERVICE.version,
      'deployment.environment.name': SERVICE.environment,
    }),
    // By default, the queue holds 2 048 records and drops all others.
    processors: [new BatchLogRecordProcessor({ exporter, maxQueueSize: 131_072 })],
  })
  const logger = provider.getLogger('bench', '1.0.0')
  return {
    emit: () =>
      logger.emit({
        eventName: EVENT,
        body: EVENT,
        timestamp: Date.now(),
        severityNumber: 9,
        severityText: 'info',
        attributes: {
          ...(redactByHand(attributes()) as Record<string, string>),
          'session.id': SESSION.sessionId,
          'kit.actor.type': SESSION.actor.type,
          'kit.actor.id': SESSION.actor.id,
          'user.id': SESSION.actor.id,
          'kit.scope.type': SESSION.scope.type,
          'kit.scope.id': SESSION.scope.id,
        },
      }),
    settle: () => provider.forceFlush(),
  }
}

async function measure({ emit, settle }: Client, { records, perTurn }: OtlpLoad): Promise<Figure> {
  const cpu = process.cpuUsage()
  const start = performance.now()
  for (let done = 0; done < records; done += perTurn) {
    for (let index = 0; index < perTurn; index++) emit()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await settle()
  const ms = performance.now() - start
  const { user, system } = process.cpuUsage(cpu)
  return { ms, cpuMicros: user + system }
}

if (process.send !== undefined) {
  const options: OtlpClient = JSON.parse(process.argv[2] as string)
  const client = await (options.name === 'mcp-gatekit' ? gatekit(options) : bareSdk(options))
  process.on('message', (load: OtlpLoad) => {
    void measure(client, load).then((figure) => process.send?.(figure))
  })
  process.on('disconnect', () => process.exit())
  process.send('ready')
}
