import { expect } from 'chai'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { codeGrant, startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { skipIf } from '../support/skip.ts'

const VIEWS: readonly (readonly [name: string, options: BrowserContextOptions])[] = [
  ['a desktop in light', { colorScheme: 'light', viewport: { width: 1280, height: 900 } }],
  ['a desktop in dark', { colorScheme: 'dark', viewport: { width: 1280, height: 900 } }],
  ['a phone in light', { colorScheme: 'light', viewport: { width: 390, height: 844 } }],
  ['a phone in dark', { colorScheme: 'dark', viewport: { width: 390, height: 844 } }],
]

describe(`the page of connected applications in a browser`, function () {
  this.timeout(120_000)
  let chromium: Browser
  let facade: TestFacade
  before(async function () {
    skipIf(this, chromiumMissing())
    chromium = await startChromium()
  })
  after(() => chromium?.close())
  beforeEach(async () => {
    facade = await startFacade({ page: { title: 'Notes' } }, { mountsAccount: true })
    for (const name of ['Desk', `Phone ${'x'.repeat(70)}`]) {
      const client = await facade.register({ client_name: name })
      const url = facade.authorizeUrl(client, { scope: 'mcp:read mcp:write' })
      await facade.token(codeGrant(client, (await facade.signIn(url)).get('code')))
    }
  })
  afterEach(() => facade.close())

  for (const [name, options] of VIEWS)
    it(`a user on ${name} signs in without script, disconnects an application, and signs out`, async () => {
      const context = await chromium.newContext({ ...options, javaScriptEnabled: false })
      const page = await context.newPage()
      const problems: string[] = []
      page.on('console', (message) => problems.push(message.text()))
      const screen = async (step: string): Promise<void> => {
        const { SCREENS } = process.env
        if (SCREENS !== undefined)
          await page.screenshot({
            path: `${SCREENS}/account-${step}-${name.replaceAll(' ', '-')}.png`,
            fullPage: true,
          })
      }
      await page.goto(`${facade.issuer}/account`)
      expect(await page.getByRole('listitem').count()).to.equal(2)
      const { width } = options.viewport as { width: number }
      const main = await page.locator('main').boundingBox()
      expect((main?.x ?? 0) + (main?.width ?? 0)).to.be.at.most(width)
      await screen('list')
      await page.getByRole('button', { name: 'Disconnect Desk' }).click()
      await page.waitForURL(`${facade.issuer}/account`)
      expect(await page.getByRole('heading', { name: 'Desk' }).count()).to.equal(0)
      expect(await page.getByRole('listitem').count()).to.equal(1)
      await page.getByRole('button', { name: /^Disconnect Phone/ }).click()
      await page.getByText('No application has access to your account.').waitFor()
      await screen('empty')
      await page.getByRole('button', { name: 'Sign out of this page' }).click()
      await page.getByRole('heading', { name: 'You have signed out of this page' }).waitFor()
      await screen('signed-out')
      await page.getByRole('link', { name: 'Sign in again' }).click()
      await page.getByRole('heading', { name: 'Connected applications' }).waitFor()
      expect(problems).to.deep.equal([])
      await context.close()
    })
})
