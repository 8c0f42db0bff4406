import { randomBytes } from 'node:crypto'
import {
  Client,
  CrossAppAccessProvider,
  discoverAndRequestJwtAuthGrant,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { expect } from 'chai'
import {
  calculateJwkThumbprint,
  decodeJwt,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  SignJWT,
} from 'jose'
import { type AllowInput, type AuthorizationFacadeOptions, oidc } from '../../src/authorization/index.ts'
import { KitTelemetry } from '../../src/index.ts'
import { createTelemetryRecorder } from '../../src/testing/index.ts'
import { CALLBACK, startFacade, type TestFacade, type TokenReply } from '../support/authorization/facade.ts'
import {
  type AssertionHeader,
  type IdentityProvider,
  type IdentityProviderOptions,
  startIdentityProvider,
} from '../support/authorization/identity-provider.ts'

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const DESK = {
  clientId: 'desk',
  clientSecret: randomBytes(24).toString('base64url'),
  redirectUris: [CALLBACK],
}
const BASIC = {
  authorization: `Basic ${Buffer.from(`${DESK.clientId}:${DESK.clientSecret}`).toString('base64')}`,
}

describe('identity assertions', () => {
  let company: IdentityProvider
  let facade: TestFacade
  async function start(
    options: Partial<AuthorizationFacadeOptions> = {},
    provider: IdentityProviderOptions = {},
    issuer: { readonly tenant?: string } = {},
  ): Promise<void> {
    company = await startIdentityProvider(provider)
    facade = await startFacade({
      clients: { static: [DESK] },
      identityAssertions: { issuers: [{ issuer: company.issuer, ...issuer }] },
      ...options,
    })
  }
  afterEach(async () => {
    await facade.close()
    await company.close()
  })
  const assertionFor = (claims: object = {}, header: AssertionHeader = {}): Promise<string> =>
    company.assertion(
      {
        aud: facade.issuer,
        client_id: 'desk',
        resource: facade.resource,
        scope: 'mcp:read mcp:write',
        ...claims,
      },
      header,
    )
  const exchange = (
    assertion: string,
    parameters: Record<string, string> = {},
    headers: Record<string, string> = BASIC,
  ): Promise<TokenReply> => facade.token({ grant_type: JWT_BEARER, assertion, ...parameters }, headers)

  it('the official SDK gets an assertion from the identity provider, exchanges it, and calls a tool', async () => {
    await start()
    const provider = new CrossAppAccessProvider({
      clientId: DESK.clientId,
      clientSecret: DESK.clientSecret,
      expectedIssuer: facade.issuer,
      assertion: async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
        const { jwtAuthGrant } = await discoverAndRequestJwtAuthGrant({
          idpUrl: company.issuer,
          audience: authorizationServerUrl,
          resource: resourceUrl,
          idToken: await company.idToken('grace'),
          clientId: company.clientId,
          clientSecret: company.clientSecret,
          ...(scope !== undefined && { scope }),
          fetchFn,
        })
        return jwtAuthGrant
      },
    })
    const client = new Client({ name: 'desk', version: '1.0.0' })
    await client.connect(
      new StreamableHTTPClientTransport(new URL(facade.resource), { authProvider: provider }),
    )
    const result: any = await client.callTool({ name: 'who', arguments: {} })
    expect(JSON.parse(result.content[0].text)).to.deep.equal({
      id: `${company.issuer}|grace`,
      client: 'desk',
    })
    expect(company.exchanges.map((form) => form.get('resource'))).to.deep.equal([facade.resource])
    await client.close()
  })

  it('an assertion is exchanged for an access token of the resource, without a refresh token', async () => {
    await start()
    const { status, body } = await exchange(await assertionFor({ scope: 'mcp:read other' }))
    expect(status, JSON.stringify(body)).to.equal(200)
    expect(Object.keys(body).sort()).to.deep.equal([
      'access_token',
      'expires_in',
      'resource',
      'scope',
      'token_type',
    ])
    expect(body).to.include({
      token_type: 'Bearer',
      expires_in: 600,
      scope: 'mcp:read',
      resource: facade.resource,
    })
    expect(decodeProtectedHeader(body.access_token)).to.include({ typ: 'at+jwt' })
    const { jti, exp, iat, ...claims } = decodeJwt(body.access_token)
    expect(claims).to.deep.equal({
      iss: facade.issuer,
      aud: facade.resource,
      sub: `${company.issuer}|ada`,
      client_id: 'desk',
      scope: 'mcp:read',
    })
    expect(Number(exp) - Number(iat)).to.equal(600)
  })

  it('a facade that accepts assertions lists the grant and its profile in its metadata', async () => {
    await start()
    const metadata: any = await (
      await fetch(`${facade.issuer}/.well-known/oauth-authorization-server`)
    ).json()
    expect(metadata.grant_types_supported).to.include(JWT_BEARER)
    expect(metadata.authorization_grant_profiles_supported).to.deep.equal([
      'urn:ietf:params:oauth:grant-profile:id-jag',
    ])
    expect(JSON.stringify(metadata)).not.to.contain(company.issuer)
  })

  it('a facade without the option does not support the grant', async () => {
    await start({ identityAssertions: undefined })
    const metadata: any = await (
      await fetch(`${facade.issuer}/.well-known/oauth-authorization-server`)
    ).json()
    expect(metadata).not.to.have.property('authorization_grant_profiles_supported')
    const { status, body } = await exchange(await assertionFor())
    expect([status, body.error]).to.deep.equal([400, 'unsupported_grant_type'])
  })

  const BOTH = 'mcp:read mcp:write'
  for (const { what, claims = {}, parameters = {}, header = {}, scope = BOTH } of [
    { what: 'without scope gets all scopes', claims: { scope: undefined } },
    {
      what: 'whose request names fewer scopes gets these',
      parameters: { scope: 'mcp:write' },
      scope: 'mcp:write',
    },
    {
      what: 'whose request names more scopes gets its own',
      claims: { scope: 'mcp:read' },
      parameters: { scope: BOTH },
      scope: 'mcp:read',
    },
    {
      what: 'with several resources is for the one of this server',
      claims: { resource: ['https://other.example.com', 'RESOURCE'] },
    },
    { what: 'whose request names its resource is accepted', parameters: { resource: 'RESOURCE' } },
    { what: 'whose aud is an array with the issuer is accepted', claims: { aud: ['ISSUER'] } },
    { what: 'whose aud is the issuer with a slash is accepted', claims: { aud: 'ISSUER/' } },
    { what: 'of a subject of 500 characters is accepted', claims: { sub: 's'.repeat(500) } },
    { what: 'with a jti of 500 characters is accepted', claims: { jti: 'j'.repeat(500) } },
    {
      what: 'that is valid for an hour is accepted',
      claims: { iat: Math.floor(Date.now() / 1000), exp: Math.floor(Date.now() / 1000) + 3_600 },
    },
    {
      what: 'whose clock is half a minute ahead is accepted',
      claims: { iat: Math.floor(Date.now() / 1000) + 30, exp: Math.floor(Date.now() / 1000) + 300 },
    },
    {
      what: 'with 20 resources is accepted',
      claims: {
        resource: ['RESOURCE', ...Array.from({ length: 19 }, (_, index) => `https://${index}.example`)],
      },
    },
    { what: 'with the prefix of its type is accepted', header: { typ: 'application/oauth-id-jag+jwt' } },
  ])
    it(`an assertion ${what}`, async () => {
      await start()
      const filled = (value: unknown): unknown =>
        Array.isArray(value)
          ? value.map(filled)
          : typeof value === 'string'
            ? value.replace('RESOURCE', facade.resource).replace('ISSUER', facade.issuer)
            : value
      const fill = (values: object): any =>
        Object.fromEntries(Object.entries(values).map(([name, value]) => [name, filled(value)]))
      const { status, body } = await exchange(await assertionFor(fill(claims), header), fill(parameters))
      expect([status, body.scope], JSON.stringify(body)).to.deep.equal([200, scope])
      expect(decodeJwt(body.access_token).aud).to.equal(facade.resource)
    })

  it('allow and grantScopes get the claims of the assertion and the issuer', async () => {
    const seen: AllowInput[] = []
    await start({
      allow: (input) => seen.push(input) > 0,
      grantScopes: ({ requested, claims }) => (claims.groups === undefined ? requested : ['mcp:read']),
    })
    const { body } = await exchange(await assertionFor({ groups: ['staff'] }))
    expect(body.scope).to.equal('mcp:read')
    expect(seen.map(({ provider, claims }) => [provider, claims.sub, claims.groups])).to.deep.equal([
      [company.issuer, 'ada', ['staff']],
    ])
  })

  it('a user whom allow denies gets no token, and the client gets the reason', async () => {
    await start({ allow: () => ({ deny: 'Ask "Grace"' }) })
    const { status, body } = await exchange(await assertionFor())
    expect([status, body]).to.deep.equal([400, { error: 'invalid_grant', error_description: 'Ask  Grace ' }])
  })

  it('a user for whom allow throws can send the same assertion again', async () => {
    let isDown = true
    await start({
      allow: () => {
        if (isDown) throw new Error('secret of the database')
        return true
      },
    })
    const assertion = await assertionFor()
    const { status, body } = await exchange(assertion)
    expect([status, body.error]).to.deep.equal([503, 'temporarily_unavailable'])
    expect(JSON.stringify(body)).not.to.contain('secret')
    isDown = false
    expect((await exchange(assertion)).status).to.equal(200)
  })

  it('an assertion of the provider of the sign-ins has the same user as a sign-in', async () => {
    await start()
    await facade.close()
    const issuer = 'https://login.example.com'
    facade = await startFacade(
      {
        clients: { static: [DESK] },
        identityAssertions: { issuers: [{ issuer, jwksUri: `${company.issuer}/jwks` }] },
      },
      { upstream: async () => oidc({ issuer, clientId: 'a', clientSecret: 'b' }) },
    )
    const { body } = await exchange(await assertionFor({ iss: issuer }))
    expect(decodeJwt(body.access_token).sub).to.equal('oidc|ada')
  })

  it('an issuer with several tenants is accepted for the configured tenant', async () => {
    await start({}, {}, { tenant: 'acme' })
    expect((await exchange(await assertionFor({ tenant: 'acme' }))).status).to.equal(200)
    expect((await exchange(await assertionFor({ tenant: 'evil' }))).body.error).to.equal('invalid_grant')
    expect((await exchange(await assertionFor())).body.error).to.equal('invalid_grant')
  })

  it('a tool that needs the token of the provider says that the user must sign in', async () => {
    await start()
    const { body } = await exchange(await assertionFor())
    const response = await facade.call(body.access_token, 'upstream')
    expect(await response.text()).to.contain('requires a user who has signed in at this server')
  })

  it('an identity provider that is down makes the exchange temporarily_unavailable', async () => {
    await start()
    const assertion = await assertionFor()
    await company.close()
    const { status, body } = await exchange(assertion)
    expect([status, body.error]).to.deep.equal([503, 'temporarily_unavailable'])
  })

  it('the keys of an identity provider are fetched once for several assertions', async () => {
    await start()
    for (const _ of [1, 2, 3]) expect((await exchange(await assertionFor())).status).to.equal(200)
    expect(company.keyFetches).to.equal(1)
  })

  it('a request with a DPoP proof gets a token that is bound to its key', async () => {
    await start()
    const { privateKey, publicKey } = await generateKeyPair('ES256')
    const jwk = await exportJWK(publicKey)
    const proof = (): Promise<string> =>
      new SignJWT({ htm: 'POST', htu: `${facade.issuer}/token`, jti: crypto.randomUUID() })
        .setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk })
        .setIssuedAt()
        .sign(privateKey)
    const jkt = await calculateJwkThumbprint(jwk)
    for (const cnf of [undefined, { jkt }]) {
      const reply = await exchange(await assertionFor({ cnf }), {}, { ...BASIC, dpop: await proof() })
      expect(reply.body.token_type, JSON.stringify(reply.body)).to.equal('DPoP')
      expect(decodeJwt(reply.body.access_token).cnf).to.deep.equal({ jkt })
    }
  })

  it('one event is emitted for each exchange, with the cause of a refusal and without secrets', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(recorder).build()
    await start({ telemetry })
    const assertion = await assertionFor()
    const { body } = await exchange(assertion)
    await exchange(assertion)
    await exchange(await assertionFor({ aud: 'https://other.example.com' }))
    await exchange(await assertionFor({ groups: 'x'.repeat(16_384) }))
    await telemetry.shutdown()
    const events = recorder.events().filter(({ name }) => name.startsWith('kit.authorization.'))
    expect(events.map(({ name, attributes }) => [name, attributes?.cause])).to.deep.equal([
      ['kit.authorization.token.issued', undefined],
      ['kit.authorization.token.refused', 'replayed'],
      ['kit.authorization.token.refused', 'audience'],
      ['kit.authorization.token.refused', 'not_a_jwt'],
    ])
    expect(events[0]?.attributes).to.deep.include({
      client: 'desk',
      client_kind: 'static',
      grant_type: JWT_BEARER,
      subject: `${company.issuer}|ada`,
      scopes: 'mcp:read mcp:write',
    })
    const text = JSON.stringify(events)
    for (const secret of [assertion, body.access_token, DESK.clientSecret])
      expect(text).not.to.contain(secret)
  })
})
