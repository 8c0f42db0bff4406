import { expect } from 'chai'
import fc from 'fast-check'
import type { TelemetryLevel, TelemetrySamplingPolicy } from '../../../src/telemetry/index.ts'
import { compileGlob, sessionDraw } from '../../../src/telemetry/session/sampling.ts'
import { recording } from '../../support/telemetry/recording.ts'

function kept(policy: TelemetrySamplingPolicy, name: string, level: TelemetryLevel, times = 1): number {
  const { builder, events } = recording()
  const manager = builder.withSampling({ debugRate: undefined, infoRate: undefined, ...policy }).build()
  for (let i = 0; i < times; i++) manager.emit(name, { level })
  expect(manager.stats()).to.deep.include({ emitted: times, sampledOut: times - events().length })
  return events().length
}

describe('sampling', () => {
  const random = Math.random
  afterEach(() => {
    Math.random = random
  })

  for (const [level, rate] of [
    ['debug', 0.01],
    ['info', 0.1],
  ] as const) {
    it(`events of the level ${level} are kept at the rate ${rate} by default`, () => {
      Math.random = () => rate - 1e-9
      expect(kept({}, 'a', level)).to.equal(1)
      Math.random = () => rate
      expect(kept({}, 'a', level)).to.equal(0)
    })
  }

  it('events of the levels warn, error, and fatal are all kept by default', () => {
    Math.random = () => 1 - 1e-16
    for (const level of ['warn', 'error', 'fatal'] as const) expect(kept({}, 'a', level)).to.equal(1)
  })

  it('a rate of 0 drops every event, and a rate of 1 keeps every event, for any random number', () => {
    Math.random = () => 0
    for (const level of ['debug', 'info', 'warn', 'error'] as const)
      expect(kept({ [`${level}Rate`]: 0 }, 'a', level)).to.equal(0)
    Math.random = () => 1 - 2 ** -53
    for (const level of ['debug', 'info', 'warn', 'error'] as const)
      expect(kept({ [`${level}Rate`]: 1 }, 'a', level)).to.equal(1)
  })

  it('a rate is applied to each event outside sessions', () => {
    expect(kept({ infoRate: 0.5 }, 'a', 'info', 4000)).to.be.within(1700, 2300)
  })

  it('never has precedence over always, and always over the rate', () => {
    expect(kept({ infoRate: 0, always: ['a.*'] }, 'a.b', 'info')).to.equal(1)
    expect(kept({ infoRate: 1, always: ['a.*'], never: ['*.b'] }, 'a.b', 'info')).to.equal(0)
    expect(kept({ never: ['a'] }, 'a', 'fatal')).to.equal(0)
    expect(kept({ never: ['A'] }, 'a', 'fatal')).to.equal(1)
  })

  describe('by session', () => {
    const policy = { unit: 'session', debugRate: 0.2, infoRate: 0.5, warnRate: 0.8 } as const

    it('events of one session and level are kept or dropped together, and a higher rate keeps the sessions of a lower one', () => {
      const { builder, events } = recording()
      const manager = builder.withSampling(policy).build()
      for (let i = 0; i < 300; i++) {
        const session = manager.session()
        for (let j = 0; j < 3; j++)
          for (const level of ['debug', 'info', 'warn', 'error'] as const) session.emit('x', { level })
      }
      const bySession = new Map<string, string[]>()
      for (const { sessionId, level } of events())
        bySession.set(sessionId, [...(bySession.get(sessionId) ?? []), level])
      const whole = new Set([
        'error,error,error',
        'warn,error,warn,error,warn,error',
        'info,warn,error,info,warn,error,info,warn,error',
        'debug,info,warn,error,debug,info,warn,error,debug,info,warn,error',
      ])
      for (const levels of bySession.values()) expect(whole).to.include(levels.join())
      expect(bySession.size).to.equal(300)
      expect(new Set(Array.from(bySession.values(), String)).size).to.equal(4)
    })

    it('sampling depends only on the session id, also if it comes with the event or is set later', () => {
      const low = Array.from({ length: 100 }, (_, i) => `s${i}`).find((id) => sessionDraw(id) < 0.5) as string
      const high = Array.from({ length: 100 }, (_, i) => `s${i}`).find(
        (id) => sessionDraw(id) >= 0.5,
      ) as string
      const { builder, events } = recording()
      const manager = builder.withSampling(policy).build()
      manager.emit('x', { sessionId: low })
      manager.emit('x', { sessionId: high })
      manager.session().id(low).emit('x')
      manager.session().id(high).emit('x')
      manager.session().id(high).emit('x', { sessionId: low })
      expect(events().map(({ sessionId }) => sessionId)).to.deep.equal([low, low, low])
      expect(manager.stats()).to.include({ emitted: 5, sampledOut: 2 })
    })

    it('sampling by session id is uniform, and the same in every process', () => {
      expect(sessionDraw('ses_01M7WJBFA800021RGH7M8NPMV5')).to.be.closeTo(0.58883, 1e-6)
      expect(sessionDraw('a')).to.be.closeTo(0.103526, 1e-6)
      const { builder, events } = recording()
      const manager = builder.withSampling(policy).build()
      for (let i = 0; i < 4000; i++) manager.emit('x')
      expect(events().length).to.be.within(1700, 2300)
      for (const { sessionId } of events()) expect(sessionDraw(sessionId)).to.be.lessThan(0.5)
    })
  })

  describe('patterns', () => {
    const table: [string, string, boolean][] = [
      ['*.failed', 'a.b.failed', true],
      ['*.failed', 'failed', false],
      ['job.*.done', 'job.x.y.done', true],
      ['job.*.done', 'job.done', false],
      ['user.*', 'user', false],
      ['user.*', 'user.', true],
      ['*', '', true],
      ['', '', true],
      ['', 'a', false],
      ['a?c', 'abc', true],
      ['a?c', 'a🎉c', true],
      ['a?c', 'ac', false],
      ['a.c', 'abc', false],
      ['A', 'a', false],
      ['a[bc]+$^(x|y)\\', 'a[bc]+$^(x|y)\\', true],
      ['**a**', 'xax', true],
    ]
    for (const [pattern, name, expected] of table) {
      it(`the pattern ${pattern} ${expected ? 'matches' : 'does not match'} ${name}`, () =>
        expect(compileGlob(pattern)(name)).to.equal(expected))
    }

    it('a pattern matches the same names as its recursive definition', () => {
      const naive = (pattern: string[], name: string[]): boolean =>
        pattern.length === 0
          ? name.length === 0
          : pattern[0] === '*'
            ? naive(pattern.slice(1), name) || (name.length > 0 && naive(pattern, name.slice(1)))
            : name.length > 0 &&
              (pattern[0] === '?' || pattern[0] === name[0]) &&
              naive(pattern.slice(1), name.slice(1))
      const text = (letters: string[]) =>
        fc.array(fc.constantFrom(...letters), { maxLength: 9 }).map((list) => list.join(''))
      fc.assert(
        fc.property(text(['a', 'b', '.', '*', '?', '🎉']), text(['a', 'b', '.', '🎉']), (pattern, name) => {
          expect(compileGlob(pattern)(name)).to.equal(naive(Array.from(pattern), Array.from(name)))
        }),
        { numRuns: 3000 },
      )
    })

    it('the time to match a pattern depends only on the lengths of pattern and name', () => {
      const started = performance.now()
      expect(compileGlob(`${'*a'.repeat(5000)}b`)('a'.repeat(256))).to.equal(false)
      expect(compileGlob('*a*a*a*a*a*a*a*a*a*a*b')('a'.repeat(256))).to.equal(false)
      expect(performance.now() - started).to.be.lessThan(1_500)
    })
  })
})
