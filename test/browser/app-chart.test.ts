import { expect } from 'chai'
import express from 'express'
import type { Browser } from 'playwright-core'
import { createChartServer } from '../../examples/app-chart.ts'
import type { AppHost } from '../support/app-host.ts'
import { browserBundle } from '../support/browser-bundle.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { type Listening, listen } from '../support/mcp/wire.ts'
import { skipIf } from '../support/skip.ts'

describe('the example of an app in a browser', function () {
  this.timeout(120_000)

  let browser: Browser
  let served: Listening

  before(async function () {
    skipIf(this, chromiumMissing())
    const script = await browserBundle(new URL('../support/app-host.js', import.meta.url))
    const app = express()
    app.get('/', (_req, res) => {
      res.type('html').send('<!doctype html><body><script type="module" src="/host.js"></script></body>')
    })
    app.get('/favicon.ico', (_req, res) => {
      res.status(204).end()
    })
    app.get('/host.js', (_req, res) => {
      res.type('js').send(script)
    })
    app.use(
      createChartServer({
        issuer: 'https://auth.example.com',
        verifyToken: ({ bearerToken }) =>
          bearerToken === 'good' ? { valid: true, user: { id: 'ann' }, scopes: ['sales:read'] } : undefined,
      }),
    )
    served = await listen(app)
    browser = await startChromium()
  })
  after(async () => {
    await browser?.close()
    await served?.close()
  })

  it('the reference host draws the result of a tool as a chart, in a sandbox without network', async () => {
    const page = await browser.newPage()
    const problems: string[] = []
    page.on('pageerror', (error) => problems.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text())
    })
    await page.goto(served.origin)
    await page.evaluate(() => (globalThis as unknown as { host: AppHost }).host.show('good', 'sales'))
    const chart = page.frameLocator('#app').locator('#chart')
    await chart.locator('rect').nth(3).waitFor()
    expect(await chart.locator('text').allTextContents()).to.deep.equal([
      '12',
      'Jan',
      '19',
      'Feb',
      '7',
      'Mar',
      '23',
      'Apr',
    ])
    const heights = await chart
      .locator('rect')
      .evaluateAll((bars) =>
        (bars as unknown as { getAttribute(name: string): string }[]).map((bar) =>
          Number(bar.getAttribute('height')),
        ),
      )
    expect(heights.map(Math.round)).to.deep.equal([78, 124, 46, 150])
    expect(problems).to.deep.equal([])
    await page.close()
  })
})
