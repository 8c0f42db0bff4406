import { once } from 'node:events'
import { Agent, get, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import { type ConsoleServer, startConsoleServer } from '../../../cli/dev/console-server.ts'
import { EventLog } from '../../../cli/dev/events/event-log.ts'
import type { PageRow } from '../../../cli/dev/events/lines.ts'
import { type ServerSentEvents, startServerSentEvents } from '../../support/cli/events.ts'

const event = (n: number, more: object = {}) => ({
  name: 'sample.tick',
  time: '2026-11-20T12:00:00.000Z',
  level: 'info',
  sessionId: `ses_${n}`,
  ...more,
})

const feed = (...events: readonly unknown[]) => ({ sender: { pid: 1, service: 'sample' }, events })

/** Returns the numbers and the events of the next message with events. */
async function nextEvents(stream: ServerSentEvents): Promise<readonly (readonly [number, unknown])[]> {
  const rows = (await stream.next('events')) as readonly PageRow[]
  return rows.map(({ number, event }) => [number, event])
}

describe('the server of the console', () => {
  let log: EventLog
  let server: ConsoleServer
  beforeEach(async () => {
    log = new EventLog({ command: 'server.ts' })
    server = await startConsoleServer(log, { number: 0, orAnother: false })
  })
  afterEach(() => server.close())

  /** Sends a request with any headers. `fetch` does not allow all of them. */
  async function ask(url: string, { method = 'GET', headers = {}, body = '' } = {}) {
    const req = request(new URL(url, server.url), { method, headers })
    req.end(body)
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    return { status: res.statusCode, headers: res.headers as IncomingHttpHeaders, text: await text(res) }
  }

  const post = (body: unknown) => fetch(server.feedUrl, { method: 'POST', body: JSON.stringify(body) })

  it('serves the page and all files that it loads', async () => {
    const page = await ask('/')
    expect(page.status).to.equal(200)
    expect(page.headers['content-type']).to.match(/^text\/html/)
    const wanted = [...page.text.matchAll(/(?:src|href)="(?!data:)([^"]+)"/g)].map(
      ([, path]) => path as string,
    )
    expect(wanted).to.have.members(['/style.css', '/page/main.js'])
    const seen = new Set<string>()
    for (const path of wanted) {
      if (seen.has(path)) continue
      seen.add(path)
      const file = await ask(path)
      expect(file.status, path).to.equal(200)
      expect(file.headers).to.include({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' })
      expect(file.text, path).not.to.match(/https?:\/\/(?!www\.w3\.org\/2000\/svg)/)
      for (const [, next] of file.text.matchAll(/from '([^']+)'/g))
        wanted.push(new URL(next as string, `http://a${path}`).pathname)
    }
    expect(seen.size).to.equal(3)
  })

  it('sends headers that isolate the page from other origins', async () => {
    const { headers } = await ask('/')
    const policy = String(headers['content-security-policy'])
    expect(policy).to.contain("default-src 'none'").and.to.contain("connect-src 'self'")
    expect(policy).not.to.match(/unsafe|\*|http/)
    expect(headers).to.include({
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
    })
    expect(headers).not.to.have.property('access-control-allow-origin')
  })

  for (const [what, headers] of [
    ['another Host, as after DNS rebinding', { host: 'evil.example' }],
    ['an invalid Host', { host: '@' }],
    ['a request from a page of another origin', { origin: 'https://evil.example' }],
    ['a request from a page with an opaque origin', { origin: 'null' }],
    ['a request from a page on another port', { origin: 'http://127.0.0.1:1' }],
    [
      'an image or script request from another site',
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
    ],
  ] as const) {
    it(`rejects ${what} with 403`, async () => {
      const path = new URL(server.feedUrl).pathname
      expect((await ask('/', { headers })).status).to.equal(403)
      expect((await ask('/events', { headers })).status).to.equal(403)
      const body = JSON.stringify(feed(event(1)))
      expect((await ask(path, { method: 'POST', headers, body })).status).to.equal(403)
    })
  }

  it('accepts links from other sites to the page but not to its events, and the host localhost', async () => {
    const headers = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
    expect((await ask('/', { headers })).status).to.equal(200)
    // Frames of another site would take the places of pages.
    expect((await ask('/events', { headers })).status).to.equal(403)
    const { port } = new URL(server.url)
    expect((await ask('/', { headers: { host: `localhost:${port}` } })).status).to.equal(200)
  })

  for (const [method, path, status, allow] of [
    ['GET', '/nothing', 404],
    ['GET', '/page/../console-server.js', 404],
    ['GET', '/feed/', 404],
    ['POST', `/feed/${'0'.repeat(32)}`, 404],
    ['POST', '/', 405, 'GET, HEAD'],
    ['DELETE', '/events', 405, 'GET, HEAD'],
    ['HEAD', '/', 200],
    ['HEAD', '/events', 200],
  ] as const) {
    it(`responds to ${method} ${path} with ${status}`, async () => {
      const answer = await ask(path, { method })
      expect(answer.status).to.equal(status)
      expect(answer.headers.allow).to.equal(allow)
    })
  }

  it('does not close an idle connection of the feed, over which events may be on their way', async () => {
    const agent = new Agent({ keepAlive: true })
    const req = request(server.feedUrl, { method: 'POST', agent })
    req.end(JSON.stringify(feed(event(1))))
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    await text(res)
    agent.destroy()
    expect(res.headers.connection).to.equal('keep-alive')
    // A server that closes idle connections announces when.
    expect(res.headers).not.to.have.property('keep-alive')
  })

  it('accepts events at the feed URL, and only with POST', async () => {
    expect((await post(feed(event(1)))).status).to.equal(204)
    expect((await ask(server.feedUrl)).headers.allow).to.equal('POST')
  })

  for (const [what, body] of [
    ['a body that is not JSON', '{'],
    ['a body that is not an object', '[]'],
    ['a feed without sender', '{"events":[]}'],
    ['a feed without events', '{"sender":{}}'],
    ['an invalid event', '{"sender":{},"events":[null]}'],
    ['an event with null as attributes', JSON.stringify(feed({ ...event(1), attributes: null }))],
    ['an event with a string as error', JSON.stringify(feed({ ...event(1), error: 'x' }))],
    ['an event without a name', JSON.stringify(feed(event(1), { time: '', level: '', sessionId: '' }))],
  ] as const) {
    it(`rejects ${what} with 400`, async () => {
      expect((await fetch(server.feedUrl, { method: 'POST', body })).status).to.equal(400)
    })
  }

  it('rejects a body that is too large with 413', async () => {
    const req = request(server.feedUrl, { method: 'POST' })
    req.on('error', () => undefined)
    req.end(Buffer.alloc(33 * 1024 * 1024))
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    expect(res.statusCode).to.equal(413)
    res.resume()
  })

  it('streams earlier and new events', async () => {
    await post(feed(event(1), event(2)))
    const stream = await startServerSentEvents(`${server.url}events`)
    expect(await stream.next('contents')).to.include({ command: 'server.ts', server: 'starting' })
    expect(await nextEvents(stream)).to.deep.equal([
      [1, event(1)],
      [2, event(2)],
    ])
    expect(await stream.next('stories')).to.deep.equal([])
    await post(feed(event(3)))
    expect(await nextEvents(stream)).to.deep.equal([[3, event(3)]])
    expect(await stream.next('contents')).to.include({ 'how-many': '3 events' })
    log.setServer({ state: 'running', pid: 7 })
    expect(await stream.next('contents')).to.include({ server: 'running, pid 7' })
    stream.close()
  })

  it('disconnects a page that does not read', async () => {
    const [res] = (await once(get(`${server.url}events`), 'response')) as [IncomingMessage]
    res.on('error', () => undefined)
    // From here on, the response is not read.
    const closed = once(res.socket, 'close')
    const long = 'x'.repeat(6_000_000)
    for (let n = 0; n < 8; n++) await post(feed(event(n, { long })))
    res.resume()
    await closed
    expect(res.complete).to.equal(false)
  })

  it('sends the last message before it closes', async () => {
    const stream = await startServerSentEvents(`${server.url}events`)
    await stream.next('contents')
    log.setServer({ state: 'ended', how: 'exit code 3' })
    const closed = server.close()
    expect(await stream.next('contents')).to.have.property('ended')
    await closed
  })
})
