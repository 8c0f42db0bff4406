import { expect } from 'chai'
import { type AuthorizationStore, memoryStore } from '../../src/authorization/index.ts'
import { KitTelemetry } from '../../src/index.ts'
import { createTelemetryRecorder } from '../../src/testing/index.ts'
import { CALLBACK, codeGrant, SCOPES, startFacade } from '../support/authorization/facade.ts'

describe('token requests to authorizationFacade', () => {
  it('a request without scope asks the user for all scopes', async () => {
    const facade = await startFacade()
    const { body } = await facade.connect(undefined, { scope: undefined })
    expect(body.scope).to.equal(Object.keys(SCOPES).join(' '))
  })

  for (const [title, uris, changes, expected] of [
    ['without redirect_uri, of a client with one redirect URI', [CALLBACK], { redirect_uri: '' }, [200]],
    [
      'without redirect_uri, of a client with several redirect URIs',
      [CALLBACK, 'https://app.example.com/cb'],
      { redirect_uri: '' },
      [400, 'invalid_request'],
    ],
    [
      'with another redirect_uri',
      [CALLBACK],
      { redirect_uri: 'https://evil.example.com/cb' },
      [400, 'invalid_grant'],
    ],
    ['without code_verifier', [CALLBACK], { code_verifier: '' }, [400, 'invalid_grant']],
  ] as const)
    it(`a code ${title}, gets ${expected.join(' ')}`, async () => {
      const facade = await startFacade()
      const client = await facade.register({ redirect_uris: uris })
      const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
      const fields = Object.entries({ ...codeGrant(client, code), ...changes }).filter(([, value]) => value)
      const { status, body } = await facade.token(Object.fromEntries(fields))
      expect([status, ...(status === 200 ? [] : [body.error])]).to.deep.equal(expected)
    })

  for (const order of ['one after the other', 'at the same time'] as const)
    it(`a code that is used twice, ${order}, is an event with the client`, async () => {
      const recorder = createTelemetryRecorder()
      const telemetry = KitTelemetry.create().addTransport(recorder).build()
      const store: AuthorizationStore = memoryStore()
      const { get } = store
      // As if both requests had looked before one of them has used it.
      if (order === 'at the same time')
        store.get = async (key) => (key.startsWith('UsedAuthorizationCode:') ? undefined : await get(key))
      const facade = await startFacade({ store, telemetry })
      const client = await facade.register()
      const grant = codeGrant(client, (await facade.signIn(facade.authorizeUrl(client))).get('code'))
      expect((await facade.token(grant)).status).to.equal(200)
      expect((await facade.token(grant)).body.error).to.equal('invalid_grant')
      expect((await facade.token({ ...grant, code: 'unknown' })).body.error).to.equal('invalid_grant')
      await telemetry.shutdown()
      const reused = recorder.events().filter(({ name }) => name === 'kit.authorization.code.reused')
      expect(reused.map(({ level, attributes }) => [level, attributes])).to.deep.equal([
        ['warn', { client: client.client_id, grant_type: 'authorization_code' }],
      ])
    })
})
