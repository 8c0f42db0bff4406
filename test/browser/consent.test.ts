import { expect } from 'chai'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { listen } from '../support/listen.ts'
import { skipIf } from '../support/skip.ts'

const VIEWS: readonly (readonly [name: string, options: BrowserContextOptions])[] = [
  ['a desktop in light', { colorScheme: 'light', viewport: { width: 1280, height: 800 } }],
  ['a desktop in dark', { colorScheme: 'dark', viewport: { width: 1280, height: 800 } }],
  ['a phone in light', { colorScheme: 'light', viewport: { width: 320, height: 640 } }],
  ['a phone in dark', { colorScheme: 'dark', viewport: { width: 320, height: 640 } }],
]

/** Runs in the page. Returns the lowest contrast ratio of its text (WCAG 2.2). */
function lowestContrast(): number {
  const page: any = globalThis
  const rgba = (color: string): number[] => (color.match(/[\d.]+/g) ?? []).map(Number)
  const luminance = (color: number[]): number => {
    const [r = 0, g = 0, b = 0] = color.map((part) => {
      const value = part / 255
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const background = (element: any): number[] => {
    for (let at = element; at !== null; at = at.parentElement) {
      const color = rgba(page.getComputedStyle(at).backgroundColor)
      if (color[3] !== 0) return color
    }
    return [255, 255, 255]
  }
  const ratios = [...page.document.querySelectorAll('h1, h2, p, dt, dd, li, span, a, button')].map(
    (element) => {
      const [one, two] = [rgba(page.getComputedStyle(element).color), background(element)].map(luminance)
      const [dark, light] = [Math.min(one ?? 0, two ?? 0), Math.max(one ?? 0, two ?? 0)]
      return (light + 0.05) / (dark + 0.05)
    },
  )
  return Math.min(...ratios)
}

describe('the consent page in a browser', () => {
  let chromium: Browser
  let facade: TestFacade
  before(async function () {
    skipIf(this, chromiumMissing())
    chromium = await startChromium()
  })
  after(() => chromium?.close())
  beforeEach(async () => {
    facade = await startFacade()
  })
  afterEach(() => facade.close())

  for (const [name, options] of VIEWS)
    for (const isError of [false, true])
      it(`${isError ? 'an error' : 'the'} page on ${name} fits, has contrast, and breaks no policy`, async () => {
        const context = await chromium.newContext(options)
        const page = await context.newPage()
        const problems: string[] = []
        page.on('console', (message) => problems.push(message.text()))
        const client = await facade.register({ client_name: `Desk ${'x'.repeat(60)}` })
        const response = await page.goto(
          facade.authorizeUrl(isError ? { client_id: 'x'.repeat(400) } : client).href,
        )
        expect(response?.status()).to.equal(isError ? 400 : 200)
        expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).to.equal(true)
        expect(await page.evaluate(lowestContrast)).to.be.at.least(4.5)
        expect(await page.getByRole('heading', { level: 1 }).count()).to.equal(1)
        if (!isError) {
          const main = 'document.querySelector("main").getBoundingClientRect().width <= 480'
          expect(await page.evaluate(main)).to.equal(true)
          const list = page.getByRole('list', { name: 'The application will be able to:' })
          expect(await list.textContent()).to.contain('Read your notes')
        }
        // Chromium reports the status of the page itself.
        expect(problems.filter((problem) => !problem.includes('status of 400'))).to.deep.equal([])
        await context.close()
      })

  it('a user without scripts chooses another account, and the page names it', async () => {
    const context = await chromium.newContext({ javaScriptEnabled: false })
    const page = await context.newPage()
    await page.goto(facade.authorizeUrl(await facade.register()).href)
    facade.provider?.signInAs('grace')
    // The provider would sign the first user out with a script.
    await context.clearCookies({ name: /^_session/ })
    await page.getByRole('link', { name: 'Use another account' }).click()
    await page.waitForURL('**/consent')
    expect(await page.getByText('grace').count()).to.equal(1)
    await context.close()
  })

  for (const [key, error] of [
    ['Allow', null],
    ['Deny', 'access_denied'],
  ] as const)
    it(`a user with a keyboard and without scripts chooses ${key}, and the browser follows to the client`, async () => {
      const reached: string[] = []
      const { origin } = await listen((req, res) => {
        reached.push(String(req.url))
        res.end('You can close this page')
      })
      const context = await chromium.newContext({ javaScriptEnabled: false })
      const page = await context.newPage()
      const callback = `${origin}/callback`
      const client = await facade.register({ redirect_uris: [callback] })
      await page.goto(facade.authorizeUrl(client, { redirect_uri: callback }).href)
      const button = page.getByRole('button', { name: key })
      for (let tabs = 0; tabs < 5; tabs++) {
        await page.keyboard.press('Tab')
        if (await button.evaluate((element: any) => element.matches(':focus'))) break
      }
      await page.keyboard.press('Enter')
      await page.waitForURL(`${callback}?*`)
      const parameters = new URL(page.url()).searchParams
      expect(parameters.get('error')).to.equal(error)
      expect(parameters.has('code')).to.equal(error === null)
      expect(reached[0]).to.match(/^\/callback\?/)
      await context.close()
    })

  it('a page of another origin cannot frame the consent page', async () => {
    const client = await facade.register()
    const { origin } = await listen((_req, res) => {
      res.setHeader('content-type', 'text/html')
      res.end(`<iframe src="${facade.authorizeUrl(client).href.replaceAll('&', '&amp;')}"></iframe>`)
    })
    const context = await chromium.newContext()
    const page = await context.newPage()
    const blocked = page.waitForEvent('console', (message) => /frame/i.test(message.text()))
    await page.goto(origin.replace('127.0.0.1', 'localhost'))
    expect((await blocked).text()).to.match(/frame-ancestors|X-Frame-Options|framing/i)
    expect(
      await page
        .frames()[1]
        ?.locator('form')
        .count()
        .catch(() => 0),
    ).to.equal(0)
    await context.close()
  })
})
