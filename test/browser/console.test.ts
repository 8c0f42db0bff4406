import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { connectTo } from '../../cli/dev/connect-commands.ts'
import { type ConsoleServer, startConsoleServer } from '../../cli/dev/console-server.ts'
import type { Feed } from '../../cli/dev/events/event.ts'
import { EventLog } from '../../cli/dev/events/event-log.ts'
import { countCoverage } from '../support/browser-coverage.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { callTool, type SampleServer, startSampleServer } from '../support/cli/sample.ts'
import { skipIf } from '../support/skip.ts'

const ISSUER = 'https://auth.example.com'

/** The folder for screenshots. By default, none are taken. */

/** The globals of the page that the tests use. The types of Node.js do not include them. */
interface InPage {
  readonly document: any
  readonly performance: { now(): number }
  readonly PerformanceObserver: any
  readonly MutationObserver: any
  longTasks: number[]
}

describe('the console in a browser', function () {
  this.timeout(120_000)
  let browser: Browser
  let context: BrowserContext
  let page: Page
  let log: EventLog
  let served: ConsoleServer
  let sample: SampleServer
  let writeCoverage: () => Promise<void>
  /** Errors in the page, and requests to other origins. */
  const problems: string[] = []

  before(async function () {
    skipIf(this, chromiumMissing())
    browser = await startChromium()
  })
  after(() => browser?.close())

  beforeEach(async () => {
    await start(0)
    problems.length = 0
    context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    page = await context.newPage()
    writeCoverage = await countCoverage(page, (url) => {
      const name = /^http:\/\/127\.0\.0\.1:\d+(\/page\/[\w-]+\.js)$/.exec(url)?.[1]
      return name && new URL(`../../cli/dev${name}`, import.meta.url).href
    })
    page.on('pageerror', (error) => problems.push(String(error)))
    page.on('console', (message) => problems.push(message.text()))
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url())
      if (protocol !== 'data:' && origin !== new URL(served.url).origin) problems.push(request.url())
    })
    await page.goto(served.url)
    await page.locator('#connection', { hasText: 'live' }).waitFor()
    await page.locator('#view-all').click()
  })
  afterEach(async () => {
    await writeCoverage()
    await context.close()
    await sample.close()
    await served.close()
    expect(problems).to.deep.equal([])
  })

  /** Starts the console and a server that sends events to it. */
  async function start(port: number): Promise<void> {
    log = new EventLog({ command: 'server.ts', issuer: ISSUER })
    served = await startConsoleServer(log, { number: port, orAnother: false })
    log.setServer({ state: 'running', pid: 7 })
    sample = await startSampleServer(ISSUER, served.feedUrl)
  }

  const textOf = async (selector: string) =>
    (await page.locator(selector).first().innerText()).replaceAll(/\s+/g, ' ')
  const rows = () => page.locator('#events > *')
  /** Resolves when the list has the given number of rows. */
  const rowsAre = (count: number) =>
    page.waitForFunction((count) => {
      const { document } = globalThis as unknown as InPage
      return document.querySelectorAll('#events > *').length === count
    }, count)

  /** Emits many events at once. */
  function burst(count: number): void {
    for (let index = 0; index < count; index++)
      sample.telemetry.emit('sample.tick', { level: 'debug', attributes: { index, duration_ms: index % 50 } })
  }

  it('the console shows setup instructions before the telemetry of the server has sent anything', async () => {
    // A page whose console stops logs its failed attempts to reconnect.
    await page.goto('about:blank')
    await served.close()
    log = new EventLog({ command: 'server.ts', issuer: ISSUER })
    log.setServer({ state: 'running', pid: 7 })
    served = await startConsoleServer(log, { number: 0, orAnother: false })
    await page.goto(served.url)
    await page.locator('#setup').waitFor()
    await page.locator('#connection', { hasText: 'live' }).waitFor()
    expect(await textOf('#welcome')).to.contain('.addTransport(DevConsoleTransportAdapter.create())')
    for (const text of ['running, pid', ISSUER]) await page.locator('header', { hasText: text }).waitFor()
    expect(await page.locator('#nothing').isVisible()).to.equal(false)
    log.setServer({ state: 'ended', how: 'exit code 1' })
    await page.locator('#setup').waitFor({ state: 'hidden' })
  })

  it('the console shows the MCP URL with commands to copy, and no setup for a transport that is connected', async () => {
    const connect = connectTo(`${sample.origin}/mcp`)
    log.setServer({ state: 'running', pid: 7, ...(connect && { connect }) })
    log.add({ sender: { service: 'team' }, events: [] })
    await page.locator('#setup').waitFor({ state: 'hidden' })
    await page.locator('#mcp', { hasText: `${sample.origin}/mcp Copy` }).waitFor()
    expect(await page.locator('#connect-commands code').allInnerTexts()).to.deep.equal(
      connect?.commands.map(({ command }) => command),
    )
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByLabel('Copy the command for Codex').click()
    await page.getByText('Copied').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).to.equal(
      `codex mcp add dev --url ${sample.origin}/mcp`,
    )
    await page.setViewportSize({ width: 390, height: 800 })
    expect(
      await page.evaluate(
        `[...document.querySelectorAll('.option')].every((one) => one.getClientRects().length === 1)`,
      ),
    ).to.equal(true)
    expect(await page.evaluate('document.documentElement.scrollWidth')).to.equal(390)
  })

  /** Shows what the observer and the telemetry say about requests. */
  function addCalls(calls: readonly (readonly [name: string, attributes: object])[]): void {
    const attributes = { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'refund' }
    const time = (index: number) => new Date(Date.UTC(2026, 10, 20) + index * 1000).toISOString()
    const events = calls.flatMap(([name, more], index) => {
      const about = { time: time(index), level: 'warn', sessionId: `s${index}`, request: { id: `r${index}` } }
      const seen = { 'url.path': '/mcp', 'http.response.status_code': 200, token: 't', covered: true }
      const agent = { 'user_agent.original': 'claude-code/2' }
      return [
        { ...about, name: 'dev.request', attributes: { ...seen, ...agent, ...more } },
        { ...about, name, attributes: { ...attributes, ...more } },
      ]
    })
    log.add({ sender: {}, events } as unknown as Feed)
  }

  it('the console shows and counts calls that were stopped, folds the probes of doctor, and cuts no word', async () => {
    addCalls([
      ['kit.mcp.tool.completed', {}],
      ['kit.mcp.policy.denied', { 'kit.mcp.policy.reason': 'Refunds need an approval.' }],
      ['kit.mcp.limit.reached', { limit: 'calls', 'limit.max': 2, 'limit.actual': 3 }],
      ['kit.mcp.confirm.declined', {}],
      ['kit.mcp.tool.failed', {}],
      [
        'kit.mcp.auth.refused',
        { reason: 'invalid', 'user_agent.original': 'mcp-gatekit-doctor', token: 'd' },
      ],
    ])
    log.add({
      sender: {},

      events: ['request.refused', 'signin.refused', 'client.refused'].map((name) => ({
        name: `kit.authorization.${name}`,
        time: '2026-11-20T12:00:00Z',
        level: 'warn',
        sessionId: 'a',
        attributes: {},
      })),
    } as Feed)
    await page.locator('#view-clients').click()
    await page.locator('.step', { hasText: 'Refunds need an approval.' }).waitFor()
    expect(await textOf('#refused-value')).to.equal('3')
    const steps = page.locator('.story[open] .step')
    for (const word of ['denied', 'limit', 'confirm', 'tool failed', 'not authorized', 'not signed in'])
      expect(await steps.filter({ hasText: word }).count(), word).to.be.above(0)
    const doctor = page.locator('.story', { hasText: 'mcp-gatekit-doctor' })
    expect(await doctor.getAttribute('open')).to.equal(null)
    expect(await doctor.locator('.step').isVisible()).to.equal(false)
    const cut = await page.evaluate(
      `[...document.querySelectorAll('.step .chip')].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)`,
    )
    expect(cut).to.deep.equal([])
  })

  it('the console keeps the newest step of the newest client visible until the user scrolls', async () => {
    await page.locator('#view-clients').click()
    const add = (number: number) =>
      log.add({
        sender: { observer: true },

        events: [
          {
            name: 'dev.request',
            time: new Date(1_800_000_000_000 + number * 1000).toISOString(),
            level: 'info',
            sessionId: 'dev',
            attributes: {
              'url.path': `/mcp/${number}`,
              'http.request.method': 'POST',
              'http.response.status_code': 200 + number,
              'user_agent.original': 'client/1',
              'client.address': '127.0.0.1',
              'rpc.method': `tools/list-${number}`,
            },
          },
        ],
      } as unknown as Feed)
    for (let number = 0; number < 40; number++) add(number)
    const isLastVisible = () =>
      page.evaluate(() => {
        const { document } = globalThis as unknown as InPage
        const last = [...document.querySelectorAll('.step')].at(-1).getBoundingClientRect()
        const { bottom } = document.getElementById('scroll').getBoundingClientRect()
        return last.bottom <= bottom + 1
      })
    await page.waitForFunction(
      () => (globalThis as unknown as InPage).document.querySelectorAll('.step').length > 30,
    )
    await page.waitForFunction(
      () => (globalThis as unknown as InPage).document.getElementById('scroll').scrollTop > 0,
    )
    expect(await isLastVisible()).to.equal(true)
    await page.evaluate(() => {
      ;(globalThis as unknown as InPage).document.getElementById('scroll').scrollTop = 0
    })
    const steps = await page.locator('.step').count()
    add(99)
    await page.waitForFunction(
      (count) => (globalThis as unknown as InPage).document.querySelectorAll('.step').length > count,
      steps,
    )
    expect(await isLastVisible()).to.equal(false)
  })

  it('the console shows a refused call with its reason and a suggested fix at once', async () => {
    // The time of the new row by the clock of the page.
    await page.evaluate(() => {
      const { document, MutationObserver, performance } = globalThis as unknown as InPage
      const shown: any = globalThis
      new MutationObserver(() => {
        if (document.querySelector('.row.bad') !== null) shown.shownAt ??= performance.now()
      }).observe(document.getElementById('events'), { childList: true })
    })
    const askedAt = await page.evaluate(() => performance.now())
    expect(await callTool(sample.origin, 'foreign', 'greet', { name: 'Ada' })).to.equal(401)
    await page.locator('.row.bad').waitFor()
    const shownAt = await page.evaluate(() => (globalThis as any).shownAt as number)
    // The measured time includes the call itself.
    expect(shownAt - askedAt).to.be.below(2_000)
    expect(await textOf('.row.bad')).to.contain(
      'refused wrong_resource: the access token was issued for another resource',
    )
    expect(await textOf('.row.bad .hint')).to.contain('resource=<URL of this server>')
    await page.locator('#refused', { hasText: 'wrong_resource' }).waitFor()
    expect(await textOf('#refused')).to.equal('refused 1 last: wrong_resource')
    await page.locator('#announcer', { hasText: 'Refused: wrong_resource' }).waitFor({ state: 'attached' })
    expect(await page.locator('#announcer').getAttribute('aria-live')).to.equal('polite')
  })

  it('the console finds events by their view, and by words and excluded words of their texts, and sorts them by time', async () => {
    const events = [
      ['kit.mcp.auth.accepted', {}],
      ['kit.mcp.auth.refused', { reason: 'expired' }],
      ['kit.mcp.tool.completed', { 'gen_ai.tool.name': 'search' }, { actor: { type: 'user', id: 'Ada' } }],
      [
        'kit.mcp.tool.failed',
        { 'gen_ai.tool.name': 'search' },
        { error: { name: 'E', message: 'the index' } },
      ],
      ['billing.late', {}, { level: 'warn' }],
      ['kit.mcp.event.delivered', {}],
    ] as const
    const about = { level: 'info', sessionId: 's' }
    log.add({
      sender: {},

      events: events.map(([name, attributes, more], index) => {
        const time = `2026-11-20T12:00:0${5 - index}.000Z`
        return { ...about, name, attributes, time, ...more }
      }),
    } as Feed)
    await rowsAre(6)
    for (const [view, text, expected] of [
      ['event', '', [5]],
      ['gate', '', [1, 0]],
      ['tool', '', [3, 2]],
      ['problems', '', [4, 3, 1]],
      ['problems', 'expired', [1]],
      ['gate', 'another', []],
      ['all', 'ada', [2]],
      ['all', 'SEARCH', [3, 2]],
      ['all', ' search  index ', [3]],
      ['all', 'search -index', [2]],
      ['all', '-', [5, 4, 3, 2, 1, 0]],
    ] as const) {
      await page.locator(`#view-${view}`).click()
      await page.locator('#search').fill(text)
      await page.waitForFunction((numbers) => {
        const { document } = globalThis as unknown as InPage
        const listed = [...document.querySelectorAll('#events .row')].map(({ dataset }) => dataset.number - 1)
        return String(listed.reverse()) === numbers
      }, String(expected))
    }
  })

  it('the console announces several refusals in one sentence, and later ones in another', async () => {
    const refusals = (count: number) => {
      const event = { name: 'kit.mcp.auth.refused', time: '2026-11-20T12:00:00.000Z', level: 'warn' }
      const attributes = { reason: 'expired', 'mcp.method.name': 'tools/list' }
      const events = Array.from({ length: count }, () => ({ ...event, sessionId: 'ses_1', attributes }))
      log.add({ sender: {}, events })
    }
    const announced = (text: string) =>
      page.locator('#announcer', { hasText: text }).waitFor({ state: 'attached' })
    refusals(3)
    await announced('3 refused, most recently: expired: the access token has expired, tools/list')
    refusals(1)
    await announced('Refused: expired')
  })

  it('the console never shows a token', async () => {
    const token = 'hunter2hunter2hunter2hunter2'
    await callTool(sample.origin, token, 'greet')
    await page.locator('.row.bad').waitFor()
    await rows().first().click()
    expect(await page.locator('body').innerText()).not.to.contain(token)
    expect(await (await fetch(served.url)).text()).not.to.contain(token)
  })

  it('the console can be used with the keyboard only', async () => {
    for (const token of [undefined, 'bad', 'good'])
      await callTool(sample.origin, token, 'greet', { name: 'Ada' })
    await page.locator('#how-many', { hasText: '5 events' }).waitFor()
    const selected = async () => await textOf('.row[aria-selected=true]')
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key)
    }
    await press('j')
    expect(await selected()).to.contain('completed')
    expect(await textOf('#details-title')).to.equal('kit.mcp.request.completed')
    await press('ArrowDown', 'j', 'j')
    expect(await selected()).to.contain('invalid')
    expect(await page.locator('#events').getAttribute('aria-activedescendant')).to.equal(
      await page.locator('.row[aria-selected=true]').getAttribute('id'),
    )
    await press('j', 'j', 'j')
    expect(await selected()).to.contain('missing')
    await press('ArrowUp', 'k', 'k', 'k', 'k')
    expect(await selected()).to.contain('completed')
    await press('Escape')
    expect(await page.locator('#details').isVisible()).to.equal(false)
    await press('/')
    // The identifiers of events are random, but have no exclamation mark.
    await page.keyboard.type('jk! refused')
    await rowsAre(0)
    expect(await textOf('#nothing:visible')).to.contain('No event matches')
    await press('Escape')
    await rowsAre(5)
    await press('/')
    await page.keyboard.type('expired -x')
    await press('Enter', 'Escape')
    expect(await page.locator('#search').inputValue()).to.equal('')
    await page.locator('#view-problems').focus()
    await press('Enter')
    await rowsAre(1)
    await press('Escape')
    await press('p')
    await callTool(sample.origin, 'bad', 'greet')
    await page.locator('#pause', { hasText: 'Resume (1 new)' }).waitFor()
    await rowsAre(5)
    await press('p')
    await rowsAre(6)
    // Shortcuts of the browser still work. Control+J would open a page of the browser.
    await press('Alt+j')
    expect(await page.locator('#details').isVisible()).to.equal(false)
  })

  it('the console copies an event, and shows only the events of its session', async () => {
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await callTool(sample.origin, 'good', 'greet', { name: 'Ada' })
    await callTool(sample.origin, 'bad', 'greet')
    await page.locator('.row.bad').click()
    await page.locator('#copy', { hasText: 'Copy as JSON' }).click()
    await page.locator('#copy', { hasText: 'Copied' }).waitFor()
    const copied = JSON.parse(await page.evaluate(() => (globalThis as any).navigator.clipboard.readText()))
    expect(copied)
      .to.include({ name: 'kit.mcp.auth.refused', service: 'sample' })
      .and.not.to.have.property('number')
    await page.locator('#only-session').click()
    await rowsAre(1)
    await page.locator('#close').click()
    expect(await page.locator('#details').isVisible()).to.equal(false)
  })

  it('the console stays responsive with ten thousand events', async () => {
    await page.evaluate(() => {
      const { PerformanceObserver } = globalThis as unknown as InPage
      const tasks: number[] = []
      ;(globalThis as unknown as InPage).longTasks = tasks
      new PerformanceObserver((list: any) => {
        for (const { duration } of list.getEntries()) tasks.push(duration)
      }).observe({ entryTypes: ['longtask'] })
    })
    await callTool(sample.origin, 'bad', 'greet')
    burst(10_000)
    await page.locator('#how-many', { hasText: 'the latest 2,000 of 10,001 events' }).waitFor()
    await rowsAre(200)
    expect(
      await page.evaluate(() => (globalThis as unknown as InPage).document.querySelectorAll('*').length),
    ).to.be.below(3000)
    // The counters include all events.
    expect(await textOf('#refused')).to.contain('1')
    // Old rows are also removed if few events arrive at a time.
    burst(150)
    await page.locator('#how-many', { hasText: '10,151 events' }).waitFor()
    await rowsAre(200)
    // A key press works while the next ten thousand events arrive.
    burst(10_000)
    await page.keyboard.press('j')
    await page.locator('#details:not([hidden])').waitFor()
    await page.locator('#how-many', { hasText: '20,151 events' }).waitFor()
    await page.locator('#search').fill('"index":9999')
    await page.locator('#events > :only-child').waitFor()
    const tasks = await page.evaluate(() => (globalThis as unknown as InPage).longTasks)
    // Users do not notice a task of 100 ms. The limit is higher because other tests use the machine.
    expect(Math.max(0, ...tasks)).to.be.below(2_000)
  })

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`the console is readable in a narrow window in the ${colorScheme} color scheme`, async () => {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width: 640, height: 844 })
      for (const token of [undefined, 'foreign', 'good'])
        await callTool(sample.origin, token, 'search_notes', { ms: 20 })
      await callTool(sample.origin, 'good', 'erase')
      await page.locator('.row', { hasText: 'insufficient_scope' }).waitFor()
      const ground = await page.evaluate(() => {
        const { document } = globalThis as unknown as InPage
        return (globalThis as any).getComputedStyle(document.body).backgroundColor as string
      })
      expect(Number(/\d+/.exec(ground)?.[0]) < 128).to.equal(colorScheme === 'dark')
      const isWide = () =>
        page.evaluate(() => (globalThis as unknown as InPage).document.documentElement.scrollWidth > 640)
      expect(await isWide()).to.equal(false)
      await page.locator('.row.bad').first().click()
      const box = await page.locator('#details').boundingBox()
      expect((box?.y ?? 0) + (box?.height ?? 0)).to.equal(844)
      expect(await isWide()).to.equal(false)
    })
  }

  it('the console keeps its events when dev stops, and starts again when dev is restarted on the same port', async () => {
    await callTool(sample.origin, 'bad', 'greet')
    await page.locator('.row.bad').waitFor()
    const { port } = new URL(served.url)
    await sample.close()
    log.setServer({ state: 'ended', how: 'exit code 3' })
    await served.close()
    await page.locator('#server', { hasText: 'exited: exit code 3' }).waitFor()
    await page.locator('#connection', { hasText: 'not connected' }).waitFor()
    await rowsAre(1)
    await start(Number(port))
    await page.locator('#connection', { hasText: 'live' }).waitFor()
    await rows().first().waitFor({ state: 'detached' })
    await callTool(sample.origin, undefined, 'greet')
    await page.locator('.row', { hasText: 'missing' }).waitFor()
    // The browser logs failed attempts to reconnect.
    expect(problems.splice(0).filter((text) => !text.includes('net::ERR_'))).to.deep.equal([])
  })
})
