import { expect } from 'chai'
import { checkClientMetadata, grantTypesOf } from '../../src/authorization/clients/client-policy.ts'
import { createKeys } from '../../src/authorization/keys.ts'

class InvalidClientMetadata extends Error {}

const CALLBACK = 'https://client.example/callback'
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const uris = (count: number) => Array.from({ length: count }, (_, index) => `${CALLBACK}/${index}`)
/** A key set whose JSON, in an array with an omitted address, has this length. */
const keySet = (length: number) => ({ n: 'x'.repeat(length - '[{"n":""},null]'.length) })

/** Checks metadata with these options. Returns the error, and the metadata afterwards. */
function checked(metadata: Record<string, unknown>, options: object = {}) {
  const given: Record<string, unknown> = { client_id: 'c', redirect_uris: [CALLBACK], ...metadata }
  const all = {
    keys: createKeys(),
    identityAssertions: [],
    clients: { static: [], redirectUris: () => true },
    ...options,
  }
  try {
    checkClientMetadata({ InvalidClientMetadata } as never, all as never, given)
    return { error: undefined, metadata: given }
  } catch (error) {
    expect(error).to.be.instanceOf(InvalidClientMetadata)
    return { error: (error as Error).message, metadata: given }
  }
}

describe('checkClientMetadata()', () => {
  const NAME = 'client_name must be a string of at most 200 characters'
  const URIS = 'redirect_uris must be an array of 1 to 20 URIs'
  for (const [what, metadata, error] of [
    ['a name of 200 characters', { client_name: 'x'.repeat(200) }, undefined],
    ['a name of 201 characters', { client_name: 'x'.repeat(201) }, NAME],
    ['a number as name', { client_name: 5 }, NAME],
    ['an empty name', { client_name: '' }, undefined],
    ['keys of 16 384 characters', { jwks: keySet(16_384) }, undefined],
    ['keys of 16 385 characters', { jwks: keySet(16_385) }, 'jwks is too large'],
    ['keys that cannot be written', { jwks: { n: 1n } }, 'jwks is too large'],
    ['a long address of keys', { jwks_uri: `https://a.example/${'x'.repeat(17_000)}` }, 'jwks is too large'],
    ['20 redirect URIs', { redirect_uris: uris(20) }, undefined],
    ['21 redirect URIs', { redirect_uris: uris(21) }, URIS],
    ['no redirect URIs', { redirect_uris: [] }, URIS],
    ['a string as redirect URIs', { redirect_uris: CALLBACK }, URIS],
    [
      'a number as redirect URI',
      { redirect_uris: [5] },
      'redirect_uris must not contain a URI that is not a string',
    ],
    [
      'a bad redirect URI',
      { redirect_uris: [CALLBACK, 'ftp:/a'] },
      'redirect_uris must not contain a URI that has a forbidden scheme',
    ],
  ] as const)
    it(`a client with ${what} is ${error === undefined ? 'accepted' : 'refused'}`, () => {
      expect(checked(metadata).error).to.equal(error)
    })

  it('the metadata of a client is reduced to what is used, with the values of this server', () => {
    const { metadata } = checked({
      client_name: 'A',
      logo_uri: 'https://a.example/logo',
      scope: 'a',
      response_types: ['token'],
      response_modes: ['fragment'],
      application_type: 'web',
      id_token_signed_response_alg: 'RS256',
      grant_types: ['implicit', 'refresh_token', 'refresh_token', JWT_BEARER],
      token_endpoint_auth_method: 'client_secret_basic',
    })
    expect(metadata).to.deep.equal({
      client_id: 'c',
      client_name: 'A',
      redirect_uris: [CALLBACK],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      response_modes: ['query'],
      id_token_signed_response_alg: 'ES256',
      application_type: 'native',
      token_endpoint_auth_method: 'client_secret_basic',
    })
  })

  it('redirectUris is asked about each URI with the client, and not about static clients', () => {
    const asked: unknown[] = []
    const redirectUris = (...args: unknown[]) => asked.push(args) < 2
    const clients = { static: [{ clientId: 'static' }], redirectUris }
    const given = { client_name: 'A', redirect_uris: uris(3) }
    expect(checked(given, { clients }).error).to.equal(
      'redirect_uris contains a URI that this server does not accept',
    )
    const client = { clientId: 'c', name: 'A' }
    expect(asked).to.deep.equal(uris(2).map((uri) => [uri, client]))
    expect(checked({ ...given, client_id: 'static' }, { clients }).error).to.equal(undefined)
    expect(asked).to.have.length(2)
  })

  for (const [method, issuers, grants] of [
    ['client_secret_basic', 1, ['authorization_code', 'refresh_token', JWT_BEARER]],
    ['client_secret_basic', 0, ['authorization_code', 'refresh_token']],
    ['none', 1, ['authorization_code', 'refresh_token']],
    ['none', 0, ['authorization_code', 'refresh_token']],
  ] as const)
    it(`a client that authenticates with ${method} may use ${grants.length} grants of a server with ${issuers} identity providers`, () => {
      const identityAssertions = Array.from({ length: issuers }, () => ({}))
      expect(grantTypesOf({ identityAssertions } as never, method !== 'none')).to.deep.equal(grants)
      const all = ['authorization_code', 'refresh_token', JWT_BEARER]
      const { metadata } = checked(
        { grant_types: all, token_endpoint_auth_method: method },
        { identityAssertions },
      )
      expect(metadata.grant_types).to.deep.equal(grants)
      expect(checked({ grant_types: 'x' }).metadata.grant_types).to.deep.equal(['authorization_code'])
    })
})
