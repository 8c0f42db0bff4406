import { LoggerProvider, SimpleLogRecordProcessor } from '@opentelemetry/sdk-logs'
import { expect } from 'chai'
import { KitTelemetry, OtlpTransportAdapter } from '../../../../src/telemetry/index.ts'
import { startOtlpReceiver } from '../../../support/otlp-receiver.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Returns the resource that a collector receives. */
async function resourceOf(
  resource: Wrong,
  shape: (builder: KitTelemetry) => KitTelemetry = (builder) => builder,
  encoding: 'json' | 'protobuf' = 'json',
): Promise<Wrong> {
  const receiver = await startOtlpReceiver()
  const transport = OtlpTransportAdapter.create({
    url: receiver.url,
    encoding,
    ...(resource && { resource }),
  })
  const manager = shape(KitTelemetry.create()).withSampling({ infoRate: 1 }).addTransport(transport).build()
  manager.emit('a')
  await manager.shutdown()
  await receiver.close()
  return receiver.records[0]?.resource
}

describe('the resource of OtlpTransportAdapter', () => {
  const before = { ...process.env }
  afterEach(() => {
    for (const name of ['OTEL_RESOURCE_ATTRIBUTES', 'OTEL_SERVICE_NAME']) {
      delete process.env[name]
      if (before[name] !== undefined) process.env[name] = before[name]
    }
  })

  const sources: readonly (readonly [
    what: string,
    env: Readonly<Record<string, string>>,
    resource: Wrong,
    shape: (builder: KitTelemetry) => KitTelemetry,
    expected: Wrong,
  ])[] = [
    [
      'nothing',
      {},
      undefined,
      (b) => b,
      { 'service.name': 'kit-app', 'deployment.environment.name': 'development' },
    ],
    [
      'OTEL_RESOURCE_ATTRIBUTES',
      { OTEL_RESOURCE_ATTRIBUTES: 'service.name=from-list,deployment.environment.name=staging,team=a%20b' },
      undefined,
      (b) => b,
      { 'service.name': 'from-list', 'deployment.environment.name': 'staging', team: 'a b' },
    ],
    [
      'OTEL_SERVICE_NAME, which wins over OTEL_RESOURCE_ATTRIBUTES',
      { OTEL_RESOURCE_ATTRIBUTES: 'service.name=from-list,team=a', OTEL_SERVICE_NAME: 'from-env' },
      undefined,
      (b) => b,
      { 'service.name': 'from-env', team: 'a' },
    ],
    [
      'resource, which wins over the environment',
      { OTEL_RESOURCE_ATTRIBUTES: 'team=a,zone=1', OTEL_SERVICE_NAME: 'from-env' },
      {
        'service.name': 'from-option',
        team: 'b',
        'service.instance.id': 'mine',
        list: ['x', 'y'],
        on: true,
        n: 1.5,
        gone: undefined,
      },
      (b) => b,
      {
        'service.name': 'from-option',
        team: 'b',
        zone: '1',
        'service.instance.id': 'mine',
        list: ['x', 'y'],
        on: true,
        n: 1.5,
      },
    ],
    [
      'the builder, which wins over resource, even with the default values',
      { OTEL_SERVICE_NAME: 'from-env' },
      { 'service.name': 'from-option', 'service.version': '1', 'deployment.environment.name': 'staging' },
      (b) => b.withService('kit-app').withEnvironment('development').withVersion('2'),
      { 'service.name': 'kit-app', 'service.version': '2', 'deployment.environment.name': 'development' },
    ],
    [
      'only the methods of the builder that were called',
      { OTEL_SERVICE_NAME: 'from-env' },
      { 'service.version': '1' },
      (b) => b.withEnvironment('production'),
      { 'service.name': 'from-env', 'service.version': '1', 'deployment.environment.name': 'production' },
    ],
  ]
  for (const [what, env, resource, shape, expected] of sources) {
    for (const encoding of ['json', 'protobuf'] as const) {
      it(`the resource of OtlpTransportAdapter in ${encoding} is given by ${what}`, async () => {
        Object.assign(process.env, env)
        const received = await resourceOf(resource, shape, encoding)
        expect(received).to.deep.include({ ...expected, 'telemetry.sdk.language': 'nodejs' })
        expect(received).not.to.have.property('gone')
      })
    }
  }

  it('service.instance.id is a random UUID, the same for all transports of a process', async () => {
    const [one, two] = [await resourceOf(undefined), await resourceOf({ a: 1 })]
    expect(one['service.instance.id']).to.match(UUID)
    expect(two['service.instance.id']).to.equal(one['service.instance.id'])
    process.env.OTEL_RESOURCE_ATTRIBUTES = 'service.instance.id=from-env'
    expect((await resourceOf(undefined))['service.instance.id']).to.equal('from-env')
  })

  it('with a loggerProvider, the resource is that of the provider', async () => {
    const records: Wrong[] = []
    const exporter = {
      export: (batch: Wrong[], done: Wrong) => {
        records.push(...batch)
        done({ code: 0 })
      },
      shutdown: async () => {},
      forceFlush: async () => {},
    }
    const loggerProvider = new LoggerProvider({
      processors: [new SimpleLogRecordProcessor({ exporter } as Wrong)],
    })
    const transport = OtlpTransportAdapter.create({
      loggerProvider: loggerProvider as Wrong,
      resource: { team: 'a' },
    })
    const manager = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(transport).build()
    manager.emit('a')
    await loggerProvider.forceFlush()
    expect(records[0].resource.attributes).not.to.have.property('team')
  })
})
