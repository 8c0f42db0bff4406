import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { expect } from 'chai'
import { freePort } from '../../../support/free-port.ts'
import { type OtlpClientOptions, type OtlpClientReport, runOtlpClient } from '../../../support/otlp-client.ts'
import {
  checkLoss,
  clientOptions,
  countArrivals,
  type OtlpFault,
  otlpFaults,
  startFaulty,
} from '../../../support/otlp-faults.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../../support/otlp-receiver.ts'

const EVENTS = 600

/** How many faults are suffered at a time: most of it is waiting, but the rest must not outlast a timeout. */
const AT_A_TIME = 5

interface Outcome {
  readonly options: OtlpClientOptions
  readonly report: OtlpClientReport
  readonly collector: OtlpReceiver
}

/** Where a timeout has to pass, the encoding makes no difference; the full-length run has all of them in both. */
function faultsFor(encoding: 'json' | 'protobuf'): OtlpFault[] {
  return otlpFaults().filter(({ timeout }) => encoding === 'json' || timeout === undefined)
}

/** Through the manager, against a collector with that fault. */
async function suffer(fault: OtlpFault, encoding: 'json' | 'protobuf'): Promise<Outcome> {
  const collector = await startFaulty(fault)
  try {
    const { url } = collector
    const options = clientOptions(fault, {
      url,
      encoding,
      events: EVENTS,
      flushMs: 20_000,
      shutdownMs: 5_000,
    })
    return { options, report: await runOtlpClient(options), collector }
  } finally {
    await collector.close()
  }
}

describe('OtlpTransportAdapter, whatever the collector does', () => {
  for (const encoding of ['json', 'protobuf'] as const) {
    describe(encoding, () => {
      const outcomes = new Map<string, Outcome>()
      before(async function () {
        this.timeout(60_000)
        const faults = faultsFor(encoding)
        const sufferInTurn = async () => {
          for (let fault = faults.shift(); fault !== undefined; fault = faults.shift())
            outcomes.set(fault.name, await suffer(fault, encoding))
        }
        await Promise.all(Array.from({ length: AT_A_TIME }, sufferInTurn))
      })

      for (const fault of faultsFor(encoding)) {
        it(`OtlpTransportAdapter (${encoding}) with a collector that has the fault "${fault.name}": ${fault.fate}`, () => {
          const { options, report, collector } = outcomes.get(fault.name) as Outcome
          checkLoss(fault, options, report, collector)
        })
      }
    })
  }

  it('a partial success is reported with the number of rejected records', async () => {
    const [fault] = otlpFaults().filter(({ fate }) => fate === 'in part')
    const outcome = await suffer({ ...(fault as OtlpFault), events: 20 }, 'protobuf')
    const { lastError } = outcome.report
    expect(lastError).to.match(/^transport "otlp": the collector rejected 7 of 20 events .*partial success/)
    expect(lastError).to.include('too old')
  })

  for (const encoding of ['json', 'protobuf'] as const) {
    it(`OtlpTransportAdapter delivers every event (${encoding}) if the collector comes up after two refused connections`, async () => {
      const port = await freePort()
      let collector: Promise<OtlpReceiver> | undefined
      let refused = 0
      const observe = (message: unknown) => {
        const { socket } = message as { socket: import('node:net').Socket }
        socket.once('error', (error: Error & { port?: number }) => {
          if (error.port === port && ++refused === 2) collector = startOtlpReceiver({ port })
        })
      }
      subscribe('net.client.socket', observe)
      try {
        const url = `http://127.0.0.1:${port}`
        const report = await runOtlpClient({
          url,
          encoding,
          events: EVENTS,
          timeout: 500,
          flushMs: 20_000,
          shutdownMs: 5_000,
        })
        const receiver = (await collector) as OtlpReceiver
        expect(countArrivals(receiver)).to.deep.equal({ arrived: EVENTS, twice: 0 })
        expect(report.stats).to.include({ delivered: EVENTS, failed: 0, pending: 0 })
        expect(report.broken).to.deep.equal([])
      } finally {
        unsubscribe('net.client.socket', observe)
        await (await collector)?.close()
      }
    })
  }
})
