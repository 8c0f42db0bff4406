import { expect } from 'chai'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { Browser } from '../support/authorization/browser.ts'
import { codeGrant, startFacade, type TestFacade, toClient } from '../support/authorization/facade.ts'

describe('authorizationFacade', () => {
  let facade: TestFacade
  beforeEach(async () => {
    facade = await startFacade()
  })
  afterEach(() => facade.close())

  it('a registered client whose user signs in and consents gets a JWT for the resource', async () => {
    const client = await facade.register()
    const parameters = await facade.signIn(facade.authorizeUrl(client))
    expect(parameters.get('state')).to.equal('state-of-the-client')
    expect(parameters.get('iss')).to.equal(facade.issuer)
    const { status, body } = await facade.token(codeGrant(client, parameters.get('code')))
    expect(status, JSON.stringify(body)).to.equal(200)
    expect(decodeProtectedHeader(body.access_token)).to.include({ typ: 'at+jwt', alg: 'ES256' })
    const claims = decodeJwt(body.access_token)
    expect(claims).to.include({
      iss: facade.issuer,
      aud: facade.resource,
      sub: 'oidc|ada',
      client_id: client.client_id,
      scope: 'mcp:read',
    })
    expect(Number(claims.exp) - Number(claims.iat)).to.equal(600)
    expect(body.refresh_token).to.be.a('string')
  })
})
