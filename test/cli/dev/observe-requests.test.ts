import type { IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import { expect } from 'chai'
import { observeRequests } from '../../../cli/dev/observer/observe-requests.ts'
import { listen } from '../../support/listen.ts'
import { rawRequest } from '../../support/raw-http.ts'
import { until } from '../../support/until.ts'

interface Seen {
  readonly name: string
  readonly attributes: Record<string, unknown>
  readonly request?: { readonly id: string; readonly unverified?: Record<string, string> }
}

const jwt = (claims: object) => `a.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.secret-part`

describe('observeRequests()', () => {
  const seen: Seen[] = []
  let stop: () => void
  let feed: string

  beforeEach(async () => {
    seen.length = 0
    const { origin } = await listen(async (req: IncomingMessage, res) => {
      seen.push(...((await json(req)) as { events: Seen[] }).events)
      res.writeHead(204).end()
    })
    feed = `${origin}/feed/key`
    stop = observeRequests(feed)
  })
  afterEach(() => stop())

  /** Sends a request to a server. Resolves with the events. */
  async function eventsOf(
    headers: readonly string[],
    {
      target = '/mcp',
      method = 'POST',
      status = 401,
      response = {},
      host = 'localhost',
    }: Partial<Record<'target' | 'method' | 'host', string>> & {
      status?: number
      response?: Record<string, string>
    } = {},
  ): Promise<readonly Seen[]> {
    const { port } = await listen((_req, res) => res.writeHead(status, response).end())
    await rawRequest(port, { method, target, headers: [`Host: ${host}`, ...headers] })
    // The last request is always observed.
    await rawRequest(port, {
      method: 'GET',
      target: '/.well-known/oauth-protected-resource/last',
      headers: ['Host: localhost'],
    })
    await until(() => seen.some(({ attributes }) => String(attributes['url.path']).endsWith('/last')))
    return seen.filter(
      ({ name, attributes }) => name === 'dev.request' && !String(attributes['url.path']).endsWith('/last'),
    )
  }

  it('observes the status, the path without its query, the challenge, and the client', async () => {
    const [event] = await eventsOf(
      ['User-Agent: test/1', 'Accept: text/event-stream', 'Origin: http://localhost:1'],
      {
        target: '/mcp?key=hunter2',
        response: { 'WWW-Authenticate': 'Bearer error="invalid_token"' },
      },
    )
    expect(event?.attributes).to.include({
      'http.request.method': 'POST',
      'url.path': '/mcp',
      'http.response.status_code': 401,
      'user_agent.original': 'test/1',
      'client.address': '127.0.0.1',
      origin: 'http://localhost:1',
      challenge: 'Bearer error="invalid_token"',
      covered: false,
    })
    expect(JSON.stringify(seen)).not.to.contain('hunter2')
  })

  it('reads the claims of a token without revealing it', async () => {
    const token = jwt({
      iss: 'https://a.example',
      aud: ['b', 'c'],
      exp: 1,
      client_id: 'x'.repeat(999),
      sub: 'person',
    })
    const [event] = await eventsOf([`Authorization: Bearer ${token}`, `User-Agent: ${token}`])
    expect(event?.request?.unverified).to.deep.equal({
      iss: 'https://a.example',
      aud: 'b c',
      exp: '1970-01-01T00:00:01.000Z',
      client_id: 'x'.repeat(256),
    })
    expect(event?.attributes.token).to.match(/^[0-9a-f]{16}$/)
    expect(event?.attributes['user_agent.original']).to.equal('[token]')
    expect(JSON.stringify(seen)).not.to.contain('secret-part').and.not.to.contain('person')
  })

  for (const [what, token] of [
    ['that is opaque', 'opaque'],
    ['whose payload is not JSON', 'a.b.c'],
    ['whose payload is null', `a.${Buffer.from('null').toString('base64url')}.c`],
    ['with an infinite expiry', `a.${Buffer.from('{"exp":1e999}').toString('base64url')}.c`],
    ['with claims of other types', jwt({ iss: {}, aud: [5], exp: 'soon' })],
  ] as const) {
    it(`observes a token ${what}`, async () => {
      const [event] = await eventsOf([`Authorization: Bearer ${token}`])
      expect(event?.attributes['http.response.status_code']).to.equal(401)
    })
  }

  for (const [what, headers, options, count] of [
    ['a request of another kind', [], { status: 200 }, 0],
    ['a request of dev itself', ['User-Agent: mcp-gatekit-dev', 'Accept: text/event-stream'], {}, 0],
    [
      'a preflight for other headers',
      ['Access-Control-Request-Method: GET', 'Access-Control-Request-Headers: x-a'],
      { method: 'OPTIONS' },
      0,
    ],
    [
      'a preflight of a client',
      ['Access-Control-Request-Method: POST', 'Access-Control-Request-Headers: authorization'],
      { method: 'OPTIONS' },
      1,
    ],
    ['a metadata request', [], { target: '/.well-known/oauth-protected-resource', method: 'GET' }, 1],
    ['a page on this machine', ['Accept: */*'], { status: 200, host: '127.0.0.1:3000' }, 0],
    [
      'a request whose Host is another machine',
      ['Accept: */*'],
      { status: 403, host: 'evil.example:3000' },
      1,
    ],
    ['a request whose Host is not valid', ['Accept: */*'], { status: 403, host: 'local host' }, 1],
    ['a request with a header of MCP', ['Mcp-Session-Id: a'], { status: 200 }, 1],
  ] as const) {
    it(`sends ${count === 0 ? 'no event' : 'an event'} for ${what}`, async () =>
      expect(await eventsOf(headers, options)).to.have.length(count))
  }

  it('sends the address of a server that begins to listen', async () => {
    const { port } = await listen((_req, res) => res.end())
    await until(() =>
      seen.some(({ name, attributes }) => name === 'dev.listening' && attributes.port === port),
    )
  })
})
