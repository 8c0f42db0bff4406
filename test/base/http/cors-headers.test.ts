import { expect } from 'chai'
import { corsRequestHeaders } from '../../../src/base/http/cors-headers.ts'

describe('corsRequestHeaders()', () => {
  const usual = corsRequestHeaders(undefined)

  it('corsRequestHeaders() adds each requested Mcp-Param header once, and nothing else', () => {
    const asked = 'mcp-param-a, Mcp-Param-B ,MCP-PARAM-B,,x-other,mcp-param-,mcp-param-c d,mcp-param-é'
    expect(corsRequestHeaders(asked).slice(usual.length)).to.deep.equal(['mcp-param-a', 'MCP-PARAM-B'])
    expect(corsRequestHeaders('authorization')).to.equal(usual)
  })

  it('corsRequestHeaders() adds at most 100 Mcp-Param headers', () => {
    const asked = Array.from({ length: 5_000 }, (_, index) => `mcp-param-${index}`).join(',')
    expect(corsRequestHeaders(asked)).to.have.length(usual.length + 100)
  })
})
