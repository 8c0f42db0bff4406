import { expect } from 'chai'
import { google } from '../../src/authorization/index.ts'
import { resolveFacadeOptions } from '../../src/authorization/options.ts'

describe('options of authorizationFacade', () => {
  it('allow and grantScopes that never settle reject after their time', async () => {
    const forever = (): Promise<never> => new Promise(() => undefined)
    const { allow, grantScopes } = resolveFacadeOptions(
      {
        url: 'http://127.0.0.1:3000',
        resource: 'http://127.0.0.1:3000/mcp',
        upstream: google({ clientId: 'a', clientSecret: 'b' }),
        scopes: { 'mcp:read': 'Read' },
        allow: forever,
        grantScopes: forever,
      },
      10,
    )
    const claims = { sub: 'ada' }
    for (const [name, decision] of [
      ['allow', allow({ claims, provider: 'google' })],
      ['grantScopes', grantScopes({ claims, provider: 'google', requested: [] })],
    ] as const) {
      const error = await Promise.resolve(decision).then(
        () => undefined,
        (reason: Error) => reason,
      )
      expect(error?.message).to.equal(`${name} did not settle within 10 ms`)
    }
  })

  it('url must be https, except on loopback', () => {
    const resolve = (url: string) =>
      resolveFacadeOptions({
        url,
        resource: `${url}/mcp`,
        upstream: google({ clientId: 'a', clientSecret: 'b' }),
        scopes: { 'mcp:read': 'Read' },
        allow: 'everyone',
      })
    expect(() => resolve('http://auth.example.com')).to.throw(/^url must be an https URL/)
    for (const url of ['https://auth.example.com', 'http://127.0.0.1:3000', 'http://localhost:3000'])
      expect(() => resolve(url), url).not.to.throw()
  })
})
