import { expect } from 'chai'
import { flood } from '../../support/attacks/flood.ts'
import { startResourceProgram } from '../../support/attacks/resource-program.ts'
import { startOtlpReceiver } from '../../support/otlp-receiver.ts'
import { until } from '../../support/until.ts'

const PROGRAM = new URL('otlp-flush.program.js', import.meta.url)
const REQUESTS = 5_000
const MIB = 1024 * 1024

describe('OTLP in a small heap', function () {
  this.timeout(60_000)

  it('OTLP: memory: 5,000 requests that emit and flush while the collector responds with 503: the process survives, few requests are sent, and all events arrive afterwards', async () => {
    let sick = true
    const collector = await startOtlpReceiver({ answer: () => (sick ? { status: 503 } : undefined) })
    try {
      const program = await startResourceProgram(PROGRAM, { args: [collector.url] })
      const started = performance.now()
      const statuses = await flood(
        program.port,
        REQUESTS,
        (index) => `GET /${index} HTTP/1.1\r\nHost: a\r\n\r\n`,
      )
      expect(statuses).to.deep.equal({ 200: REQUESTS })
      // At first, one batch per concurrent export. Then, at most one attempt in half a second.
      expect(collector.requests.length).to.be.at.most(8 + (performance.now() - started) / 250)
      sick = false
      const { heapUsed } = await program.expectSurvival(async () => {
        await until(() => collector.records.length === REQUESTS, 10)
        const stats = await (await fetch(`${program.origin}/stats`)).json()
        expect(stats).to.deep.equal({
          accepted: REQUESTS,
          delivered: REQUESTS,
          failed: 0,
          dropped: 0,
          pending: 0,
        })
      })
      expect(heapUsed).to.be.below(64 * MIB)
    } finally {
      await collector.close()
    }
  })
})
