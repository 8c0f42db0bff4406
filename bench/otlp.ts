import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import type { Figure, OtlpClient } from './otlp-clients.ts'
import { median, recordRatio } from './report.ts'

const ROUNDS = 7
const RECORDS = 50_000

const TITLE = `(e) OTLP, ${RECORDS.toLocaleString('en')} records to a collector in another process`

/** The compared forms of requests. */
const FORMS: readonly (readonly [
  encoding: OtlpClient['encoding'],
  compression: OtlpClient['compression'],
])[] = [
  ['json', 'none'],
  ['protobuf', 'none'],
  ['json', 'gzip'],
  ['protobuf', 'gzip'],
]

/** (e) Measures records from `emit` to a collector in another process. */
export async function benchOtlp(): Promise<void> {
  const receiver = fork(new URL('otlp-sink.js', import.meta.url))
  const [port] = (await once(receiver, 'message')) as [number]
  console.log(`\n### ${TITLE}\n`)
  console.log(
    '| contestant | records/s | min to max | × the SDK | CPU µs per record | min to max | × the SDK |',
  )
  console.log('|---|---|---|---|---|---|---|')
  try {
    for (const [encoding, compression] of FORMS) await compare(receiver, port, encoding, compression)
  } finally {
    receiver.disconnect()
  }
}

async function compare(
  receiver: ChildProcess,
  port: number,
  encoding: OtlpClient['encoding'],
  compression: OtlpClient['compression'],
): Promise<void> {
  const contestants = (['OpenTelemetry SDK', 'mcp-gatekit'] as const).map((name) => {
    const options: OtlpClient = { name, encoding, compression, url: `http://127.0.0.1:${port}/v1/logs` }
    const child = fork(new URL('otlp-clients.js', import.meta.url), [JSON.stringify(options)])
    return { name, child, rates: [] as number[], costs: [] as number[] }
  })
  for (const { child } of contestants) await once(child, 'message')
  for (let round = 0; round <= ROUNDS; round++) {
    // The order alternates, because the machine may slow down within a round.
    for (const contestant of round % 2 === 0 ? contestants : [...contestants].reverse()) {
      await setTimeout(200)
      contestant.child.send(RECORDS)
      const [{ ms, cpuMicros }] = (await once(contestant.child, 'message')) as [Figure]
      receiver.send('count')
      const [arrived] = (await once(receiver, 'message')) as [number]
      if (arrived !== RECORDS) throw new Error(`${contestant.name}: ${arrived} of ${RECORDS} records arrived`)
      // The first round warms up.
      if (round === 0) continue
      contestant.rates.push((RECORDS / ms) * 1_000)
      contestant.costs.push(cpuMicros / RECORDS)
    }
  }
  const [sdk] = contestants as [(typeof contestants)[number]]
  for (const { name, child, rates, costs } of contestants) {
    child.disconnect()
    const form = compression === 'none' ? encoding : `${encoding}, ${compression}`
    if (name !== sdk.name) recordRatio(TITLE, `${name}, ${form}`, 1 / Number(ratio(costs, sdk.costs)))
    console.log(
      `| ${name}, ${form} | ${whole(median(rates))} | ${range(rates, whole)} | ${ratio(rates, sdk.rates)} | ${micros(median(costs))} | ${range(costs, micros)} | ${ratio(costs, sdk.costs)} |`,
    )
  }
}

const whole = (value: number): string => Math.round(value).toLocaleString('en')

const micros = (value: number): string => value.toFixed(1)

const range = (values: readonly number[], print: (value: number) => string): string =>
  `${print(Math.min(...values))} to ${print(Math.max(...values))}`

/** Returns the median of the ratios, round by round. */
const ratio = (values: readonly number[], baseline: readonly number[]): string =>
  median(values.map((value, round) => value / (baseline[round] as number))).toFixed(2)
