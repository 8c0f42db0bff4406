import { spawnSync } from 'node:child_process'
import { expect } from 'chai'
import fc from 'fast-check'
import { readHttpDate, retryAfterMs, retryAfterOption } from '../../../src/base/http/retry-after.ts'

/** 2026-03-05T06:07:08Z, a Thursday. */
const MOMENT = Date.UTC(2026, 2, 5, 6, 7, 8)

const FORMS = {
  'IMF-fixdate': 'Thu, 05 Mar 2026 06:07:08 GMT',
  'RFC 850': 'Thursday, 05-Mar-26 06:07:08 GMT',
  asctime: 'Thu Mar  5 06:07:08 2026',
} as const

describe('readHttpDate', () => {
  for (const zone of ['America/New_York', 'Asia/Tokyo']) {
    it(`readHttpDate reads every form as GMT in a process whose time zone is ${zone}`, () => {
      const program = `
        import { readHttpDate } from ${JSON.stringify(new URL('../../../src/base/http/retry-after.js', import.meta.url).href)}
        console.log(JSON.stringify(${JSON.stringify(Object.values(FORMS))}.map((text) => readHttpDate(text))))`
      const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
        env: { ...process.env, TZ: zone },
        encoding: 'utf8',
      })
      expect(JSON.parse(stdout)).to.deep.equal([MOMENT, MOMENT, MOMENT])
    })
  }

  it('readHttpDate reads a leap second as the first second of the next minute', () =>
    expect(readHttpDate('Sat, 31 Dec 2016 23:59:60 GMT')).to.equal(Date.UTC(2017, 0, 1)))

  for (const [year, now, full] of [
    ['94', '2026-01-01', 1994],
    ['76', '2026-01-01', 2076],
    ['77', '2026-01-01', 1977],
    ['26', '2026-01-01', 2026],
    ['05', '2098-01-01', 2105],
    ['48', '2098-01-01', 2148],
    ['49', '2098-01-01', 2049],
  ] as const) {
    it(`readHttpDate reads the two-digit year ${year} as ${full} in ${now}`, () =>
      expect(readHttpDate(`Monday, 05-Mar-${year} 06:07:08 GMT`, Date.parse(now))).to.equal(
        Date.UTC(full, 2, 5, 6, 7, 8),
      ))
  }

  for (const text of [
    '',
    'soon',
    'Thu',
    '2026-03-05T06:07:08Z',
    'Thu, 31 Feb 2026 06:07:08 GMT',
    'Thu, 00 Mar 2026 06:07:08 GMT',
    'Thu, 05 Mar 2026 24:07:08 GMT',
    'Thu, 05 Mar 2026 06:60:08 GMT',
    'Thu, 05 Mar 2026 06:07:61 GMT',
    'Thu, 05 Mar 2026 06:07:08 GMT'.padEnd(65),
    'Thu, 05 Mxr 2026 06:07:08 GMT',
    'Thu, 05 Mar 2026 06:07:08 EST',
    'Thu, 05 Mar 2026 06:07:08 GMT, Thu, 05 Mar 2026 06:07:08 GMT',
    'Thu Mar  5 06:07:08 2026 EST',
    '  '.repeat(1000),
  ]) {
    it(`readHttpDate does not read ${JSON.stringify(text.slice(0, 60))} as a date`, () =>
      expect(readHttpDate(text)).to.equal(undefined))
  }

  for (const [text, iso] of [
    ['Thu, 01 Jan 2026 23:59:59 GMT', '2026-01-01T23:59:59Z'],
    ['Thu, 31 Dec 2026 00:00:00 UTC', '2026-12-31T00:00:00Z'],
    ['Thu, 05 Mar 2026 06:07:08 GMT'.padEnd(64), '2026-03-05T06:07:08Z'],
  ] as const)
    it(`readHttpDate reads ${text.trim()} of length ${text.length}`, () =>
      expect(readHttpDate(text)).to.equal(Date.parse(iso)))

  it('readHttpDate reads every second from 1970 to 2099 in all three forms', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_102_444_799 }), (seconds) => {
        const ms = seconds * 1000
        const imf = new Date(ms).toUTCString()
        const [, weekday, day, month, year, time] = /^(\w+), (\d+) (\w+) (\d+) (\S+)/.exec(imf) ?? []
        const long = new Date(ms).toLocaleDateString('en-US', { weekday: 'long', timeZone: 'UTC' })
        const asctime = `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`
        expect(readHttpDate(imf)).to.equal(ms)
        expect(readHttpDate(asctime)).to.equal(ms)
        expect(readHttpDate(`${long}, ${day}-${month}-${year?.slice(2)} ${time} GMT`, ms)).to.equal(ms)
      }),
    )
  })
})

describe('retryAfterMs', () => {
  const wait = (retryAfter: string | undefined, date?: string) => retryAfterMs({ retryAfter, date }, MOMENT)

  it('retryAfterMs reads a number of seconds, whatever the Date of the response is', () => {
    expect(wait('120', 'Thu, 05 Mar 2020 06:07:08 GMT')).to.equal(120_000)
    expect(wait(' 0 ')).to.equal(0)
    expect(wait('0.5')).to.equal(500)
  })

  it('retryAfterMs reads a wait of more than 2^31 - 1 ms', () =>
    expect(wait('3000000')).to.equal(3_000_000_000))

  it('retryAfterMs bounds a number of any length', () =>
    expect(wait('9'.repeat(5000))).to.equal(Number.MAX_SAFE_INTEGER))

  for (const [form, text] of Object.entries(FORMS)) {
    it(`retryAfterMs measures a date of the form ${form} against the Date of the response, not against the local clock`, () => {
      for (const date of [
        'Thu, 05 Mar 2026 06:06:08 GMT',
        'Thursday, 05-Mar-26 06:06:08 GMT',
        'Thu Mar  5 06:06:08 2026',
      ])
        expect(retryAfterMs({ retryAfter: text, date }, MOMENT + 9 * 3_600_000)).to.equal(60_000)
    })
  }

  it('retryAfterMs measures a date against the local clock if the response has no valid Date', () => {
    expect(wait('Thu, 05 Mar 2026 06:07:18 GMT')).to.equal(10_000)
    expect(wait('Thu, 05 Mar 2026 06:07:18 GMT', 'yesterday')).to.equal(10_000)
  })

  it('retryAfterMs returns 0 for a date in the past', () =>
    expect(wait('Thu, 05 Mar 2026 06:07:00 GMT')).to.equal(0))

  for (const value of [undefined, '', '-1', '1e9', '0x10', 'soon', 'Thursday', '5, 5']) {
    it(`retryAfterMs ignores ${JSON.stringify(value)}`, () => expect(wait(value)).to.equal(undefined))
  }
})

describe('retryAfterOption', () => {
  for (const [value, option] of [
    ['1', { retryAfterSeconds: 1 }],
    ['0.5', { retryAfterSeconds: 0.5 }],
    ['3600', { retryAfterSeconds: 3_600 }],
    ['3601', {}],
    ['0', {}],
    ['soon', {}],
    [undefined, {}],
  ] as const)
    it(`retryAfterOption passes ${value} on as ${JSON.stringify(option)}`, () => {
      expect(
        retryAfterOption(new Headers(value === undefined ? {} : { 'retry-after': value })),
      ).to.deep.equal(option)
    })
})
