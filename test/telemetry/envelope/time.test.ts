import { expect } from 'chai'
import { isoTime, readTime } from '../../../src/telemetry/envelope/time.ts'

describe('readTime()', () => {
  for (const [text, time] of [
    ['2026-11-22T10:00:00Z', '2026-11-22T10:00:00.000Z'],
    ['2026-11-22t10:00:00.1239z', '2026-11-22T10:00:00.123Z'],
    ['2026-11-22T23:59:59.5Z', '2026-11-22T23:59:59.500Z'],
    ['2026-11-22T23:59:60Z', '2026-11-23T00:00:00.000Z'],
    ['2026-11-22T10:00:00+01:30', '2026-11-22T08:30:00.000Z'],
    ['2026-11-22T10:00:00-01:30', '2026-11-22T11:30:00.000Z'],
    ['2026-11-22T23:59:00+23:59', '2026-11-22T00:00:00.000Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
    ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
    ['2026-02-29T00:00:00Z', undefined],
    ['2026-13-01T00:00:00Z', undefined],
    ['2026-11-22T24:00:00Z', undefined],
    ['2026-11-22T10:60:00Z', undefined],
    ['2026-11-22T10:00:61Z', undefined],
    ['2026-11-22T10:00:00+24:00', undefined],
    ['2026-11-22T10:00:00+00:60', undefined],
    ['0000-01-01T00:00:00+00:01', undefined],
    ['9999-12-31T23:59:59-00:01', undefined],
    ['2026-11-22T10:00:00', undefined],
    ['2026-11-22', undefined],
    [5, undefined],
  ] as const) {
    it(`readTime() reads ${JSON.stringify(text)} as ${time}`, () => {
      expect(readTime(text)).to.equal(time)
    })
  }
})

describe('isoTime()', () => {
  it('isoTime() returns the ISO 8601 time, also for consecutive times', () => {
    for (const ms of [0, 1, 1, 999, 1_000, 1_795_341_601_007, 1_795_341_601_008, 1_795_341_600_999])
      expect(isoTime(ms)).to.equal(new Date(ms).toISOString())
  })
})
