import { expect } from 'chai'
import { cognito, entra, github, google, oidc, type SignInProvider } from '../../src/authorization/index.ts'
import { settingsOf } from '../../src/authorization/providers.ts'

const client = { clientId: 'mcp-server', clientSecret: 'not-in-any-output' }
const tenantId = 'AAAAAAAA-2222-3333-4444-555555555555'

const PROVIDERS: readonly (readonly [name: string, provider: SignInProvider, issuer: string])[] = [
  ['oidc', oidc({ ...client, issuer: 'https://login.example.com' }), 'https://login.example.com'],
  [
    'entra',
    entra({ ...client, tenantId }),
    'https://login.microsoftonline.com/aaaaaaaa-2222-3333-4444-555555555555/v2.0',
  ],
  ['google', google(client), 'https://accounts.google.com'],
  ['github', github(client), 'https://github.com'],
  [
    'cognito',
    cognito({ ...client, userPoolId: 'eu-central-1_aBcDeFgHi' }),
    'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_aBcDeFgHi',
  ],
]

describe('providers', () => {
  for (const [name, provider, issuer] of PROVIDERS)
    it(`${name}() has the issuer of the provider and does not show the secret`, () => {
      expect(provider).to.deep.equal({ name })
      expect(settingsOf(provider)?.issuer).to.equal(issuer)
      expect(JSON.stringify(provider)).not.to.contain(client.clientSecret)
    })

  it('github() uses the API of github.com, and that of a GitHub Enterprise Server below its address', () => {
    const apiOf = (baseUrl?: string) => settingsOf(github({ ...client, baseUrl }))?.endpoints?.api
    expect(apiOf()).to.equal('https://api.github.com')
    expect(apiOf('https://git.example.com')).to.equal('https://git.example.com/api/v3')
  })

  it('an object that no function of this package returned is not a provider', () => {
    expect(settingsOf({ name: 'google' })).to.equal(undefined)
  })
})
