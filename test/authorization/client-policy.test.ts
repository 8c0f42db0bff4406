import { expect } from 'chai'
import {
  type AllowClientInput,
  type AuthorizationFacadeOptions,
  memoryStore,
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

type Clients = NonNullable<AuthorizationFacadeOptions['clients']>
type Allow = NonNullable<Clients['allow']>

const STATIC = { clientId: 'desk', redirectUris: [CALLBACK], name: 'Desk' }

/** The answers of `clients.allow` that deny, and those after which nothing is known. */
const ANSWERS: Readonly<Record<string, { readonly allow: Allow; readonly isOutage: boolean }>> = {
  'returns false': { allow: () => false, isOutage: false },
  'resolves with false': { allow: async () => false, isOutage: false },
  'returns a string': { allow: () => 'yes' as unknown as boolean, isOutage: false },
  'resolves with an object': { allow: async () => ({}) as unknown as boolean, isOutage: false },
  throws: {
    allow: () => {
      throw new Error('s3cret')
    },
    isOutage: true,
  },
  rejects: { allow: async () => await Promise.reject(new Error('s3cret')), isOutage: true },
}

describe('clients of authorizationFacade', () => {
  async function start(
    clients: Clients = {},
    options: Partial<AuthorizationFacadeOptions> = {},
  ): Promise<TestFacade> {
    return await startFacade({ ...options, clients: { static: [STATIC], ...clients } })
  }
  const register = (facade: TestFacade): Promise<Response> =>
    fetch(`${facade.issuer}/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        client_name: 'Tool',
        redirect_uris: ['https://app.example.com/cb', CALLBACK],
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'none',
      }),
    })

  for (const [what, { allow, isOutage }] of Object.entries(ANSWERS)) {
    it(`a client cannot register if clients.allow ${what}`, async () => {
      const store = memoryStore()
      const { set } = store
      const stored: string[] = []
      store.set = async (key, ...rest) => {
        stored.push(key)
        await set(key, ...rest)
      }
      const response = await register(await start({ allow }, { store }))
      const body = (await response.json()) as { error: string }
      expect([response.status, body.error]).to.deep.equal(
        isOutage ? [503, 'temporarily_unavailable'] : [400, 'invalid_client_metadata'],
      )
      expect(response.headers.get('retry-after')).to.equal(isOutage ? '5' : null)
      expect(JSON.stringify(body)).not.to.contain('s3cret')
      expect(stored).to.deep.equal([])
    })

    it(`a sign-in ends on a page, also for a loopback client, if clients.allow ${what}`, async () => {
      let calls = 0
      const facade = await start({
        allow: (client) => {
          calls++
          return allow(client)
        },
      })
      const url = facade.authorizeUrl({ client_id: 'desk' }, { prompt: 'none' })
      const page = await new Browser().open(url.href, () => true)
      expect([page.status, page.headers.get('location')]).to.deep.equal([isOutage ? 503 : 403, null])
      expect(page.headers.get('content-type')).to.contain('text/html')
      expect(page.headers.get('retry-after')).to.equal(isOutage ? '5' : null)
      expect(page.body).not.to.contain('s3cret')
      expect(page.body).to.contain(
        isOutage ? 'Wait a few seconds.' : 'ask the operator of this server to allow this one',
      )
      expect(calls).to.equal(1)
    })

    it(`a code and a refresh token stay usable after a request for which clients.allow ${what}`, async () => {
      let decide: Allow = () => true
      const facade = await start({ allow: (client) => decide(client) })
      const client = { client_id: 'desk' }
      const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
      const expected = isOutage ? [503, 'temporarily_unavailable'] : [400, 'invalid_grant']
      const isDenied = async (grant: Record<string, string>): Promise<void> => {
        decide = allow
        const { status, body } = await facade.token(grant)
        expect([status, body.error]).to.deep.equal(expected)
        decide = () => true
      }
      await isDenied(codeGrant(client, code))
      const first = await facade.token(codeGrant(client, code))
      expect(first.status, JSON.stringify(first.body)).to.equal(200)
      const refresh = { grant_type: 'refresh_token', ...client, refresh_token: first.body.refresh_token }
      await isDenied(refresh)
      expect((await facade.token(refresh)).status).to.equal(200)
    })
  }

  it('clients.allow learns the id, the kind, the name, the redirect URIs, and the host, each time it is asked', async () => {
    const asked: AllowClientInput[] = []
    const facade = await start({
      allow(client) {
        asked.push({ ...client, redirectUris: [...client.redirectUris] })
        // A change has no effect.
        ;(client.redirectUris as string[]).length = 0
        return true
      },
    })
    const { client_id: id } = (await (await register(facade)).json()) as { client_id: string }
    const code = (await facade.signIn(facade.authorizeUrl({ client_id: id }))).get('code')
    const { body } = await facade.token(codeGrant({ client_id: id }, code))
    await facade.token({ grant_type: 'refresh_token', client_id: id, refresh_token: body.refresh_token })
    const redirectUris = ['https://app.example.com/cb', CALLBACK]
    const expected = { kind: 'registered', name: 'Tool', redirectUris, host: 'app.example.com' }
    expect(asked).to.deep.equal([
      { ...expected, clientId: undefined },
      { ...expected, clientId: id },
      { ...expected, clientId: id },
      { ...expected, clientId: id },
    ])
    asked.length = 0
    await facade.signIn(facade.authorizeUrl({ client_id: 'desk' }))
    expect(asked).to.deep.equal([
      { clientId: 'desk', kind: 'static', name: 'Desk', redirectUris: [CALLBACK], host: '127.0.0.1:53682' },
    ])
  })

  it('a client that is denied can still revoke its token', async () => {
    let isAllowed = true
    const facade = await start({ allow: () => isAllowed })
    const client = { client_id: 'desk' }
    const { body } = await facade.connect(client)
    isAllowed = false
    const fields = { ...client, token: String(body.refresh_token) }
    const revoked = await fetch(`${facade.issuer}/revoke`, {
      method: 'POST',
      body: new URLSearchParams(fields),
    })
    expect(revoked.status).to.equal(200)
    isAllowed = true
    const refresh = { grant_type: 'refresh_token', ...client, refresh_token: body.refresh_token }
    expect((await facade.token(refresh)).body.error).to.equal('invalid_grant')
  })

  it('a redirect URI that clients.redirectUris refuses from now on is refused at once, and works again later', async () => {
    let isBlocked = false
    const facade = await start({ redirectUris: () => !isBlocked })
    const { client, body } = await facade.connect()
    const refresh = { grant_type: 'refresh_token', client_id: client.client_id }
    isBlocked = true
    const page = await new Browser().open(facade.authorizeUrl(client).href, toClient)
    expect([page.status, page.headers.get('location')]).to.deep.equal([400, null])
    expect(page.body).to.contain('This server does not accept the application')
    const denied = await facade.token({ ...refresh, refresh_token: body.refresh_token })
    expect([denied.status, denied.body.error]).to.deep.equal([400, 'invalid_redirect_uri'])
    isBlocked = false
    expect((await facade.token({ ...refresh, refresh_token: body.refresh_token })).status).to.equal(200)
  })

  it('a denied client is an event at the registration, at the sign-in, and at the token endpoint', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().addTransport(recorder).build()
    const facade = await start({ allow: () => false }, { telemetry })
    await register(facade)
    await new Browser().open(facade.authorizeUrl({ client_id: 'desk' }).href, toClient)
    await facade.token(codeGrant({ client_id: 'desk' }, 'x'))
    await telemetry.shutdown()
    const desk = {
      client: 'desk',
      client_kind: 'static',
      redirect_host: '127.0.0.1:53682',
      reason: 'not_allowed',
    }
    expect(recorder.events().map(({ name, attributes }) => [name, attributes])).to.deep.equal([
      [
        'kit.authorization.client.refused',
        { client_kind: 'registered', redirect_host: 'app.example.com', reason: 'not_allowed' },
      ],
      ['kit.authorization.client.refused', desk],
      ['kit.authorization.client.refused', desk],
      [
        'kit.authorization.token.refused',
        { client: 'desk', grant_type: 'authorization_code', reason: 'invalid_grant' },
      ],
    ])
  })
})
