import { expect } from 'chai'
import { textReport } from '../../cli/doctor/report.ts'

describe('textReport', () => {
  for (const [count, summary, requests] of [
    [1, '1 passed, 1 warning, 1 failure, 1 skipped', '1 request in 0.5 s'],
    [2, '2 passed, 2 warnings, 2 failures, 2 skipped', '2 requests in 0.5 s'],
  ] as const) {
    it(`a report with a count of ${count} ends with "${requests}"`, () => {
      const counts = { ok: count, warn: count, fail: count, skip: count }
      const text = textReport(
        {
          url: 'https://a.example',
          checks: [],
          summary: counts,
          requests: count,
          durationMs: 500,
          verdict: 'ok',
        } as never,
        false,
      )
      expect(text).to.contain(`\n${summary}\n${requests}\n`)
    })
  }
})
