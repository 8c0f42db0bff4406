import { expect } from 'chai'
import { isLoopbackHostname, optionChecksOf } from '../../src/options/option-checks.ts'
import { configError } from '../support/mcp/config-error.ts'

const checks = optionChecksOf('oauth')
const MAX = 2_147_483_647

describe('optionChecksOf()', () => {
  for (const [what, check, fitting, others] of [
    [
      'a path',
      checks.checkPath,
      ['/', '/a', '/a/b', '/.well-known/x'],
      ['', 'a', '//a', '/a/', '/a?b', '/a#b', '/a b', '/a/../b', 5],
    ],
    [
      'seconds from 0',
      (option, value) => checks.checkSeconds(option, value, 0),
      [0, 0.5, MAX],
      [-1, MAX + 1, '5', Number.NaN],
    ],
    [
      'seconds above 0',
      (option, value) => checks.seconds('more than 0')(option, value, {}),
      [0.5, MAX],
      [0, -1, MAX + 1],
    ],
    ['text for a header', checks.checkHeaderText, ['a', '~ !'], ['', 'é', 'a\n', 5]],
    [
      'an issuer over http',
      (option, value) => checks.issuer(option, value, { allowInsecureHttp: true }),
      ['http://a.example'],
      ['http://a.example?b', 'ftp://a.example'],
    ],
    [
      'an issuer over https',
      (option, value) => checks.httpsIssuer(option, value, {}),
      ['https://a.example/b', 'http://127.0.0.1:1'],
      ['http://a.example', 'https://a.example?b'],
    ],
    [
      'a URL over https',
      (option, value) => checks.httpsUrl(option, value, {}),
      ['https://a.example/?b', 'http://localhost'],
      [
        'http://a.example',
        'https:a.example',
        'https://u@a.example',
        'https://:p@a.example',
        'https://a.example#b',
        ' https://a.example',
      ],
    ],
    ['a URL', (option, value) => checks.url(option, value, {}), ['https://a.example'], ['http://a.example']],
  ] as [string, (option: string, value: unknown) => unknown, unknown[], unknown[]][])
    it(`the check of ${what} returns the values that fit, and rejects others`, () => {
      for (const value of fitting) expect(check('x', value)).to.equal(value)
      for (const value of others) {
        const error = configError(() => check('x', value))
        expect([error.code, error.option], String(value)).to.deep.equal(['MCP_CONFIG_INVALID_OPTION', 'x'])
      }
    })

  it('scopes are a frozen list without duplicates', () => {
    const scopes = checks.checkRequiredScopes('scopes', ['b', 'a', 'b'])
    expect(scopes).to.deep.equal(['b', 'a'])
    expect(Object.isFrozen(scopes)).to.equal(true)
    for (const value of ['a', ['a b'], [5], ['a"'], ['']])
      expect(configError(() => checks.checkScopes('scopes', value)).option).to.equal('scopes')
    expect(checks.checkScopes('scopes', ['offline_access'])).to.deep.equal(['offline_access'])
    expect(configError(() => checks.checkRequiredScopes('scopes', ['offline_access'])).message).to.contain(
      "must not contain 'offline_access'",
    )
  })

  it('an error about http names the option that allows it, if there is one', () => {
    const insecure = 'http://a.example'
    expect(configError(() => checks.url('issuer', insecure, {})).message).to.contain(
      'Set allowInsecureHttp: true',
    )
    expect(configError(() => checks.httpsUrl('issuer', insecure, {})).message).to.contain('Use https.')
    expect(checks.url('issuer', insecure, { allowInsecureHttp: true })).to.equal(insecure)
  })

  for (const [heading, option, anchor] of [
    ['oauth', 'issuer', 'oauth-issuer'],
    ['oauth', 'rateLimit.max', 'oauth-ratelimit'],
    ['oauth', 'oauth', 'oauth'],
    ['jwtVerifier', 'issuer', 'jwtverifier'],
  ] as const)
    it(`an error about ${option} of ${heading} refers to the heading ${anchor}`, () => {
      const error = configError(() => optionChecksOf(heading).checkText(option, 5))
      expect(error.docs).to.equal(`docs/reference/errors.md#${anchor}`)
      expect(error.message).to.contain(`"npx mcp-gatekit explain ${anchor}"`)
    })

  it('an error about a URL shows an example for the option', () => {
    expect(configError(() => checks.httpsUrl('jwksUri', 'x', {})).message).to.contain(
      'https://auth.example.com/jwks',
    )
    expect(configError(() => checks.httpsUrl('other', 'x', {})).message).to.contain(
      "'https://auth.example.com'",
    )
    expect(configError(() => checks.checkPath('resourceMetadataPath', 'x')).message).to.contain(
      '/.well-known/',
    )
    expect(configError(() => checks.checkPath('other', 'x')).message).to.contain("'/api'")
  })

  for (const [hostname, isLoopback] of [
    ['localhost', true],
    ['LOCALHOST', true],
    ['a.localhost', true],
    ['[::1]', true],
    ['127.0.0.1', true],
    ['127.1.2.3', true],
    ['128.0.0.1', false],
    ['127.0.0.1.example', false],
    ['notlocalhost', false],
    ['localhost.example', false],
    ['[::2]', false],
  ] as const)
    it(`${hostname} is ${isLoopback ? '' : 'not '}the name of a loopback host`, () => {
      expect(isLoopbackHostname(hostname)).to.equal(isLoopback)
    })
})
