import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import type { JWK } from 'jose'
import { type AuthorizationKeys, authorizationFacade, google } from '../../src/authorization/index.ts'
import { codeGrant, startFacade } from '../support/authorization/facade.ts'
import { expectConfigError } from '../support/config-error.ts'

const JWK_OF_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  format: 'jwk',
}) as JWK

const keysOf = (...signing: JWK[]): AuthorizationKeys => ({
  signing,
  encryption: [randomBytes(32).toString('base64url')],
})

describe('keys of authorizationFacade', () => {
  for (const [what, member] of [
    ['for encryption', { use: 'enc' }],
    ['that only decrypts', { key_ops: ['decrypt'] }],
    ['whose key_ops is not an array', { key_ops: 'sign' }],
  ] as const)
    it(`a signing key ${what} is refused, and the error says which members are wrong`, () => {
      const build = () =>
        authorizationFacade({
          url: 'http://127.0.0.1:3000',
          resource: 'http://127.0.0.1:3000/mcp',
          upstream: google({ clientId: 'a', clientSecret: 'b' }),
          scopes: { 'mcp:read': 'Read' },
          allow: 'everyone',
          keys: keysOf({ ...JWK_OF_KEY, ...(member as object) }),
        })
      expectConfigError(build, {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'keys.signing',
        message: /must contain keys that sign, with 'sig' as use or without use and key_ops/,
      })
      expect(build).to.throw().with.property('message').that.does.not.contain(JWK_OF_KEY.d)
    })

  it('a single signing key needs no kid: its tokens are accepted, and can be refreshed', async () => {
    const facade = await startFacade({ keys: keysOf({ ...JWK_OF_KEY, key_ops: ['sign'] }) })
    const client = await facade.register()
    const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
    const { body } = await facade.token(codeGrant(client, code))
    const called = await fetch(facade.resource, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${body.access_token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    expect(called.status).to.equal(200)
    await facade.close()
  })
})
