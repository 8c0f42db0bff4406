import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { type TestUpstream, UPSTREAMS } from '../support/authorization/upstreams.ts'
import { browserBundle } from '../support/browser-bundle.ts'
import type { BrowserClient } from '../support/browser-client.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { listen } from '../support/mcp/wire.ts'

const missing = chromiumMissing()

describe(`a client in a browser behind the authorization facade${missing === undefined ? '' : ` (skipped: ${missing})`}`, function () {
  this.timeout(60_000)
  let browser: Browser
  let pageOrigin: string
  let closePage: () => Promise<void>
  let facade: TestFacade
  let upstream: TestUpstream
  let context: BrowserContext
  let client: Page

  before(async function () {
    if (missing !== undefined) this.skip()
    const script = await browserBundle(new URL('../support/browser-client.js', import.meta.url))
    const served = await listen((req, res) => {
      const isScript = req.url === '/client.js'
      res.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html')
      const page = '<!doctype html><title>A client</title><script type="module" src="/client.js"></script>'
      res.end(isScript ? script : page)
    })
    pageOrigin = `http://localhost:${served.port}`
    closePage = served.close
    browser = await startChromium()
  })
  after(async () => {
    await browser?.close()
    await closePage?.()
  })
  afterEach(async () => {
    await context.close()
    await facade.close()
    await upstream.close()
  })

  const inPage = (member: keyof BrowserClient, ...args: unknown[]): Promise<string | undefined> =>
    client.evaluate(async ([member, args]) => await (globalThis as any).mcpClient[member](...args), [
      member,
      args,
    ] as const)

  for (const { name, sub, create } of UPSTREAMS)
    it(`a page registers, its user signs in at ${name} and consents, and it calls a tool`, async () => {
      upstream = create()
      facade = await startFacade({}, upstream.settings)
      context = await browser.newContext()
      context.setDefaultTimeout(10_000)
      client = await context.newPage()
      await client.goto(pageOrigin)
      await client.waitForFunction(() => 'mcpClient' in globalThis)
      const url = await inPage('connect', facade.resource)
      const popup = await context.newPage()
      await popup.goto(String(url))
      expect(await popup.getByRole('heading', { level: 1 }).textContent()).to.contain('A page')
      await popup.getByRole('button', { name: 'Allow' }).click()
      await popup.waitForURL(`${pageOrigin}/callback?*`)
      expect(await inPage('finish', popup.url())).to.equal(undefined)
      expect(JSON.parse(String(await inPage('call', 'who', {})))).to.include({ id: sub })
    })
})
