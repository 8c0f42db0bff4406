import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpAuth, type OAuthOptions } from '../../../src/index.ts'
import { expectConfigError } from '../../support/config-error.ts'
import { ENTRY_POINTS } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, legacy, modern, rpc } from '../../support/mcp/wire.ts'

const OWN = [{ type: 'noauth' }]

const router = KitMcpRouter.create()
  .tool('read', { description: 'Reads' }, () => 'read')
  .tool(
    'write',
    { description: 'Writes', scopes: ['mcp:write', 'mcp:read'], _meta: { 'a/b': 1 } },
    () => 'written',
  )
  .tool('own', { description: 'Has its own', _meta: { securitySchemes: OWN } }, () => 'own')

const INVALID = 'MCP_CONFIG_INVALID_OPTION'

async function metaOfTools(changes: Partial<OAuthOptions>, face = ENTRY_POINTS[0]): Promise<unknown[][]> {
  const lists: unknown[][] = []
  const served = await face?.serve({ router, oauth: oauth(changes) })
  for (const request of [
    legacy(rpc('tools/list'), bearer('reader')),
    modern('tools/list', {}, bearer('reader')),
  ]) {
    const answer = await served?.send(request)
    lists.push(answer?.message.result.tools.map(({ _meta }: { _meta?: unknown }) => _meta))
  }
  await served?.close()
  return lists
}

describe('oauth.securitySchemes', () => {
  it('tools are listed without security schemes by default', async () => {
    for (const metas of await metaOfTools({}))
      expect(metas).to.deep.equal([undefined, { 'a/b': 1 }, { securitySchemes: OWN }])
  })

  for (const face of ENTRY_POINTS) {
    it(`${face.name} lists tools with the scopes of the endpoint and of the tool`, async () => {
      for (const metas of await metaOfTools({ securitySchemes: true }, face)) {
        expect(metas).to.deep.equal([
          { securitySchemes: [{ type: 'oauth2', scopes: ['mcp:read'] }] },
          { securitySchemes: [{ type: 'oauth2', scopes: ['mcp:read', 'mcp:write'] }], 'a/b': 1 },
          { securitySchemes: OWN },
        ])
      }
    })
  }

  it('a tool without any scope is listed with an empty list of scopes', async () => {
    const [metas] = await metaOfTools({ securitySchemes: true, scopes: [] })
    expect(metas?.[0]).to.deep.equal({ securitySchemes: [{ type: 'oauth2', scopes: [] }] })
  })

  it('an adapter of another gate lists the tools of the same router without security schemes', async () => {
    await metaOfTools({ securitySchemes: true })
    const [metas] = await metaOfTools({})
    expect(metas?.[0]).to.equal(undefined)
  })

  it('securitySchemes with a router function is a configuration error', () => {
    const options = { router: () => undefined as never, oauth: oauth({ securitySchemes: true }) }
    expectConfigError(() => createMcpAdapter(options), {
      code: INVALID,
      option: 'securitySchemes',
      message: /router function/,
    })
  })

  it('securitySchemes of OAuth options without an adapter is a configuration error of mcpAuth', () => {
    expectConfigError(() => mcpAuth(oauth({ securitySchemes: true })), {
      code: INVALID,
      option: 'securitySchemes',
      message: /createMcpAdapter or withOAuth/,
    })
  })
})
