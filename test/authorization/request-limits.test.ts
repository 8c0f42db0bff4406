import { expect } from 'chai'
import {
  type AuthorizationFacadeOptions,
  authorizationFacade,
  google,
} from '../../src/authorization/index.ts'
import { KitTelemetry } from '../../src/index.ts'
import { createTelemetryRecorder } from '../../src/testing/index.ts'
import { Browser } from '../support/authorization/browser.ts'
import {
  CALLBACK,
  codeGrant,
  startFacade,
  type TestFacade,
  toClient,
} from '../support/authorization/facade.ts'

/** A facade that finds the address of a client in a header, as behind a proxy. */
const HEADER = 'x-client-address'
const clientAddress = (request: Request): string | undefined => request.headers.get(HEADER) ?? undefined

describe('the limits of authorizationFacade', () => {
  const { now: performanceNow } = performance
  let aheadMs: number
  beforeEach(() => {
    aheadMs = 0
    performance.now = () => performanceNow.call(performance) + aheadMs
  })
  afterEach(async () => {
    performance.now = performanceNow
  })
  async function start(
    maxRegistrationsPerMinute: number | undefined,
    options: Partial<AuthorizationFacadeOptions> = {},
  ): Promise<TestFacade> {
    return await startFacade({ clientAddress, ...options, clients: { maxRegistrationsPerMinute } })
  }
  const register = (facade: TestFacade, address: string): Promise<Response> =>
    fetch(`${facade.issuer}/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', [HEADER]: address },
      body: JSON.stringify({ redirect_uris: [CALLBACK], token_endpoint_auth_method: 'none' }),
    })
  const authorize = (facade: TestFacade, address: string): Promise<Response> =>
    fetch(facade.authorizeUrl({ client_id: 'unknown' }), { headers: { [HEADER]: address } })
  async function statuses(times: number, send: () => Promise<Response>): Promise<number[]> {
    const found: number[] = []
    for (let sent = 0; sent < times; sent++) found.push((await send()).status)
    return found
  }

  it('an address registers 60 clients in a minute by default, and then gets 429 until the minute is over', async () => {
    const facade = await start(undefined)
    expect(await statuses(60, () => register(facade, '192.0.2.1'))).to.deep.equal(Array(60).fill(201))
    const response = await register(facade, '192.0.2.1')
    const { error } = (await response.json()) as { error: string }
    expect([response.status, error]).to.deep.equal([429, 'too_many_requests'])
    expect(Number(response.headers.get('retry-after'))).to.be.within(1, 60)
    expect(response.headers.get('access-control-allow-origin')).to.equal('*')
    expect((await register(facade, '192.0.2.2')).status).to.equal(201)
    aheadMs = 60_000
    expect((await register(facade, '192.0.2.1')).status).to.equal(201)
  })

  it('requests that resume no sign-in count as started ones, and sign-ins that go on do not', async () => {
    const facade = await start(3)
    const resume = (): Promise<Response> =>
      fetch(`${facade.issuer}/authorize/unknown`, { headers: { [HEADER]: '192.0.2.1' } })
    expect(await statuses(2, resume)).to.deep.equal([400, 400])
    expect((await authorize(facade, '192.0.2.1')).status).to.equal(400)
    const refused = await resume()
    expect([refused.status, await refused.text()]).to.deep.include(429)
    expect(Number(refused.headers.get('retry-after'))).to.be.within(1, 60)
    expect(refused.headers.get('content-type')).to.contain('text/html')
    expect((await authorize(facade, '192.0.2.1')).status).to.equal(429)
    const { client_id: id } = (await (await register(facade, '192.0.2.2')).json()) as { client_id: string }
    for (let count = 0; count < 3; count++)
      expect((await facade.signIn(facade.authorizeUrl({ client_id: id }))).has('code')).to.equal(true)
  })

  it('the page of connected applications starts no more sign-ins than /authorize, whatever cookies arrive', async () => {
    const facade = await startFacade(
      { clientAddress, clients: { maxRegistrationsPerMinute: 3 } },
      { mountsAccount: true },
    )
    const visit = (): Promise<Response> =>
      fetch(`${facade.issuer}/account`, {
        headers: { [HEADER]: '192.0.2.1', cookie: `mcp-gatekit-account=${'x'.repeat(43)}` },
        redirect: 'manual',
      })
    expect(await statuses(3, visit)).to.deep.equal([303, 303, 303])
    const refused = await visit()
    expect(refused.status).to.equal(429)
    expect(Number(refused.headers.get('retry-after'))).to.be.within(1, 60)
    expect(await refused.text()).to.include('Too many sign-ins were started')
    expect((await authorize(facade, '192.0.2.1')).status).to.equal(429)
    expect((await authorize(facade, '192.0.2.2')).status).to.equal(400)
  })

  it('started sign-ins are counted apart from registrations, and get a page', async () => {
    const facade = await start(2)
    expect(await statuses(3, () => register(facade, '192.0.2.1'))).to.deep.equal([201, 201, 429])
    expect(await statuses(3, () => authorize(facade, '192.0.2.1'))).to.deep.equal([400, 400, 429])
    const response = await authorize(facade, '192.0.2.1')
    expect(Number(response.headers.get('retry-after'))).to.be.within(1, 60)
    expect(response.headers.get('content-type')).to.contain('text/html')
    expect(await response.text()).to.contain('Wait a minute. Then start again from your application.')
    expect((await authorize(facade, '192.0.2.2')).status).to.equal(400)
  })

  it('all addresses together register ten times as many clients, and refused requests are not counted', async () => {
    const facade = await start(2)
    expect(await statuses(30, () => register(facade, '192.0.2.1'))).to.have.members([
      201,
      201,
      ...Array(28).fill(429),
    ])
    for (let address = 2; address <= 10; address++)
      expect(await statuses(2, () => register(facade, `192.0.2.${address}`))).to.deep.equal([201, 201])
    expect((await register(facade, '192.0.2.11')).status).to.equal(429)
    expect((await authorize(facade, '192.0.2.11')).status).to.equal(400)
    aheadMs = 60_000
    expect((await register(facade, '192.0.2.11')).status).to.equal(201)
  })

  for (const [title, one, another, isShared] of [
    ['two addresses of one /64', '2001:db8::1', '2001:db8::ffff:2', true],
    ['two addresses of neighboring /64', '2001:db8::1', '2001:db8:0:1::1', false],
    ['an IPv4 address and its mapped form', '192.0.2.1', '::ffff:192.0.2.1', true],
    ['two values that are not addresses', 'a', 'b', true],
  ] as const)
    it(`${title} are counted ${isShared ? 'together' : 'apart'}`, async () => {
      const facade = await start(1)
      expect((await register(facade, one)).status).to.equal(201)
      expect((await register(facade, another)).status).to.equal(isShared ? 429 : 201)
    })

  it('a function clientAddress that throws does not lift the limit', async () => {
    const facade = await start(1, {
      clientAddress() {
        throw new Error('no address')
      },
    })
    expect(await statuses(2, () => register(facade, 'x'))).to.deep.equal([201, 429])
  })

  it('without clientAddress, the address of the socket counts, and X-Forwarded-For does not', async () => {
    const facade = await start(1, { clientAddress: undefined })
    const send = (forwarded: string) =>
      fetch(facade.authorizeUrl({ client_id: 'unknown' }), { headers: { 'x-forwarded-for': forwarded } })
    expect([(await send('192.0.2.1')).status, (await send('192.0.2.2')).status]).to.deep.equal([400, 429])
  })

  it('a sign-in that has begun, its callback, tokens, and preflight requests are not counted', async () => {
    const facade = await start(1)
    const client = await facade.register()
    const browser = new Browser()
    const page = await browser.open(facade.authorizeUrl(client).href, toClient)
    expect(page.status).to.equal(200)
    const end = await browser.submit(page, 'allow', toClient)
    const code = new URL(end.url).searchParams.get('code')
    const { body } = await facade.token(codeGrant(client, code))
    const refresh = { grant_type: 'refresh_token', client_id: client.client_id }
    expect((await facade.token({ ...refresh, refresh_token: body.refresh_token })).status).to.equal(200)
    const preflight = () => fetch(`${facade.issuer}/register`, { method: 'OPTIONS' })
    expect(await statuses(3, preflight)).to.deep.equal([204, 204, 204])
    expect((await fetch(facade.authorizeUrl(client), { redirect: 'manual' })).status).to.equal(303)
  })

  it('other spellings of the path are not served, so that they do not escape the limit', async () => {
    const facade = await start(1)
    await authorize(facade, '192.0.2.1')
    const { search } = facade.authorizeUrl(await facade.register())
    for (const path of ['/authorize/', '/AUTHORIZE', '/%61uthorize', '//authorize', '/authorize;x']) {
      const response = await fetch(facade.issuer + path + search, { headers: { [HEADER]: '192.0.2.1' } })
      expect([404, 400], path).to.include(response.status)
    }
  })

  it('a limit that is reached is one event for each address and minute', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().addTransport(recorder).build()
    const facade = await start(1, { telemetry })
    for (let sent = 0; sent < 5; sent++) {
      await register(facade, '192.0.2.1')
      await authorize(facade, '192.0.2.1')
    }
    for (let address = 2; address <= 13; address++) await register(facade, `192.0.2.${address}`)
    aheadMs = 60_000
    for (let sent = 0; sent < 3; sent++) await register(facade, '192.0.2.1')
    await telemetry.shutdown()
    const reached = recorder.events().filter(({ name }) => name === 'kit.authorization.limit.reached')
    expect(reached.map(({ level, attributes }) => [level, attributes?.reason])).to.deep.equal([
      ['warn', 'registrations'],
      ['warn', 'sign_ins'],
      ['warn', 'all_registrations'],
      ['warn', 'registrations'],
    ])
  })

  it('the gate of the facade finds the address by the same function', () => {
    const given = {
      url: 'http://127.0.0.1:3000',
      resource: 'http://127.0.0.1:3000/mcp',
      upstream: google({ clientId: 'a', clientSecret: 'b' }),
      scopes: { 'mcp:read': 'Read' },
      allow: 'everyone',
    } as const
    expect(authorizationFacade({ ...given, clientAddress }).oauth.clientAddress).to.equal(clientAddress)
    expect(authorizationFacade(given).oauth).not.to.have.property('clientAddress')
  })
})
