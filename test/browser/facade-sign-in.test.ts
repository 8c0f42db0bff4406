import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { SignedIn, V2_MODERN } from '../full/sign-in-clients.ts'
import { Browser as PlainBrowser } from '../support/authorization/browser.ts'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { type TestUpstream, UPSTREAMS } from '../support/authorization/upstreams.ts'
import { browserBundle } from '../support/browser-bundle.ts'
import type { BrowserClient } from '../support/browser-client.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { startDevProgram, stopDevPrograms } from '../support/cli/dev.ts'
import { waitForSteps } from '../support/cli/story.ts'
import { listen } from '../support/mcp/wire.ts'
import { skipIf } from '../support/skip.ts'

describe('a client in a browser behind the authorization facade', function () {
  this.timeout(120_000)
  let browser: Browser
  let pageOrigin: string
  let closePage: () => Promise<void>
  let facade: TestFacade
  let upstream: TestUpstream
  let context: BrowserContext
  let client: Page

  before(async function () {
    skipIf(this, chromiumMissing())
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

describe('the console of dev for a server behind the authorization facade', function () {
  this.timeout(120_000)
  let browser: Browser
  before(async function () {
    skipIf(this, chromiumMissing())
    browser = await startChromium()
  })
  after(() => browser?.close())
  afterEach(stopDevPrograms)

  const program = fileURLToPath(new URL('../cli/dev/facade-server.js', import.meta.url))
  for (const { allow, words, next } of [
    {
      allow: 'yes',
      words: ['401', 'metadata', 'registered', 'allowed', 'token', 'call'],
      next: undefined,
    },
    {
      allow: 'no',
      words: ['401', 'metadata', 'registered', 'not signed in'],
      next: 'Let allow return true for this user',
    },
  ])
    it(`a sign-in at a facade whose allow says ${allow} is one story in words`, async () => {
      const dev = startDevProgram(['--port', '0', '--no-auth', program], { env: { TEST_ALLOW: allow } })
      const [, url] = await dev.said('stderr', /console +(http:\S+)/)
      const [line] = await dev.said('stdout', /^\{.*\}$/m)
      const { origin } = JSON.parse(line) as { origin: string }
      const desk = await browser.newPage()
      await desk.goto(String(url))
      const user = async (start: URL, callback: string): Promise<URL> => {
        const isDone = (target: string): boolean => target.startsWith(callback)
        const person = new PlainBrowser()
        const page = await person.open(start.href, isDone)
        return new URL((isDone(page.url) ? page : await person.submit(page, 'allow', isDone)).url)
      }
      const signedIn = new SignedIn(V2_MODERN, `${origin}/mcp`, { user })
      const connected = signedIn.connect()
      if (allow === 'yes') await connected
      else await connected.catch(() => undefined)
      const story = desk.locator('#stories > details').filter({ hasText: 'registered' })
      await waitForSteps(desk, 'registered', words)
      expect(
        await desk
          .locator('#stories > details')
          .filter({ hasText: /\/signin\// })
          .count(),
      ).to.equal(0)
      if (next !== undefined) expect(await story.locator('.next').innerText()).to.contain(next)
      await signedIn.close()
      await desk.close()
    })
})
