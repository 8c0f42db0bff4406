/**
 * A program that checks the OTLP transport with either line of OpenTelemetry. It finds `mcp-gatekit` and OpenTelemetry
 * in the folder in which it runs, checks what a strict receiver got, and ends by itself.
 * Its last line of output is a `ProgramReport` in JSON.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import {
  KitTelemetry,
  type KitTelemetryManager,
  OtlpTransportAdapter,
  type OtlpTransportOptions,
  type TelemetryEmitInput,
} from 'mcp-gatekit'
import { type ReceivedRecord, startOtlpReceiver } from '../support/otlp-receiver.ts'

export interface ProgramReport {
  /** The version of Node. */
  readonly node: string
  /** The version of the OpenTelemetry SDK that the receiver got. */
  readonly sdk: string
  readonly checks: readonly string[]
}

const SPAN = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 }

/** The errors and warnings of the library. The checks must not cause any that they do not expect. */
const logged: string[] = []

function telemetryTo(options: OtlpTransportOptions): KitTelemetryManager {
  return KitTelemetry.create()
    .withService('billing')
    .withEnvironment('test')
    .withVersion('1.2.3')
    .withSampling({ debugRate: 1, infoRate: 1 })
    .withLogger({ error: (message) => logged.push(message), warn: (message) => logged.push(message) })
    .addTransport(OtlpTransportAdapter.create(options))
    .build()
}

/** Returns the delivery statistics of the transport, without its error. */
function ledger(telemetry: KitTelemetryManager) {
  const { lastError: _, ...counts } = telemetry.stats().transports[0] ?? assert.fail('no transport')
  return counts
}

const counts = (parts: Partial<ReturnType<typeof ledger>>) => ({
  type: 'otlp',
  accepted: 0,
  delivered: 0,
  failed: 0,
  dropped: 0,
  pending: 0,
  ...parts,
})

/** Each kind of event, and the attributes that arrive in addition to `session.id`. */
const KINDS: readonly {
  readonly name: string
  readonly input: TelemetryEmitInput
  readonly attributes?: Readonly<Record<string, unknown>>
  /** Some of the attributes in OTLP's typed form. */
  readonly typed?: ReceivedRecord['typed']
}[] = [
  ...(['debug', 'info', 'warn', 'error', 'fatal'] as const).map((level) => ({
    name: `level.${level}`,
    input: { level },
  })),
  {
    name: 'source',
    input: { source: { causer: 'cron', file: 'src/pay.ts', line: 42 } },
    attributes: { 'kit.source.causer': 'cron', 'code.file.path': 'src/pay.ts', 'code.line.number': 42 },
    typed: { 'code.line.number': { intValue: '42' } },
  },
  {
    name: 'nested',
    input: { attributes: { map: { list: [1, 'a', null, { deep: [true] }] }, empty: {}, none: null } },
    attributes: { map: { list: [1, 'a', null, { deep: [true] }] }, empty: {}, none: null },
  },
  {
    name: 'numbers',
    input: {
      attributes: { whole: 7, least: -(2 ** 53) + 1, half: 0.5, huge: 2 ** 63, nan: Number.NaN, far: 1 / 0 },
    },
    attributes: {
      whole: 7,
      least: -(2 ** 53) + 1,
      half: 0.5,
      huge: String(2 ** 63),
      nan: 'NaN',
      far: 'Infinity',
    },
    typed: {
      whole: { intValue: '7' },
      least: { intValue: '-9007199254740991' },
      half: { doubleValue: 0.5 },
      huge: { stringValue: String(2 ** 63) },
    },
  },
  {
    name: 'many',
    input: {
      attributes: Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`k${index}`, index])),
    },
    attributes: Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`k${index}`, index])),
  },
]

const SEVERITY = new Map([
  ['debug', 5],
  ['info', 9],
  ['warn', 13],
  ['error', 17],
  ['fatal', 21],
])

const checks: Record<string, () => Promise<void>> = {}
let sdk = ''

for (const encoding of ['json', 'protobuf'] as const) {
  for (const compression of ['none', 'gzip'] as const) {
    checks[`every kind of event as ${encoding}, compression ${compression}`] = async () => {
      const receiver = await startOtlpReceiver()
      const telemetry = telemetryTo({
        url: receiver.url,
        encoding,
        compression,
        headers: { 'x-api-key': 'k' },
      })
      const session = telemetry.session()
      const time = '2026-11-20T12:00:00.123Z'
      for (const { name, input } of KINDS) session.emit(name, { time, ...input })
      await telemetry.flush()
      await telemetry.shutdown()

      assert.deepEqual(ledger(telemetry), counts({ accepted: KINDS.length, delivered: KINDS.length }))
      assert.deepEqual(
        receiver.records.map(({ eventName }) => eventName),
        KINDS.map(({ name }) => name),
      )
      for (const [index, { name, input, attributes = {}, typed = {} }] of KINDS.entries()) {
        const record = receiver.records[index] ?? assert.fail(`${name} did not arrive`)
        const { level = 'info' } = input
        assert.equal(record.body, name)
        assert.equal(record.time, BigInt(Date.parse(time)) * 1_000_000n)
        assert.equal(record.severityText, level)
        assert.equal(record.severityNumber, SEVERITY.get(level))
        assert.equal(record.droppedAttributesCount, 0)
        assert.equal(record.scope.name, 'mcp-gatekit')
        assert.equal(record.traceId, undefined)
        const { 'session.id': sessionId, ...rest } = record.attributes
        assert.equal(sessionId, session.getState().sessionId)
        assert.deepEqual(rest, attributes, name)
        for (const key of Object.keys(typed)) assert.deepEqual(record.typed[key], typed[key], key)
      }
      const [{ resource = {} } = {}] = receiver.records
      assert.equal(resource['service.name'], 'billing')
      assert.equal(resource['service.version'], '1.2.3')
      assert.equal(resource['deployment.environment.name'], 'test')
      sdk = String(resource['telemetry.sdk.version'])
      for (const { headers, url, status } of receiver.requests) {
        assert.equal(`${status} ${url}`, '200 /v1/logs')
        assert.equal(
          headers['content-type'],
          encoding === 'json' ? 'application/json' : 'application/x-protobuf',
        )
        assert.equal(headers['content-encoding'], compression === 'gzip' ? 'gzip' : undefined)
        assert.equal(headers['x-api-key'], 'k')
      }
      await receiver.close()
    }
  }
}

