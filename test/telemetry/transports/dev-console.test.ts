import { expect } from 'chai'
import {
  DevConsoleTransportAdapter,
  KitTelemetry,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'
import { anEvent, startCollector, type Target } from '../../support/chat-services.ts'
import { freePort } from '../../support/free-port.ts'
import { expectCode, RecordingLogger } from '../../support/telemetry/recording.ts'

const VARIABLE = 'MCP_GATEKIT_DEV_URL'

describe('DevConsoleTransportAdapter', () => {
  let target: Target
  let url: string
  beforeEach(async () => {
    target = await startCollector()
    url = `${target.origin}/feed/key`
  })
  afterEach(() => {
    delete process.env[VARIABLE]
  })

  const managerWith = (transport: DevConsoleTransportAdapter, logger = new RecordingLogger()) =>
    KitTelemetry.create()
      .withService('notes')
      .withSampling({ debugRate: 1, infoRate: 0 })
      .withLogger(logger)
      .addTransport(transport)
      .build()

  const numbers = () =>
    target.requests.flatMap(({ json }) => json.events.map((event: TelemetryEnvelope) => event.attributes?.n))

  it('DevConsoleTransportAdapter posts events in order, many in one request, with the name of their process', async () => {
    const manager = managerWith(DevConsoleTransportAdapter.create({ url }))
    for (let n = 0; n < 1200; n++) manager.emit('tick', { level: 'debug', attributes: { n } })
    await manager.flush()
    expect(numbers()).to.deep.equal(Array.from({ length: 1200 }, (_, n) => n))
    expect(target.requests.map(({ json }) => json.events.length)).to.deep.equal([500, 500, 200])
    const [first] = target.requests
    expect(first).to.include({ method: 'POST', path: '/feed/key' })
    expect(first?.headers['content-type']).to.equal('application/json')
    expect(first?.json.sender).to.deep.equal({
      pid: process.pid,
      service: 'notes',
      environment: 'development',
    })
    expect(manager.stats().transports[0]).to.include({ delivered: 1200, pending: 0 })
    await manager.shutdown()
  })

  it('DevConsoleTransportAdapter is enabled by the environment variable', async () => {
    process.env[VARIABLE] = url
    const manager = managerWith(DevConsoleTransportAdapter.create())
    manager.emit('tick', { level: 'debug', attributes: { n: 7 } })
    await manager.flush()
    expect(numbers()).to.deep.equal([7])
    await manager.shutdown()
  })

  for (const value of [undefined, '']) {
    it(`DevConsoleTransportAdapter sends nothing if ${VARIABLE} is ${value === '' ? 'empty' : 'not set'}, and counts the unsent events`, async () => {
      if (value !== undefined) process.env[VARIABLE] = value
      const transport = DevConsoleTransportAdapter.create()
      const manager = managerWith(transport)
      manager.emit('tick', { level: 'debug' })
      manager.emit('tick', { level: 'error' })
      await manager.shutdown()
      expect(transport.unsent).to.equal(2)
      expect(manager.stats().transports[0]).to.include({ delivered: 2, failed: 0 })
    })
  }

  it('DevConsoleTransportAdapter counts events as lost if no console is running, and the server keeps working', async () => {
    const logger = new RecordingLogger()
    const url = `http://127.0.0.1:${await freePort()}/feed/hunter2hunter2`
    const manager = managerWith(DevConsoleTransportAdapter.create({ url }), logger)
    for (let n = 0; n < 600; n++) manager.emit('tick', { level: 'debug' })
    await manager.flush()
    const [line] = manager.stats().transports
    expect(line).to.include({ delivered: 0, failed: 600, pending: 0 })
    expect(line?.lastError?.message).to.contain('the console could not be reached (ECONNREFUSED)')
    expect(JSON.stringify([logger.errors, line?.lastError?.message])).not.to.contain('hunter2')
    await manager.shutdown()
  })

  it('the error of DevConsoleTransportAdapter names the status of the console', async () => {
    target.answers.push({ status: 400 })
    const failed = await DevConsoleTransportAdapter.create({ url })
      .handle(anEvent())
      ?.catch((error: Error) => error.message)
    expect(failed).to.contain('the console responded with 400')
  })

  for (const url of [
    'https://127.0.0.1:4983/feed',
    'http://192.168.0.7/feed',
    'http://localhost.example.com/feed',
    'http://127.0.0.1.example.com/feed',
    'ftp://127.0.0.1/',
    'no url',
  ]) {
    it(`DevConsoleTransportAdapter rejects ${url}`, () => {
      const error = expectCode('TELEMETRY_CONFIGURATION_INVALID', () =>
        DevConsoleTransportAdapter.create({ url }),
      )
      expect(error.message).to.contain('url')
      process.env[VARIABLE] = url
      const named = expectCode('TELEMETRY_CONFIGURATION_INVALID', () => DevConsoleTransportAdapter.create())
      expect(named.message).to.contain(VARIABLE)
    })
  }
})
