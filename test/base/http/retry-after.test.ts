import { spawnSync } from 'node:child_process'
import { expect } from 'chai'
import fc from 'fast-check'
import { retryAfterMs, retryAfterOption } from '../../../src/base/http/retry-after.ts'

/** 2026-03-05T06:07:08Z, a Thursday. */
const MOMENT = Date.UTC(2026, 2, 5, 6, 7, 8)

const FORMS = {
  'IMF-fixdate': 'Thu, 05 Mar 2026 06:07:08 GMT',
  'RFC 850': 'Thursday, 05-Mar-26 06:07:08 GMT',
  asctime: 'Thu Mar  5 06:07:08 2026',
} as const

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

  it('retryAfterMs reads every form of a date as GMT in another time zone', () => {
    const module = new URL('../../../src/base/http/retry-after.js', import.meta.url).href
    const program = `
      import { retryAfterMs } from ${JSON.stringify(module)}
      const wait = (retryAfter) => retryAfterMs({ retryAfter }, ${MOMENT - 5})
      console.log(JSON.stringify(${JSON.stringify(Object.values(FORMS))}.map(wait)))`
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      env: { ...process.env, TZ: 'America/New_York' },
      encoding: 'utf8',
    })
    expect(JSON.parse(stdout)).to.deep.equal([5, 5, 5])
  })

  it('retryAfterMs reads every second from 1970 to 2049 in all three forms', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2_524_607_999 }), (seconds) => {
        const ms = seconds * 1000
        const imf = new Date(ms).toUTCString()
        const [, weekday, day, month, year, time] = /^(\w+), (\d+) (\w+) (\d+) (\S+)/.exec(imf) ?? []
        const long = new Date(ms).toLocaleDateString('en-US', { weekday: 'long', timeZone: 'UTC' })
        const asctime = `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`
        for (const retryAfter of [imf, asctime, `${long}, ${day}-${month}-${year?.slice(2)} ${time} GMT`])
          expect(retryAfterMs({ retryAfter, date: undefined }, ms - 1_000)).to.equal(1_000)
      }),
    )
  })

  it('retryAfterMs returns 0 for a date in the past', () =>
    expect(wait('Thu, 05 Mar 2026 06:07:00 GMT')).to.equal(0))

  for (const value of [
    ...[undefined, '', '-1', '1e9', '0x10', 'soon', 'Thursday', '5, 5', '2026-03-05T06:07:08Z'],
    ...['Thu, 05 Mar 2026 24:07:08 GMT', 'Thu, 05 Mxr 2026 06:07:08 GMT', 'Thu, 05 Mar 2026 06:07:08 EST'],
    ...['Thu, 05 Mar 2026 06:07:08 GMT, Thu, 05 Mar 2026 06:07:08 GMT', '  '.repeat(1_000)],
  ])
    it(`retryAfterMs ignores ${JSON.stringify(value?.slice(0, 60))}`, () =>
      expect(wait(value)).to.equal(undefined))
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
