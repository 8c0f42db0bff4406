import { ResourceTemplate } from '@modelcontextprotocol/server'
import { matchTokens, type TemplateToken } from '../../../src/mcp/router/uris/template-match.ts'
import { linearMatch } from '../../../src/mcp/sdk/uri-guard.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('URIs', () => {
  const TOKENS: Readonly<Record<string, readonly TemplateToken[]>> = {
    'simple variables': [{ kind: 'simple' }, '-', { kind: 'simple' }, '-', { kind: 'simple' }, '!'],
    'reserved variables': [{ kind: 'any' }, '-', { kind: 'any' }, '--', { kind: 'any' }, '!'],
    lists: [{ kind: 'list' }, '-', { kind: 'list' }, { kind: 'list' }, '!'],
    queries: ['-', { kind: 'query' }, '-', { kind: 'query' }, '!'],
  }
  for (const [what, tokens] of Object.entries(TOKENS)) {
    for (const end of ['', '!']) {
      it(`URIs are compared with templates of ${what} in linear time if they ${end === '' ? 'do not match' : 'match'}`, () => {
        for (const prefer of ['first', 'last'] as const)
          expectLinearGrowth((size) => matchTokens(tokens, '-'.repeat(size) + end, prefer), 20_000)
      })
    }
  }

  it('URIs are compared with templates of the SDK in linear time', () => {
    for (const text of ['log://{a}-{b}-{c}', 'log://{+a}-{+b}-{c}', 'log://{a*}-{b*}-{c*}/']) {
      const { uriTemplate } = new ResourceTemplate(text, { list: undefined })
      const match = linearMatch(uriTemplate as never)
      expectLinearGrowth((size) => match(`log://${'-'.repeat(size)}`), 20_000)
    }
  })
})
