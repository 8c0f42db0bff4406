import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
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
import { selfSigned } from '../support/certificates.ts'

const GOOD = 'good.example.com'
const EVIL = 'evil.example.com'
const HOUR_MS = 3_600_000

/** Responses that ask to try again, and connections without a response. */
const OUTAGES: Readonly<Record<string, (res: ServerResponse) => unknown>> = {
  'responds with 500': (res) => res.writeHead(500).end('{}'),
  'responds with 503': (res) => res.writeHead(503).end('{}'),
  'responds with 429': (res) => res.writeHead(429).end('{}'),
  'responds with 408': (res) => res.writeHead(408).end('{}'),
  'responds with 101': (res) =>
    res.socket?.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
  'closes the connection': (res) => res.socket?.destroy(),
  'closes the connection within the document': (res) => {
    res.writeHead(200, { 'content-length': '100' }).write('{')
    res.socket?.end()
  },
  'sends a document without an end': (res) => res.writeHead(200).write('{'),
  'does not respond': () => undefined,
}

describe('authorizationFacade and the documents of clients', () => {
  let server: Server
  let facade: TestFacade
  let respond: (req: IncomingMessage, res: ServerResponse) => unknown
  let fetched: string[]
  let aheadMs: number
  const recorder = createTelemetryRecorder()
  const telemetry = KitTelemetry.create().addTransport(recorder).build()
  const { key, cert } = selfSigned(GOOD, EVIL)
  const { now: dateNow } = Date
  const performanceNow = performance.now.bind(performance)

  before(async () => {
    server = createServer({ key, cert }, (req, res) => {
      fetched.push(`${req.headers.host?.split(':')[0]}${req.url}`)
      respond(req, res)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  after(async () => {
    server.close()
    server.closeAllConnections()
    await telemetry.shutdown()
  })
  beforeEach(async () => {
    aheadMs = 0
    Date.now = () => dateNow() + aheadMs
    performance.now = () => performanceNow() + aheadMs
    fetched = []
    respond = serve()
    recorder.clear()
    facade = await startFacade(
      { telemetry },
      {
        safeFetch: {
          lookup: (_host, _options, found) => found(null, [{ address: '127.0.0.1', family: 4 }]),
          isAllowed: (address) => address === '127.0.0.1',
          ca: cert,
          timeoutMs: 300,
        },
      },
    )
  })
  afterEach(async () => {
    Date.now = dateNow
    performance.now = performanceNow
    await facade.close()
    server.closeAllConnections()
  })

  const idOf = (host: string, path: string): string =>
    `https://${host}:${(server.address() as AddressInfo).port}${path}`
  /** Serves the document of a client at every path. */
  const serve =
    (changes: object = {}) =>
    ({ headers, url }: IncomingMessage, res: ServerResponse): unknown =>
      res.writeHead(200, { 'content-type': 'application/json' }).end(
        JSON.stringify({
          client_id: `https://${headers.host}${url}`,
          client_name: 'Document',
          redirect_uris: [CALLBACK],
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
          ...changes,
        }),
      )
  const client = { client_id: '' }
  const signIn = async (): Promise<Record<string, any>> => {
    client.client_id = idOf(GOOD, '/client')
    const { body } = await facade.connect(client)
    return body
  }
  const post = (path: string, fields: Record<string, string>): Promise<Response> =>
    fetch(facade.issuer + path, {
      method: 'POST',
      body: new URLSearchParams({ ...client, ...fields }),
    })
  const refresh = (token: string): Promise<Response> =>
    post('/token', { grant_type: 'refresh_token', refresh_token: token })

  for (const [outage, fail] of Object.entries(OUTAGES)) {
    it(`a client whose document was fetched refreshes while its host ${outage}`, async () => {
      const tokens = await signIn()
      respond = (_req, res) => fail(res)
      aheadMs = 23 * HOUR_MS
      const response = await refresh(tokens.refresh_token)
      expect([response.status, await response.json()]).to.have.nested.property('1.access_token')
      expect(fetched).to.have.length(2)
    })

    it(`a client whose document was never fetched gets 503 while its host ${outage}`, async () => {
      respond = (_req, res) => fail(res)
      client.client_id = idOf(GOOD, '/client')
      for (const [path, fields] of [
        ['/token', codeGrant(client, 'x')],
        ['/revoke', { token: 'x' }],
      ] as const) {
        const response = await post(path, fields)
        expect([response.status, response.headers.get('retry-after')], path).to.deep.equal([503, '5'])
        expect(response.headers.get('www-authenticate'), path).to.equal(null)
        expect(await response.json(), path).to.include({ error: 'temporarily_unavailable' })
      }
      const page = await new Browser().open(facade.authorizeUrl(client).href, toClient)
      expect([page.status, page.headers.get('retry-after')]).to.deep.equal([503, '5'])
      expect(page.headers.get('content-type')).to.contain('text/html')
      expect(page.body).to.contain('temporarily_unavailable').and.not.to.contain('invalid_client')
      expect(fetched).to.have.length(1)
      const refused = recorder.events().filter(({ name }) => name === 'kit.authorization.token.refused')
      expect(refused.map(({ attributes }) => attributes?.reason)).to.deep.equal(['temporarily_unavailable'])
    })
  }

  it('a client is 503 when its document could not be fetched for 24 hours, and works again with its host', async () => {
    const tokens = await signIn()
    respond = (_req, res) => res.writeHead(503).end()
    aheadMs = 24 * HOUR_MS + 1_000
    expect((await refresh(tokens.refresh_token)).status).to.equal(503)
    respond = serve()
    aheadMs += 5_000
    expect((await refresh(tokens.refresh_token)).status).to.equal(200)
  })

  it('the next fetch after an outage begins 5 s later, and the host decides how long the new document is used', async () => {
    const tokens = await signIn()
    respond = (_req, res) => res.writeHead(503).end()
    aheadMs = 31_000
    expect((await refresh(tokens.refresh_token)).status).to.equal(200)
    respond = serve({ redirect_uris: [] })
    // The library keeps a document for 30 s.
    aheadMs += 30_000
    const { error } = (await (await refresh(tokens.refresh_token)).json()) as { error: string }
    expect(error).to.equal('invalid_redirect_uri')
    expect(fetched).to.have.length(3)
  })

  for (const [what, decline] of Object.entries({
    'is removed (404)': (_req: IncomingMessage, res: ServerResponse) => res.writeHead(404).end('{}'),
    'is removed (410)': (_req: IncomingMessage, res: ServerResponse) => res.writeHead(410).end('{}'),
    'redirects (302)': (_req: IncomingMessage, res: ServerResponse) =>
      res.writeHead(302, { location: '/other' }).end(),
    'is not JSON': (_req: IncomingMessage, res: ServerResponse) => res.writeHead(200).end('<html>'),
    'is larger than 64 KiB': (_req: IncomingMessage, res: ServerResponse) =>
      res.writeHead(200).end(' '.repeat(70_000)),
    'is another client': serve({ client_id: 'https://other.example.com/client' }),
  })) {
    it(`a client whose document ${what} is refused, although its last document was good`, async () => {
      const tokens = await signIn()
      respond = decline
      aheadMs = 31_000
      const response = await refresh(tokens.refresh_token)
      const { error } = (await response.json()) as { error: string }
      expect([response.status, error]).to.be.deep.oneOf([
        [401, 'invalid_client'],
        [400, 'invalid_client_metadata'],
      ])
      expect(fetched).to.have.length(2)
    })
  }

  it('a key set that cannot be fetched is replaced by the last good one, or is 503', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256')
    const keys = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), alg: 'ES256' }] })
    respond = (_req, res) => res.writeHead(503).end()
    const { client_id: id } = await facade.register({
      token_endpoint_auth_method: 'private_key_jwt',
      jwks_uri: idOf(GOOD, '/keys'),
    })
    client.client_id = id
    const ask = async (signingKey = privateKey): Promise<unknown[]> => {
      const assertion = await new SignJWT({ iss: id, sub: id, aud: facade.issuer, jti: crypto.randomUUID() })
        .setProtectedHeader({ alg: 'ES256' })
        .setIssuedAt(Math.floor(Date.now() / 1000))
        .setExpirationTime(Math.floor(Date.now() / 1000) + 60)
        .sign(signingKey)
      const response = await post('/token', {
        ...codeGrant(client, 'x'),
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: assertion,
      })
      return [response.status, ((await response.json()) as { error: string }).error]
    }
    expect(await ask()).to.deep.equal([503, 'temporarily_unavailable'])
    respond = (_req, res) => res.writeHead(200).end(keys)
    aheadMs = 6_000
    // The client is authenticated, and its code does not exist.
    expect(await ask()).to.deep.equal([400, 'invalid_grant'])
    respond = (_req, res) => res.writeHead(503).end()
    aheadMs += 10 * HOUR_MS
    expect(await ask((await generateKeyPair('ES256')).privateKey)).to.deep.equal([401, 'invalid_client'])
    expect(await ask()).to.deep.equal([400, 'invalid_grant'])
    expect(fetched).to.have.length(3)
  })

  for (const [attack, hold] of Object.entries({
    'do not respond': () => undefined,
    'respond with 101': OUTAGES['responds with 101'] as (res: ServerResponse) => unknown,
  })) {
    it(`25 documents of a stranger that ${attack} take 4 places, and none after their time`, async () => {
      let held = 0
      let mostHeld = 0
      respond = (req, res) => {
        if (!req.headers.host?.startsWith(EVIL)) return serve()(req, res)
        mostHeld = Math.max(mostHeld, ++held)
        req.socket.once('close', () => held--)
        return hold(res)
      }
      const open = (host: string, path: string): Promise<{ status: number }> =>
        new Browser().open(facade.authorizeUrl({ client_id: idOf(host, path) }).href, toClient)
      const stranger = Array.from({ length: 25 }, (_, index) => open(EVIL, `/${index}`))
      expect((await open(GOOD, '/first')).status).to.equal(200)
      for (const { status } of await Promise.all(stranger)) expect(status).to.equal(503)
      expect(mostHeld).to.be.within(1, 4)
      respond = serve()
      expect((await open(EVIL, '/last')).status).to.equal(200)
    })
  }
})
