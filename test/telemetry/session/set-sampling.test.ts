import { expect } from 'chai'
import type { TelemetrySamplingPolicy } from '../../../src/telemetry/index.ts'
import { expectCode, recording } from '../../support/telemetry/recording.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

function managerWith(policy?: TelemetrySamplingPolicy) {
  const { builder, logger, events } = recording()
  const manager = (policy === undefined ? builder : builder.withSampling(policy)).build()
  return { manager, logger, names: () => events().map(({ name }) => name) }
}

describe('setSampling', () => {
  it('setSampling replaces rates and patterns, also for names that were emitted before', () => {
    const { manager, names } = managerWith({ infoRate: 1, never: ['noise.*'] })
    const emitAll = () => {
      for (const name of ['noise.a', 'a', 'b']) manager.emit(name)
    }
    emitAll()
    manager.setSampling({ infoRate: 0, always: ['noise.*', 'b'] })
    emitAll()
    manager.setSampling({ infoRate: 1 })
    emitAll()
    expect(names()).to.deep.equal(['a', 'b', 'noise.a', 'b', 'noise.a', 'a', 'b'])
    expect(manager.stats()).to.deep.include({ emitted: 9, sampledOut: 2 })
  })

  it('setSampling gives members that are not set their defaults', () => {
    const { manager, names } = managerWith({ warnRate: 0, errorRate: 0, never: ['*'] })
    manager.setSampling({ infoRate: 0 })
    for (const level of ['info', 'warn', 'error', 'fatal'] as const) manager.emit(level, { level })
    expect(names()).to.deep.equal(['warn', 'error', 'fatal'])
  })

  const invalid: readonly Wrong[] = [
    { infoRate: 2 },
    { never: 'a' },
    { unknown: 1 },
    { keep: { level: 'error' } },
    { unit: 'session', keep: {} },
    'all',
    null,
  ]
  for (const policy of invalid) {
    it(`setSampling(${JSON.stringify(policy)}) throws the error of withSampling, and changes nothing`, () => {
      const { manager, names } = managerWith({ infoRate: 1, never: ['b'] })
      const errors = [() => manager.setSampling(policy), () => recording().builder.withSampling(policy)].map(
        (call) => expectCode('TELEMETRY_CONFIGURATION_INVALID', call),
      )
      expect(errors[0]?.message).to.equal(errors[1]?.message)
      for (const name of ['a', 'b']) manager.emit(name)
      expect(names()).to.deep.equal(['a'])
    })
  }

  const KEEP = { infoRate: 0, unit: 'session', keep: { level: 'error' } } as const
  const tails: readonly (readonly [
    what: string,
    next: TelemetrySamplingPolicy,
    atOnce: string[],
    atEnd: string[],
  ])[] = [
    ['without keep decides held events by the previous policy', { infoRate: 0 }, ['kept', 'kept'], []],
    [
      'with another keep decides held events at the end of their session',
      { ...KEEP, keep: { names: ['x'] } },
      [],
      ['kept', 'kept'],
    ],
  ]
  for (const [what, next, atOnce, atEnd] of tails) {
    it(`setSampling ${what}`, async () => {
      const { manager, names } = managerWith(KEEP)
      const [kept, quiet] = [manager.session(), manager.session()]
      kept.emit('kept')
      quiet.emit('quiet')
      kept.emit('failed', { level: 'error' })
      manager.setSampling(next)
      const ofTail = () => names().filter((name) => name !== 'failed')
      expect(manager.stats().held).to.equal(atOnce.length > 0 ? 0 : 2)
      kept.emit('kept', { level: 'info' })
      expect(ofTail()).to.deep.equal(atOnce.slice(0, 1))
      await kept.end()
      await quiet.end()
      expect(ofTail().length).to.equal(atOnce.length > 0 ? 1 : atEnd.length)
      expect(manager.stats().held).to.equal(0)
    })
  }

  it('setSampling can add keep for sessions that begin later', async () => {
    const { manager, names } = managerWith({ infoRate: 0 })
    const before = manager.session()
    manager.setSampling(KEEP)
    const after = manager.session()
    for (const session of [before, after]) {
      session.emit('a')
      session.emit('failed', { level: 'error' })
      await session.end()
    }
    expect(names()).to.deep.equal(['failed', 'failed', 'a'])
  })
})
