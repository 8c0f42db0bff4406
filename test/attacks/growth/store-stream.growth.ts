import { expect } from 'chai'
import { StoreStreamTransportAdapter, type TelemetryEnvelope } from '../../../src/telemetry/index.ts'

const EVENT: TelemetryEnvelope = {
  name: 'billing.invoice.failed',
  time: '2026-11-20T12:00:00.123Z',
  level: 'error',
  service: 'billing',
  environment: 'test',
  sessionId: 'ses_0',
}

/** Returns the CPU time in milliseconds for writing a queue of `count` events. */
async function cpuMsOf(count: number): Promise<number> {
  const transport = StoreStreamTransportAdapter.create({ store: { xadd: async () => '1-1' } })
  const before = process.cpuUsage()
  for (let index = 0; index < count; index++) void transport.handle(EVENT)
  await transport.flush()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

describe('the queue of a store without transactions', () => {
  it('the queue of a store without transactions is written in linear time', async () => {
    await cpuMsOf(5_000)
    let measured = ''
    // A garbage collection can disturb one measurement, but not several.
    for (let round = 0; round < 3; round++) {
      const shortMs = Math.min(await cpuMsOf(5_000), await cpuMsOf(5_000))
      const longMs = Math.min(await cpuMsOf(20_000), await cpuMsOf(20_000))
      if (longMs <= 9 * shortMs) return
      measured += ` ${shortMs} ms for 5 000, ${longMs} ms for 20 000;`
    }
    expect.fail(`more than linear growth:${measured}`)
  })
})
