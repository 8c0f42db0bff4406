import { expect } from 'chai'
import { freePort } from '../support/free-port.ts'
import { type OtlpClientReport, spawnOtlpClient } from '../support/otlp-client.ts'
import {
  checkLoss,
  clientOptions,
  countArrivals,
  type OtlpFault,
  otlpFaults,
  startFaulty,
} from '../support/otlp-faults.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts'

const EVENTS = 10_000
const OUTAGE_MS = 30_000

/** An outage that only the full-length run has. */
const DOWN: OtlpFault = {
  name: 'down for 30 s',
  fate: 'arrived',
  events: 100_000,
  flushMs: 90_000,
}
const FULL: readonly OtlpFault[] = [
  { name: 'none, 100 000 in one tick', fate: 'arrived', events: 100_000 },
  { name: 'none, maxPending 5 000', fate: 'arrived', maxPending: 5_000 },
]

/** The number of faults that are tested at the same time. */
const AT_A_TIME = 4

interface Row {
  readonly fault: OtlpFault
  readonly encoding: 'json' | 'protobuf'
  readonly report: OtlpClientReport
  readonly arrived: number
  readonly twice: number
  readonly lingeredMs: number
  readonly problem: unknown
}

describe('OTLP: lost events, at full length', () => {
  it('the OTLP transport loses no event that it can deliver, and counts those that it cannot', async function () {
    this.timeout(1_200_000)
    const left = (['json', 'protobuf'] as const).flatMap((encoding) =>
      [DOWN, ...FULL, ...otlpFaults(5, 5_000)].map((fault) => ({ encoding, fault })),
    )
    const order = left.map(({ encoding, fault }) => `${encoding} ${fault.name}`)
    const rows: Row[] = []
    const work = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift())
        rows.push(await runFault(next.fault, next.encoding))
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, work))
    rows.sort(
      (a, b) =>
        order.indexOf(`${a.encoding} ${a.fault.name}`) - order.indexOf(`${b.encoding} ${b.fault.name}`),
    )
    print(rows)
    for (const { problem } of rows) if (problem !== undefined) throw problem
  })
})

/** Runs the client in a separate process. */
async function runFault(fault: OtlpFault, encoding: 'json' | 'protobuf'): Promise<Row> {
  const port = fault === DOWN ? await freePort() : 0
  const collector = fault === DOWN ? comeUp(port) : startFaulty(fault)
  const url = fault === DOWN ? `http://127.0.0.1:${port}` : (await collector).url
  const options = clientOptions(fault, { url, encoding, events: EVENTS, flushMs: 60_000, shutdownMs: 10_000 })
  const { code, report, lingeredMs } = await spawnOtlpClient(options)
  const { records, requests, close } = await collector
  await close()
  let problem: unknown
  try {
    expect(code).to.equal(0)
    expect(lingeredMs).to.be.below(5_000)
    checkLoss(fault, options, report, { records, requests })
  } catch (error) {
    problem = error
  }
  return { fault, encoding, report, ...countArrivals({ records }), lingeredMs, problem }
}

async function comeUp(port: number): Promise<OtlpReceiver> {
  await new Promise((resolve) => setTimeout(resolve, OUTAGE_MS))
  return startOtlpReceiver({ port })
}

function print(rows: readonly Row[]): void {
  const columns = [
    'fault',
    'encoding',
    'emitted',
    'arrived',
    'arrived twice',
    'delivered',
    'failed',
    'dropped',
    'pending',
    'flush ms',
    'shutdown ms',
    'lived on ms',
    'as promised',
  ]
  console.log(`\n| ${columns.join(' | ')} |\n|${columns.map(() => '---').join('|')}|`)
  for (const { fault, encoding, report, arrived, twice, lingeredMs, problem } of rows) {
    const { accepted, delivered, failed, dropped, pending } = report.stats
    const times = [report.flushMs, report.shutdownMs, lingeredMs].map(Math.round)
    const counts = [accepted, arrived, twice, delivered, failed, dropped, pending]
    const kept = problem === undefined ? 'yes' : 'NO'
    console.log(`| ${[fault.name, encoding, ...counts, ...times, kept].join(' | ')} |`)
  }
}
