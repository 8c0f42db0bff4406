import { createHash, createHmac, generateKeyPairSync, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { CALLBACK, startFacade, type TestFacade, type TokenReply } from '../support/authorization/facade.ts'
import {
  type AssertionHeader,
  type IdentityProvider,
  startIdentityProvider,
} from '../support/authorization/identity-provider.ts'

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const SECRET = randomBytes(24).toString('base64url')
const redirectUris = [CALLBACK]
const DESK = { clientId: 'desk', clientSecret: SECRET, redirectUris }
const OTHER = { clientId: 'other', clientSecret: SECRET, redirectUris }
const PUBLIC = { clientId: 'public', redirectUris }

const basicOf = (id: string, secret: string = SECRET): Record<string, string> => ({
  authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
})
const base64url = (value: string | Buffer): string => Buffer.from(value).toString('base64url')
const now = (): number => Math.floor(Date.now() / 1000)

describe('attacks with identity assertions', () => {
  let company: IdentityProvider
  let evil: IdentityProvider
  let facade: TestFacade

  before(async () => {
    company = await startIdentityProvider()
    evil = await startIdentityProvider()
    facade = await startFacade(
      {
        clients: { static: [DESK, OTHER, PUBLIC] },
        identityAssertions: { issuers: [{ issuer: company.issuer }] },
      },
      {},
      { keepOpen: true },
    )
  })
  after(async () => {
    await facade.end()
    await company.close()
    await evil.close()
  })

  const claimsFor = (claims: object): JWTPayload => ({
    aud: facade.issuer,
    client_id: 'desk',
    resource: facade.resource,
    scope: 'mcp:read',
    ...claims,
  })
  const assertionFor = (
    claims: object = {},
    header: AssertionHeader = {},
    provider: IdentityProvider = company,
  ): Promise<string> => provider.assertion(claimsFor(claims), header)
  const exchange = (
    assertion: string,
    headers: Record<string, string> = basicOf('desk'),
    parameters: Record<string, string> = {},
  ): Promise<TokenReply> => facade.token({ grant_type: JWT_BEARER, assertion, ...parameters }, headers)
  const refused = async (
    assertion: string | Promise<string>,
    error: string = 'invalid_grant',
    ...rest: [headers?: Record<string, string>, parameters?: Record<string, string>]
  ): Promise<TokenReply> => {
    const reply = await exchange(await assertion, ...rest)
    expect([reply.status, reply.body.error], JSON.stringify(reply.body)).to.deep.equal([
      error === 'invalid_client' ? 401 : 400,
      error,
    ])
    expect(reply.body).not.to.have.property('access_token')
    return reply
  }
  /** Returns an unsigned JWT with these parts. */
  const unsigned = (header: object, claims: object): string =>
    `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`
  const fullClaims = (changes: object = {}): object =>
    claimsFor({ iss: company.issuer, sub: 'ada', jti: 'x', iat: now(), exp: now() + 300, ...changes })

  it('identity assertions: signatures: an assertion without a signature (alg none): invalid_grant', async () => {
    for (const alg of ['none', 'None', 'NONE'])
      await refused(`${unsigned({ alg, typ: 'oauth-id-jag+jwt' }, fullClaims())}.`)
  })

  it('identity assertions: signatures: an assertion with an HMAC of the public key (key confusion): invalid_grant', async () => {
    const text = unsigned({ alg: 'HS256', typ: 'oauth-id-jag+jwt', kid: 'one' }, fullClaims())
    for (const key of [JSON.stringify(company.jwk), String(company.jwk.x), SECRET])
      await refused(`${text}.${createHmac('sha256', key).update(text).digest('base64url')}`)
  })

  it('identity assertions: signatures: an assertion of another key with the kid of the provider: invalid_grant', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    await refused(assertionFor({}, { key: privateKey }))
  })

  it('identity assertions: signatures: an assertion whose header contains or names the key of the attacker (jwk, jku, x5u): invalid_grant, and nothing is fetched', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const jwk = publicKey.export({ format: 'jwk' })
    for (const header of [{ jwk }, { jku: `${evil.issuer}/jwks` }, { x5u: `${evil.issuer}/jwks` }])
      await refused(assertionFor({}, { key: privateKey, ...header } as AssertionHeader))
    expect(evil.keyFetches).to.equal(0)
  })

  it('identity assertions: signatures: an assertion of an unknown issuer (SSRF): invalid_grant, and nothing is fetched', async () => {
    await refused(assertionFor({}, {}, evil))
    for (const iss of ['http://169.254.169.254/', `${company.issuer}/`, company.issuer.toUpperCase(), ''])
      await refused(assertionFor({ iss }))
    await refused(assertionFor({ iss: undefined }))
    await refused(assertionFor({ iss: [company.issuer] }))
    expect(evil.keyFetches).to.equal(0)
  })

  it('identity assertions: signatures: a client compares the errors for accepted and for unknown issuers: they are equal', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const known = await refused(assertionFor({}, { key: privateKey }))
    const unknown = await refused(assertionFor({}, {}, evil))
    expect(known.body).to.deep.equal(unknown.body)
  })

  it('identity assertions: signatures: ten assertions with unknown kids: invalid_grant, and the keys are fetched at most twice', async () => {
    for (let i = 0; i < 10; i++) await refused(assertionFor({}, { kid: `k${i}` }))
    expect(company.keyFetches).to.be.at.most(2)
  })

  for (const typ of [undefined, 'JWT', 'at+jwt', 'oauth-id-jag', 'jwt;oauth-id-jag+jwt'])
    it(`identity assertions: signatures: an assertion of the type ${typ}: invalid_grant`, async () =>
      void (await refused(assertionFor({}, { typ } as AssertionHeader))))

  it('identity assertions: signatures: an ID token, and an access token of this server, instead of an assertion: invalid_grant', async () => {
    await refused(company.idToken('ada'))
    const { body } = await exchange(await assertionFor())
    await refused(body.access_token)
  })

  for (const [claim, what, value, error = 'invalid_grant'] of [
    ['aud', 'another server', () => 'https://other.example.com'],
    ['aud', 'the token endpoint', () => `${facade.issuer}/token`],
    ['aud', 'the resource', () => facade.resource],
    ['aud', 'this server and another one', () => [facade.issuer, 'https://other.example.com']],
    ['aud', 'an empty array', () => []],
    ['aud', 'missing', () => undefined],
    ['client_id', 'another client', () => 'other'],
    ['client_id', 'an array', () => ['desk']],
    ['client_id', 'missing', () => undefined],
    ['sub', 'missing', () => undefined],
    ['sub', 'empty', () => ''],
    ['sub', 'a number', () => 1],
    ['sub', '501 characters', () => 's'.repeat(501)],
    ['jti', 'missing', () => undefined],
    ['jti', 'an object', () => ({})],
    ['exp', 'missing', () => undefined],
    ['exp', 'in the past', () => now() - 61],
    ['exp', 'a string', () => String(now() + 60)],
    ['exp', 'more than an hour after iat', () => now() + 3_700],
    ['iat', 'missing', () => undefined],
    ['iat', 'in the future', () => now() + 120],
    ['nbf', 'in the future', () => now() + 120],
    ['tenant', 'a tenant of an issuer without tenants', () => 'acme'],
    ['authorization_details', 'set', () => [{ type: 'payment' }]],
    ['cnf', 'a key without a proof', () => ({ jkt: 'x'.repeat(43) })],
    ['cnf', 'a certificate', () => ({ 'x5t#S256': 'x'.repeat(43) })],
    ['resource', 'missing', () => undefined, 'invalid_target'],
    ['resource', 'another server', () => 'https://other.example.com/mcp', 'invalid_target'],
    ['resource', 'the origin of this server', () => facade.origin, 'invalid_target'],
    ['resource', 'an object', () => ({}), 'invalid_target'],
    ['resource', '21 resources', () => Array.from({ length: 21 }, () => facade.resource), 'invalid_target'],
    ['scope', 'unknown scopes', () => 'admin root', 'invalid_scope'],
    ['scope', 'empty', () => '', 'invalid_scope'],
    ['scope', 'an array', () => ['mcp:read'], 'invalid_scope'],
  ] as const)
    it(`identity assertions: claims: the claim ${claim} is ${what}: ${error}`, async () =>
      void (await refused(assertionFor({ [claim]: value() }), error)))

  it('identity assertions: claims: the request asks for another resource, and for scopes that the assertion does not have: invalid_target and invalid_scope', async () => {
    const resource = 'https://other.example.com/mcp'
    await refused(assertionFor(), 'invalid_target', undefined, { resource })
    await refused(assertionFor(), 'invalid_scope', undefined, { scope: 'mcp:write' })
  })

  it('identity assertions: clients: a public client sends an assertion that names it: invalid_request', async () => {
    const assertion = assertionFor({ client_id: 'public' })
    await refused(assertion, 'invalid_request', {}, { client_id: 'public' })
    const registered = await facade.register({ grant_types: ['authorization_code', JWT_BEARER] })
    expect(registered.grant_types).to.deep.equal(['authorization_code'])
    const { client_id } = registered
    await refused(assertionFor({ client_id }), 'invalid_request', {}, { client_id })
  })

  it('identity assertions: clients: an assertion is sent without the secret of the client, and with a wrong one: 401 invalid_client', async () => {
    await refused(assertionFor(), 'invalid_client', {}, { client_id: 'desk' })
    await refused(assertionFor(), 'invalid_client', basicOf('desk', 'wrong'))
  })

  it('identity assertions: clients: another client sends a stolen assertion with its own secret: invalid_grant, and the assertion stays usable', async () => {
    const assertion = await assertionFor()
    await refused(assertion, 'invalid_grant', basicOf('other'))
    expect((await exchange(assertion)).status).to.equal(200)
  })

  it('identity assertions: clients: a client that registered itself with a secret sends an assertion for another client: invalid_grant', async () => {
    const { client_id: id, client_secret: secret } = await facade.register({
      grant_types: ['authorization_code', JWT_BEARER],
      token_endpoint_auth_method: 'client_secret_basic',
    })
    await refused(assertionFor(), 'invalid_grant', basicOf(id, String(secret)))
  })

  it('identity assertions: clients: an assertion is used twice: the second is invalid_grant', async () => {
    const assertion = await assertionFor()
    expect((await exchange(assertion)).status).to.equal(200)
    await refused(assertion)
  })

  it('identity assertions: clients: an assertion is used by eight requests at the same time: one gets a token', async () => {
    const assertion = await assertionFor()
    const replies = await Promise.all(Array.from({ length: 8 }, () => exchange(assertion)))
    expect(replies.filter(({ status }) => status === 200)).to.have.length(1)
  })

  it('identity assertions: clients: the assertion is sent to the MCP server as a token: 401', async () => {
    const authorization = `Bearer ${await assertionFor({ aud: facade.resource })}`
    const response = await fetch(facade.resource, { method: 'POST', headers: { authorization } })
    expect(response.status).to.equal(401)
  })

  it('identity assertions: clients: a DPoP proof of another key, a proof that is used twice, and one for another URL: invalid_grant and invalid_dpop_proof', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256')
    const jwk = await exportJWK(publicKey)
    const proofFor = async (htu: string): Promise<string> =>
      await new SignJWT({ htm: 'POST', htu, jti: crypto.randomUUID() })
        .setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk })
        .setIssuedAt()
        .sign(privateKey)
    const dpop = await proofFor(`${facade.issuer}/token`)
    const cnf = { jkt: createHash('sha256').update('another').digest('base64url') }
    await refused(assertionFor({ cnf }), 'invalid_grant', { ...basicOf('desk'), dpop })
    const bound = assertionFor({ cnf: { jkt: await calculateJwkThumbprint(jwk) } })
    expect((await exchange(await bound, { ...basicOf('desk'), dpop })).body.token_type).to.equal('DPoP')
    await refused(assertionFor(), 'invalid_dpop_proof', { ...basicOf('desk'), dpop })
    const elsewhere = await proofFor(`${facade.origin}/mcp`)
    await refused(assertionFor(), 'invalid_dpop_proof', { ...basicOf('desk'), dpop: elsewhere })
    await refused(assertionFor(), 'invalid_dpop_proof', { ...basicOf('desk'), dpop: 'x' })
  })

  for (const [what, assertion] of [
    ['empty', ''],
    ['not a JWT', 'x'],
    ['two dots', '..'],
    ['four parts', 'a.b.c.d'],
    ['16 385 characters', 'x'.repeat(16_385)],
    ['10 000 dots', '.'.repeat(10_000)],
    ['a header that is not an object', `${base64url('[]')}.${base64url('{}')}.x`],
    ['a payload of nested arrays', `${base64url('{"alg":"ES256"}')}.${base64url('['.repeat(8_000))}.x`],
    ['a payload that is not UTF-8', `${base64url('{"alg":"ES256"}')}.${base64url(Buffer.from([0xff]))}.x`],
  ] as const)
    it(`identity assertions: malformed input: an assertion that is ${what}: invalid_grant or invalid_request`, async () => {
      const { status, body } = await exchange(assertion)
      expect([status, /^invalid_(?:grant|request)$/.test(body.error)], JSON.stringify(body)).to.deep.equal([
        400,
        true,
      ])
    })

  it('identity assertions: malformed input: claims whose sub has invalid UTF-8, so that decoders make two users equal: invalid_grant', async () => {
    const text = JSON.stringify(fullClaims({ sub: 'ada?', jti: crypto.randomUUID() }))
    expect((await exchange(await company.signed(Buffer.from(text)))).status).to.equal(200)
    const bytes = Buffer.from(text.replace('ada?', 'ada!'))
    bytes[bytes.indexOf('!')] = 0xff
    await refused(company.signed(bytes))
  })

  it('identity assertions: malformed input: a request without an assertion, with two, and with one of 1 MiB: 400 or 413', async () => {
    const body = new URLSearchParams({ grant_type: JWT_BEARER })
    const send = async (form: URLSearchParams): Promise<number> =>
      (await fetch(`${facade.issuer}/token`, { method: 'POST', headers: basicOf('desk'), body: form })).status
    expect(await send(body)).to.equal(400)
    body.append('assertion', await assertionFor())
    body.append('assertion', await assertionFor())
    expect(await send(body)).to.equal(400)
    const large = new URLSearchParams({ grant_type: JWT_BEARER, assertion: 'x'.repeat(1_048_576) })
    expect(await send(large).catch(() => 413)).to.be.within(400, 413)
  })
})