checks['the span that is active at emit, before and after the packages are loaded'] = async () => {
  const receiver = await startOtlpReceiver()
  const telemetry = telemetryTo({ url: receiver.url })
  const inSpan = (name: string) =>
    context.with(trace.setSpanContext(ROOT_CONTEXT, SPAN), () => telemetry.emit(name))
  inSpan('early')
  await telemetry.flush()
  inSpan('late')
  telemetry.emit('outside')
  await telemetry.shutdown()
  assert.deepEqual(
    receiver.records.map(({ eventName, traceId, spanId, flags }) => [eventName, traceId, spanId, flags || 0]),
    [
      ['early', SPAN.traceId, SPAN.spanId, 1],
      ['late', SPAN.traceId, SPAN.spanId, 1],
      ['outside', undefined, undefined, 0],
    ],
  )
  await receiver.close()
}

checks["records for the application's own loggerProvider"] = async () => {
  const receiver = await startOtlpReceiver()
  const exporter = new OTLPLogExporter({ url: `${receiver.url}/v1/logs` })
  const loggerProvider = new LoggerProvider({
    resource: resourceFromAttributes({ 'service.name': 'of-the-application' }),
    processors: [new BatchLogRecordProcessor({ exporter })],
  })
  const telemetry = telemetryTo({ loggerProvider })
  context.with(trace.setSpanContext(ROOT_CONTEXT, SPAN), () =>
    telemetry.emit('handed.over', { attributes: { map: { n: 1 }, nan: Number.NaN } }),
  )
  await telemetry.shutdown()
  assert.deepEqual(ledger(telemetry), counts({ accepted: 1, delivered: 1 }))
  await loggerProvider.shutdown()
  const [record] = receiver.records
  assert.equal(record?.eventName, 'handed.over')
  assert.equal(record?.traceId, SPAN.traceId)
  assert.equal(record?.resource['service.name'], 'of-the-application')
  assert.deepEqual(record?.attributes.map, { n: 1 })
  assert.equal(record?.attributes.nan, 'NaN')
  await receiver.close()
}

checks['headers of the environment, but neither its endpoint, compression, timeout nor resource'] =
  async () => {
    const environment = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
      OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'http://127.0.0.1:9/v1/logs',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_EXPORTER_OTLP_TIMEOUT: '1',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-env=from-env,x-both=from-env',
      OTEL_EXPORTER_OTLP_LOGS_HEADERS: 'x-logs=from-env',
      OTEL_SERVICE_NAME: 'from-env',
      OTEL_RESOURCE_ATTRIBUTES: 'team=from-env',
      OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT: '1',
      OTEL_SDK_DISABLED: 'true',
    }
    Object.assign(process.env, environment)
    const receiver = await startOtlpReceiver({ answer: () => sleep(50, undefined) })
    const telemetry = telemetryTo({ url: receiver.url, headers: { 'x-both': 'from-code' } })
    telemetry.emit('event', { attributes: { a: 1, b: 2 } })
    await telemetry.shutdown()
    for (const name of Object.keys(environment)) delete process.env[name]
    assert.deepEqual(ledger(telemetry), counts({ accepted: 1, delivered: 1 }))
    const { headers } = receiver.requests[0] ?? assert.fail('nothing arrived')
    assert.equal(headers['x-env'], 'from-env')
    assert.equal(headers['x-logs'], 'from-env')
    assert.equal(headers['x-both'], 'from-code')
    assert.equal(headers['content-encoding'], undefined)
    const { resource, attributes } = receiver.records[0] ?? assert.fail('no record')
    const { 'service.instance.id': instance, ...others } = resource
    assert.match(String(instance), /^[0-9a-f-]{36}$/)
    assert.deepEqual(others, {
      team: 'from-env',
      'service.name': 'billing',
      'service.version': '1.2.3',
      'deployment.environment.name': 'test',
      'telemetry.sdk.name': 'opentelemetry',
      'telemetry.sdk.language': 'nodejs',
      'telemetry.sdk.version': sdk,
    })
    assert.equal(attributes.a, 1)
    assert.equal(attributes.b, 2)
    await receiver.close()
  }

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
for (const [name, check] of Object.entries(checks)) {
  try {
    await check()
    assert.deepEqual(logged.splice(0), [])
  } catch (cause) {
    throw new Error(`Failed: ${name}`, { cause })
  }
}
context.disable()
const report: ProgramReport = { node: process.versions.node, sdk, checks: Object.keys(checks) }
console.log(JSON.stringify(report))
