import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import type { Figure, OtlpClient, OtlpLoad } from './otlp-clients.ts'
import { median, recordRatio } from './report.ts'

/** A load, and how often it is measured. */
interface Comparison {
  readonly title: string
  readonly load: OtlpLoad
  readonly rounds: number
  /** Each round has new processes. */
  readonly isFresh?: true
}

const PACED: Comparison = {
  title: '(e) OTLP, 50,000 records to a collector in another process',
  load: { records: 50_000, perTurn: 500 },
  rounds: 7,
}

const BURST: Comparison = {
  title: '(e) OTLP, 20,000 records in one turn of the event loop',
  load: { records: 20_000, perTurn: 20_000 },
  rounds: 15,
}

const FIRST: Comparison = {
  title: '(e) OTLP, the first 20,000 records of a process',
  load: { records: 20_000, perTurn: 500 },
  rounds: 9,
  isFresh: true,
}

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
  try {
    for (const comparison of [PACED, BURST, FIRST]) {
      console.log(`\n### ${comparison.title}\n`)
      console.log(
        '| contestant | records/s | min to max | × the SDK | CPU µs per record | min to max | × the SDK |',
      )
      console.log('|---|---|---|---|---|---|---|')
      for (const [encoding, compression] of FORMS)
        await compare(receiver, port, comparison, encoding, compression)
    }
  } finally {
    receiver.disconnect()
  }
}

async function compare(
  receiver: ChildProcess,
  port: number,
  { title, load, rounds, isFresh }: Comparison,
  encoding: OtlpClient['encoding'],
  compression: OtlpClient['compression'],
): Promise<void> {
  const contestants = (['OpenTelemetry SDK', 'mcp-gatekit'] as const).map((name) => {
    const options: OtlpClient = { name, encoding, compression, url: `http://127.0.0.1:${port}/v1/logs` }
    return { name, options, child: startClient(options), rates: [] as number[], costs: [] as number[] }
  })
  for (let round = 0; round <= rounds; round++) {
    // The order alternates, because the machine may slow down within a round.
    for (const contestant of round % 2 === 0 ? contestants : [...contestants].reverse()) {
      await setTimeout(200)
      const child = await contestant.child
      child.send(load)
      const [{ ms, cpuMicros }] = (await once(child, 'message')) as [Figure]
      if (isFresh) {
        child.disconnect()
        contestant.child = startClient(contestant.options)
      }
      receiver.send('count')
      const [arrived] = (await once(receiver, 'message')) as [number]
      const { records } = load
      if (arrived !== records) throw new Error(`${contestant.name}: ${arrived} of ${records} records arrived`)
      // The first round warms up.
      if (round === 0) continue
      contestant.rates.push((records / ms) * 1_000)
      contestant.costs.push(cpuMicros / records)
    }
  }
  const [sdk] = contestants as [(typeof contestants)[number]]
  for (const { name, child, rates, costs } of contestants) {
    ;(await child).disconnect()
    const form = compression === 'none' ? encoding : `${encoding}, ${compression}`
    if (name !== sdk.name) recordRatio(title, `${name}, ${form}`, 1 / Number(ratio(costs, sdk.costs)))
    console.log(
      `| ${name}, ${form} | ${whole(median(rates))} | ${range(rates, whole)} | ${ratio(rates, sdk.rates)} | ${micros(median(costs))} | ${range(costs, micros)} | ${ratio(costs, sdk.costs)} |`,
    )
  }
}

async function startClient(options: OtlpClient): Promise<ChildProcess> {
  const child = fork(new URL('otlp-clients.js', import.meta.url), [JSON.stringify(options)])
  await once(child, 'message')
  return child
}

const whole = (value: number): string => Math.round(value).toLocaleString('en')

const micros = (value: number): string => value.toFixed(1)

const range = (values: readonly number[], print: (value: number) => string): string =>
  `${print(Math.min(...values))} to ${print(Math.max(...values))}`

/** Returns the median of the ratios, round by round. */
const ratio = (values: readonly number[], baseline: readonly number[]): string =>
  median(values.map((value, round) => value / (baseline[round] as number))).toFixed(2)
