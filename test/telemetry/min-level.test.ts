import { expect } from 'chai'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  LoggerTransportAdapter,
  type TelemetryLevel,
  type TelemetryTransport,
} from '../../src/telemetry/index.ts'
import { expectCode, recording } from '../support/telemetry/recording.ts'

const LEVELS = ['debug', 'info', 'warn', 'error', 'fatal'] as const

/** Emits an event of each level, and returns the levels that a transport received, and its statistics. */
async function received(make: (levels: string[]) => TelemetryTransport, minLevel?: TelemetryLevel) {
  const levels: string[] = []
  const audited = InMemoryTransportAdapter.create()
  const manager = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })
    .withLogger(false)
    .addTransport(make(levels), { minLevel })
    .withAudit({ transport: audited, names: ['*'], secret: 'k'.repeat(32) })
    .build()
  for (const level of LEVELS) manager.emit('a', { level })
  await manager.shutdown()
  return { levels, stats: manager.stats().transports[0], audited: audited.getEvents().length }
}

const plain = (levels: string[]): TelemetryTransport => ({
  type: 'x',
  handle: ({ level }) => void levels.push(level),
})
const slow = (levels: string[]): TelemetryTransport => ({
  type: 'x',
  init: () => Promise.resolve(),
  handle: async ({ level }) => void levels.push(level),
})
const lines =
  (minLevel: TelemetryLevel) =>
  (levels: string[]): TelemetryTransport => {
    const write = (level: string) => void levels.push(level.split(' ')[0] as string)
    const logger = { debug: write, info: write, warn: write, error: write }
    const transport = LoggerTransportAdapter.create({ logger, minLevel, includeTimestamp: false })
    return transport
  }

describe('minLevel of addTransport', () => {
  for (const [what, make, minLevel, expected] of [
    ['is debug by default', plain, undefined, 5],
    ['leaves out lower levels', plain, 'warn', 3],
    ['applies to a transport that is not ready yet', slow, 'fatal', 1],
    ['applies in addition to a lower one of the adapter', lines('info'), 'error', 2],
    ['keeps a higher one of the adapter', lines('error'), 'info', 2],
  ] as const) {
    it(`minLevel of addTransport ${what}, and does not apply to the audit log`, async () => {
      const { levels, stats, audited } = await received(make, minLevel)
      expect(levels.map((level) => level.toLowerCase())).to.deep.equal(LEVELS.slice(5 - expected))
      expect(stats).to.deep.include({ accepted: 5, delivered: 5, dropped: 0, failed: 0, pending: 0 })
      expect(stats?.skipped).to.equal(expected === 5 ? undefined : 5 - expected)
      expect(audited).to.equal(7)
    })
  }

  it('minLevel of addTransport must be a level, and is part of the configuration', () => {
    const { builder } = recording()
    expect(
      expectCode('TELEMETRY_CONFIGURATION_INVALID', () =>
        builder.addTransport(plain([]), { minLevel: 'notice' as 'info' }),
      ).message,
    ).to.include("addTransport({ minLevel }) must be 'debug', 'info', 'warn', 'error' or 'fatal'")
    const [, transport] = builder.addTransport(plain([]), { minLevel: 'warn' }).buildConfig().transports
    expect(transport?.minLevel).to.equal('warn')
  })
})
