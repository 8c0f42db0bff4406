import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { decodeJwt } from 'jose'
import type { AuthorizationFacadeOptions, GrantScopesInput } from '../../src/authorization/index.ts'
import { Browser } from '../support/authorization/browser.ts'
import { CALLBACK, codeGrant, startFacade, toClient } from '../support/authorization/facade.ts'
import { startIdentityProvider } from '../support/authorization/identity-provider.ts'

const ALL = 'mcp:read mcp:write'

describe('grantScopes of authorizationFacade', () => {
  /** Starts a facade whose client got tokens with all scopes. */
  async function signedIn(options: Partial<AuthorizationFacadeOptions>) {
    const facade = await startFacade(options)
    const client = await facade.register()
    const url = facade.authorizeUrl(client, { scope: ALL })
    const { body } = await facade.token(codeGrant(client, (await facade.signIn(url)).get('code')))
    const refresh = (token: string, scope?: string) =>
      facade.token({
        grant_type: 'refresh_token',
        client_id: client.client_id,
        refresh_token: token,
        ...(scope !== undefined && { scope }),
      })
    return { facade, first: body, refresh }
  }

  it('removes scopes that it no longer returns from the token and the response of a refresh', async () => {
    let granted = ['mcp:read', 'mcp:write']
    const { first, refresh } = await signedIn({ grantScopes: () => granted })
    expect(first.scope).to.equal(ALL)
    granted = ['mcp:read', 'other']
    const second = await refresh(first.refresh_token)
    expect([second.status, second.body.scope]).to.deep.equal([200, 'mcp:read'])
    expect(decodeJwt(second.body.access_token).scope).to.equal('mcp:read')
    granted = []
    const third = await refresh(second.body.refresh_token)
    expect([third.status, third.body.error]).to.deep.equal([400, 'invalid_grant'])
    // The refused request has used up nothing.
    granted = ['mcp:write']
    expect((await refresh(second.body.refresh_token)).status).to.equal(200)
  })

  it('does not end a refresh for the scope openid only', async () => {
    const facade = await startFacade({ grantScopes: ({ requested }) => requested })
    const client = await facade.register()
    const url = facade.authorizeUrl(client, { scope: `openid ${ALL}` })
    const { body } = await facade.token(codeGrant(client, (await facade.signIn(url)).get('code')))
    const { status } = await facade.token({
      grant_type: 'refresh_token',
      client_id: client.client_id,
      refresh_token: body.refresh_token,
      scope: 'openid',
    })
    expect(status).to.equal(200)
  })

  it('gets the provider, the claims, and the requested scopes, at the sign-in and at each refresh', async () => {
    const seen: GrantScopesInput[] = []
    const { first, refresh } = await signedIn({
      grantScopes: (input) => {
        seen.push(input)
        return input.requested
      },
    })
    const { body } = await refresh(first.refresh_token)
    await refresh(body.refresh_token, 'mcp:write')
    expect(seen.map(({ provider, claims, requested }) => [provider, claims.sub, requested])).to.deep.equal([
      ['oidc', 'ada', ['mcp:read', 'mcp:write']],
      ['oidc', 'ada', ['mcp:read', 'mcp:write']],
      ['oidc', 'ada', ['mcp:write']],
    ])
  })

  it('gets the issuer of an identity assertion as its provider', async () => {
    const company = await startIdentityProvider()
    const providers: string[] = []
    const secret = randomBytes(24).toString('base64url')
    const facade = await startFacade({
      clients: { static: [{ clientId: 'desk', clientSecret: secret, redirectUris: [CALLBACK] }] },
      identityAssertions: { issuers: [{ issuer: company.issuer }] },
      grantScopes: ({ provider, requested }) => {
        providers.push(provider)
        return requested
      },
    })
    const assertion = await company.assertion({
      aud: facade.issuer,
      client_id: 'desk',
      resource: facade.resource,
    })
    const { status } = await facade.token(
      { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion },
      { authorization: `Basic ${Buffer.from(`desk:${secret}`).toString('base64')}` },
    )
    expect([status, providers]).to.deep.equal([200, [company.issuer]])
    await company.close()
  })

  for (const [what, value] of [
    ['a string that contains a requested scope', 'mcp:read mcp:write'],
    ['a set', new Set(['mcp:read'])],
    ['an array with a number', ['mcp:read', 5]],
    ['nothing', undefined],
    ['null', null],
    ['an object', { includes: () => true }],
  ] as const)
    it(`grants nothing if it returns ${what}`, async () => {
      let isWrong = false
      const { facade, first, refresh } = await signedIn({
        grantScopes: ({ requested }) => (isWrong ? (value as never) : requested),
      })
      isWrong = true
      const reply = await refresh(first.refresh_token)
      expect([reply.status, reply.body.error]).to.deep.equal([503, 'temporarily_unavailable'])
      const client = await facade.register()
      const { url } = await new Browser().open(facade.authorizeUrl(client).href, toClient)
      expect(new URL(url).searchParams.get('error')).to.equal('temporarily_unavailable')
    })
})
