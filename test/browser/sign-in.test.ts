import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { browserBundle } from '../support/browser-bundle.ts'
import type { BrowserClient } from '../support/browser-client.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { type DevSample, startSample, stopDevPrograms } from '../support/cli/dev.ts'
import { waitForSteps } from '../support/cli/story.ts'
import { listen } from '../support/mcp/wire.ts'
import { skipIf } from '../support/skip.ts'

/** The folder for screenshots. By default, none are taken. */
const PICTURES = process.env.CONSOLE_PICTURES

describe('a client in a browser, in dev', function () {
  this.timeout(120_000)
  let browser: Browser
  let context: BrowserContext
  let sample: DevSample
  let pageOrigin: string
  let closePage: () => Promise<void>
  /** The page with the client. */
  let client: Page
  /** The console of dev. */
  let desk: Page

  before(async function () {
    skipIf(this, chromiumMissing())
    const script = await browserBundle(new URL('../support/browser-client.js', import.meta.url))
    const served = await listen((req, res) => {
      const isScript = req.url === '/client.js'
      res.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html')
      res.end(
        isScript
          ? script
          : '<!doctype html><title>A client</title><script type="module" src="/client.js"></script>',
      )
    })
    pageOrigin = `http://localhost:${served.port}`
    closePage = served.close
    browser = await startChromium()
  })
  after(async () => {
    await browser?.close()
    await closePage?.()
  })

  beforeEach(async () => {
    sample = await startSample()
    context = await browser.newContext({ viewport: { width: 1180, height: 760 } })
    desk = await context.newPage()
    await desk.goto(sample.url)
    client = await context.newPage()
    await client.goto(pageOrigin)
    await client.waitForFunction(() => 'mcpClient' in globalThis)
  })
  afterEach(async () => {
    await context.close()
    await stopDevPrograms()
  })

  const inPage = (member: keyof BrowserClient, ...args: unknown[]): Promise<string | undefined> =>
    client.evaluate(async ([member, args]) => await (globalThis as any).mcpClient[member](...args), [
      member,
      args,
    ] as const)

  /** Opens the sign-in page, and presses a button. Resolves with the URL of the redirect. */
  async function signIn(url: string | undefined, { user = 'Ada', button = 'Allow' } = {}) {
    const popup = await context.newPage()
    await popup.goto(String(url))
    await popup.locator('input[name=user]').fill(user)
    await popup.getByRole('button', { name: button }).click()
    await popup.waitForURL(/\/callback\?/)
    const redirect = popup.url()
    await popup.close()
    return redirect
  }

  const storyIs = (text: string | RegExp) =>
    desk.locator('#stories > details').first().locator('.head', { hasText: text }).waitFor()
  const next = () => desk.locator('#stories > details').first().locator('.next').innerText()

  async function picture(name: string): Promise<void> {
    if (PICTURES === undefined) return
    await mkdir(PICTURES, { recursive: true })
    await desk.screenshot({ path: join(PICTURES, `${name}.png`) })
  }

  it('registers, signs in, calls a tool, and gets more scopes, in one story of the console', async () => {
    const url = await inPage('connect', `${sample.origin}/mcp`)
    expect(url).to.match(new RegExp(`^${sample.issuer}/auth\\?`))
    await storyIs(/A page.*registered/s)
    expect(await next()).to.contain('authorization_endpoint')
    expect(await inPage('finish', await signIn(url))).to.equal(undefined)
    expect(await inPage('call', 'greet', { name: 'Ada' })).to.equal('Hello, Ada!')
    await storyIs(/A page.*Ada.*signed in/s)
    const again = await inPage('call', 'erase', {})
    expect(new URL(String(again)).searchParams.get('scope')?.split(' ')).to.include('mcp:write')
    await storyIs('needs more scopes')
    if (PICTURES !== undefined) await desk.locator('#stories .next').first().scrollIntoViewIfNeeded()
    for (const colorScheme of ['dark', 'light'] as const) {
      await desk.emulateMedia({ colorScheme })
      await picture(`story-stopped-${colorScheme}`)
    }
    expect(await next()).to.contain('scope=mcp:read mcp:write')
    expect(await desk.locator('#stories .fact').allInnerTexts()).to.include(
      'scopes: expected mcp:read mcp:write, received mcp:read',
    )
    expect(await inPage('finish', await signIn(again))).to.equal(undefined)
    expect(await inPage('call', 'erase', {})).to.equal('gone')
    await storyIs('signed in')
    await desk.locator('#stories .title', { hasText: 'tools/call erase → 200' }).waitFor()
    expect(await desk.locator('#stories > details').count()).to.equal(1)
    const begin = [
      'preflight',
      '401',
      'metadata',
      'metadata',
      'registered',
      'sign-in page',
      'allowed',
      'token',
    ]
    const order = [...begin, 'call', '403', 'sign-in page', 'allowed', 'token', 'call']
    // Other steps, such as further preflights, may be between these. Steps of the two servers arrive in any order.
    await waitForSteps(desk, 'A page', order)
    await picture('story-light')
    await desk.emulateMedia({ colorScheme: 'dark' })
    await picture('story-dark')
    await desk.setViewportSize({ width: 640, height: 844 })
    const wide = await desk.evaluate(() => (globalThis as any).document.documentElement.scrollWidth)
    expect(wide).to.be.at.most(640)
  })

  it('sees why the sign-in stopped if the user denies access', async () => {
    const url = await inPage('connect', `${sample.origin}/mcp`)
    await signIn(url, { button: 'Deny' })
    await storyIs('access denied')
    expect(await next()).to.contain('denied')
  })
})
