import { expect } from 'chai'
import { cognito, entra, github, google, oidc, type SignInProvider } from '../../src/authorization/index.ts'
import { settingsOf } from '../../src/authorization/providers.ts'
import { expectConfigError } from '../support/config-error.ts'

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

  for (const value of [undefined, null, 'google', 5, {}, { name: 'google' }, [google(client)], google])
    it(`a value that no function of this package returned is not a provider: ${typeof value} ${JSON.stringify(value)}`, () => {
      expect(settingsOf(value)).to.equal(undefined)
    })

  for (const baseUrl of [
    'https://git.example.com',
    'https://git.example.com/',
    'https://git.example.com:8443',
  ])
    it(`github() accepts the address ${baseUrl}`, () => {
      expect(settingsOf(github({ ...client, baseUrl }))?.issuer).to.equal(new URL(baseUrl).origin)
    })

  const guid = tenantId.toLowerCase()
  const wrong: readonly (readonly [option: string, build: () => SignInProvider, message: RegExp])[] = [
    ...['https://git.example.com/x', 'https://git.example.com/?x', 'https://git.example.com/x?y'].map(
      (baseUrl) =>
        ['baseUrl', () => github({ ...client, baseUrl }), /must not contain a path or a query/] as const,
    ),
    ...['common', 'example.com', '', `${guid}0`, `0${guid}`, guid.replaceAll('-', ''), 5, [guid]].map(
      (value) =>
        [
          'tenantId',
          () => entra({ ...client, tenantId: value as string }),
          /must be the GUID of a tenant/,
        ] as const,
    ),
    ...['eu-central-1', '_x', 'eu_', 'EU_x', 'eu_x_y', `${'e'.repeat(31)}_x`, 5, ['eu_x']].map(
      (value) =>
        [
          'userPoolId',
          () => cognito({ ...client, userPoolId: value as string }),
          /must be the id of a user pool/,
        ] as const,
    ),
    ...[oidc, entra, google, cognito].map(
      (make) =>
        [
          'scopes',
          () =>
            (make as typeof oidc)({
              ...client,
              ...{ oidc: { issuer: 'https://login.example.com' } }[make.name],
              ...{ entra: { tenantId }, cognito: { userPoolId: 'eu_x' } }[make.name],
              scopes: ['email'],
            } as never),
          /must contain 'openid'/,
        ] as const,
    ),
  ]
  for (const [index, [option, build, message]] of wrong.entries())
    it(`a provider with a wrong ${option} is rejected (${index})`, () => {
      expectConfigError(build, { code: 'MCP_CONFIG_INVALID_OPTION', option, message })
    })

  for (const [userPoolId, issuer] of [
    ['e_x', 'https://cognito-idp.e.amazonaws.com/e_x'],
    [
      `${'e'.repeat(30)}_${'x'.repeat(60)}`,
      `https://cognito-idp.${'e'.repeat(30)}.amazonaws.com/${'e'.repeat(30)}_${'x'.repeat(60)}`,
    ],
  ] as const)
    it(`cognito() accepts an id of ${userPoolId.length} characters`, () => {
      expect(settingsOf(cognito({ ...client, userPoolId }))?.issuer).to.equal(issuer)
    })
})
