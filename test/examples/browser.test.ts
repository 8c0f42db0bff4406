import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import type { Browser } from 'playwright-core'
import { serveNotes } from '../../examples/browser/server.ts'
import { browserBundle } from '../support/browser-bundle.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { listen } from '../support/listen.ts'
import { skipIf } from '../support/skip.ts'

const FOLDER = new URL('../../../examples/browser/', import.meta.url)

describe('examples/browser', () => {
  let browser: Browser
  before(async function () {
    skipIf(this, chromiumMissing())
    browser = await startChromium()
  })
  after(async () => browser?.close())

  it('the page signs in, lists the tools, calls one, and signs in again for a tool that needs another scope', async () => {
    const script = await browserBundle(new URL('page.js', FOLDER))
    let html = ''
    const { origin } = await listen((req, res) => {
      const isScript = req.url === '/page.js'
      res.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
      res.end(isScript ? script : html)
    })
    const notes = await serveNotes(origin, 0)
    html = readFileSync(new URL('index.html', FOLDER), 'utf8').replace('http://127.0.0.1:3000/mcp', notes.url)
    try {
      const page = await browser.newPage()
      const allowed = new Set<string | undefined>()
      const signIns: string[] = []
      const errors: string[] = []
      page.on('pageerror', (error) => errors.push(error.message))
      page.on('response', (response) => {
        if (response.url() === notes.url && response.request().method() !== 'OPTIONS')
          allowed.add(response.headers()['access-control-allow-origin'])
        if (new URL(response.url()).pathname === '/auth')
          signIns.push(new URL(response.url()).searchParams.get('scope') ?? '')
      })
      const shows = (text: string) => page.getByRole('status').getByText(text).waitFor({ timeout: 20_000 })
      await page.goto(origin)
      await page.getByRole('button', { name: 'Connect' }).click()
      await shows('Connected')
      expect(page.url()).to.equal(`${origin}/`)
      await page.getByRole('button', { name: 'list_notes' }).click()
      await shows('Buy milk')
      await page.getByRole('button', { name: 'clear_notes' }).click()
      await shows('All notes are gone')
      expect([...allowed]).to.deep.equal([origin])
      expect(signIns).to.have.length(2)
      expect(signIns[0]).not.to.include('notes:write')
      expect(signIns[1]).to.include('notes:write')
      expect(errors).to.deep.equal([])
    } finally {
      await notes.close()
    }
  })
})
