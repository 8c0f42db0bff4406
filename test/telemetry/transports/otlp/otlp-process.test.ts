import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { KitTelemetry, OtlpTransportAdapter, type OtlpTransportOptions } from '../../../../src/index.ts'
import type { KitTelemetryManager } from '../../../../src/telemetry/manager.ts'
import { spawnOtlpClient } from '../../../support/otlp-client.ts'
import { clientOptions, countArrivals, otlpFaults, startFaulty } from '../../../support/otlp-faults.ts'
import {
  type OtlpReceiver,
  type OtlpReceiverOptions,
  startOtlpReceiver,
} from '../../../support/otlp-receiver.ts'
import { runs } from '../../../support/runs.ts'

const ENCODINGS = ['json', 'protobuf'] as const

describe('OtlpTransportAdapter, from the first event to the last', () => {
  const cleanups: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })

  async function receive(options?: OtlpReceiverOptions): Promise<OtlpReceiver> {
    const receiver = await startOtlpReceiver(options)
    cleanups.push(receiver.close)
    return receiver
  }

  const many = runs(100_000)
  it(`OtlpTransportAdapter delivers ${many} events of one tick, each once`, async function () {
    this.timeout(60_000)
    const receiver = await receive()
    const telemetry = manager({ url: receiver.url })
    emit(telemetry, many)
    await telemetry.flush()
    expect(countArrivals(receiver)).to.deep.equal({ arrived: many, twice: 0 })
    expect(statistics(telemetry)).to.deep.equal({
      accepted: many,
      delivered: many,
      failed: 0,
      dropped: 0,
      pending: 0,
    })
    expect(receiver.requests.length).to.equal(Math.ceil(many / 512))
    await telemetry.shutdown()
  })

  it('OtlpTransportAdapter closes its connections at shutdown', async () => {
    const receiver = await receive()
    const telemetry = manager({ url: receiver.url })
    emit(telemetry, 3_000)
    await telemetry.flush()
    expect(receiver.connections()).to.be.above(0)
    await telemetry.shutdown()
    while (receiver.connections() > 0) await new Promise(setImmediate)
  })

  const ends = new Set([
    'none',
    'never answers, beyond both deadlines',
    'asks to be left alone for longer than both deadlines',
    'trickles a 200',
    'a 200 with an endless body',
    'resets the connection after the request',
    '500 for ever',
  ])
  for (const fault of otlpFaults().filter(({ name }) => ends.has(name))) {
    it(`OtlpTransportAdapter lets a process end right after shutdown, collector: ${fault.name}`, async function () {
      this.timeout(60_000)
      const collector = await startFaulty(fault)
      cleanups.push(collector.close)
      const { url } = collector
      const usual = { url, encoding: 'json', events: 600, flushMs: 10_000, shutdownMs: 5_000 } as const
      const { code, report, lingeredMs } = await spawnOtlpClient(clientOptions(fault, usual))
      expect(code).to.equal(0)
      expect(report.broken).to.deep.equal([])
      expect(report.stats).to.include({ accepted: 600 })
      // A request that hangs could hold it for 30 s, the exporter's own wait for 25.
      expect(lingeredMs).to.be.below(5_000)
    })
  }

  for (const encoding of ENCODINGS) {
    it(`OtlpTransportAdapter loses no event at SIGTERM with 5 000 events per second, ${encoding}`, async function () {
      this.timeout(60_000)
      let underWay = () => {}
      const load = new Promise<void>((resolve) => {
        underWay = resolve
      })
      const receiver = await receive({
        answer: (count) => {
          if (count === 6) underWay()
          return undefined
        },
      })
      const program = fileURLToPath(new URL('../../../support/telemetry/otlp-load.js', import.meta.url))
      const child = spawn(process.execPath, [program, receiver.url, encoding], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      cleanups.push(async () => child.kill('SIGKILL'))
      const output = text(child.stdout)
      await load
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      expect(await ended).to.deep.equal([0, null])
      const emitted = Number(await output)
      expect(emitted).to.be.above(6 * 512)
      expect(countArrivals(receiver)).to.deep.equal({ arrived: emitted, twice: 0 })
    })
  }
})

function manager(options: OtlpTransportOptions): KitTelemetryManager {
  return KitTelemetry.create()
    .withLogger(false)
    .withService('loss')
    .withSampling({ infoRate: 1 })
    .addTransport(OtlpTransportAdapter.create(options))
    .build()
}

function emit(telemetry: KitTelemetryManager, events: number, level: 'info' | 'error' = 'info'): void {
  for (let index = 0; index < events; index++) telemetry.emit('loss.event', { level, attributes: { index } })
}

function statistics(telemetry: KitTelemetryManager) {
  const { accepted, delivered, failed, dropped, pending } = telemetry.stats().transports[0] ?? expect.fail()
  return { accepted, delivered, failed, dropped, pending }
}
