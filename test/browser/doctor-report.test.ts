import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'chai'
import type { Browser } from 'playwright-core'
import { htmlReport } from '../../cli/doctor/report.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { EVIL_REPORT } from '../support/cli/evil-report.ts'
import { skipIf } from '../support/skip.ts'

describe('the HTML report of doctor, in a browser,', function () {
  this.timeout(120_000)
  let browser: Browser
  let folder: string

  before(async function () {
    skipIf(this, chromiumMissing())
    browser = await startChromium()
    folder = await mkdtemp(join(tmpdir(), 'doctor-'))
  })
  after(async () => {
    await browser?.close()
    if (folder !== undefined) await rm(folder, { recursive: true })
  })

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`is styled, fits 360 pixels, and runs nothing, in ${colorScheme} colors`, async () => {
      const file = join(folder, 'report.html')
      await writeFile(file, htmlReport(EVIL_REPORT))
      const page = await browser.newPage({ viewport: { width: 360, height: 740 }, colorScheme })
      const seen: string[] = []
      page.on('console', (message) => seen.push(message.text()))
      page.on('dialog', (dialog) => {
        seen.push(dialog.message())
        void dialog.dismiss()
      })
      page.on('request', (request) => {
        if (!request.url().startsWith('file:')) seen.push(request.url())
      })
      await page.goto(pathToFileURL(file).href)
      const widths = await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')
      expect(widths).to.deep.equal([360, 360])
      const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor')
      expect(ground).to.equal(colorScheme === 'light' ? 'rgb(243, 244, 247)' : 'rgb(13, 16, 21)')
      expect(await page.locator('li h3').allInnerTexts()).to.have.length(4)
      expect(await page.locator('li.ok h3').isVisible()).to.equal(false)
      expect(await page.locator('li.fail h3').isVisible()).to.equal(true)
      await page.locator('summary').click()
      expect(await page.locator('li.ok h3').isVisible()).to.equal(true)
      expect(seen).to.deep.equal([])
      await page.close()
    })
  }
})
