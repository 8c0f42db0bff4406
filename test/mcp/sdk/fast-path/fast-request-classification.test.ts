import { classifyInboundRequest } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import fc from 'fast-check'
import { classifyRequest, type MessageHeaders } from '../../../../src/mcp/sdk/fast-path/fast-request.ts'
import { runs } from '../../../support/runs.ts'

const MODERN = '2026-07-28'

/** As the SDK has it, asked anew each time. */
function bySdk(headers: MessageHeaders, body: unknown) {
  const outcome = classifyInboundRequest({ httpMethod: 'POST', ...headers, body })
  if (outcome.kind === 'modern' && outcome.messageKind === 'request') return outcome.classification
  return outcome.kind === 'legacy' && outcome.reason === 'no-claim' ? 'legacy' : undefined
}

const odd = fc.oneof(fc.constantFrom(undefined, null, '', 0, 1.5, 'x', true, [], {}), fc.jsonValue())

const implementation = fc.record(
  {
    name: fc.oneof({ weight: 30, arbitrary: fc.constantFrom('a', 'b') }, odd),
    version: fc.constant('1'),
    more: odd,
  },
  { requiredKeys: ['name', 'version'], noNullPrototype: true },
)

const members = {
  'io.modelcontextprotocol/protocolVersion': fc.oneof(
    { weight: 30, arbitrary: fc.constant<unknown>(MODERN) },
    fc.constantFrom<unknown>('2025-11-25', '2099-01-01', '', 7),
  ),
  'io.modelcontextprotocol/clientInfo': fc.oneof({ weight: 30, arbitrary: implementation }, odd),
  'io.modelcontextprotocol/clientCapabilities': fc.oneof(
    { weight: 30, arbitrary: fc.constantFrom<unknown>({}, { elicitation: {} }) },
    odd,
  ),
}

const envelope = fc.oneof(
  { weight: 4, arbitrary: fc.record(members, { noNullPrototype: true }) },
  fc.record(
    {
      ...members,
      'io.modelcontextprotocol/logLevel': fc.constantFrom<unknown>('info', 'loud', 1),
      progressToken: fc.constantFrom<unknown>('p', 1, 1.5, null),
      traceparent: fc.constantFrom<unknown>('00-1-1-00', 1),
    },
    { requiredKeys: [], noNullPrototype: true },
  ),
)

const params = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record(
      { _meta: fc.oneof({ weight: 30, arbitrary: envelope }, odd), name: odd },
      { requiredKeys: [], noNullPrototype: true },
    ),
  },
  odd,
)

const body = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record(
      {
        jsonrpc: fc.oneof({ weight: 30, arbitrary: fc.constant<unknown>('2.0') }, odd),
        id: fc.oneof({ weight: 30, arbitrary: fc.constantFrom<unknown>(1, 'a') }, fc.constant(2 ** 60), odd),
        method: fc.oneof({ weight: 30, arbitrary: fc.constantFrom<unknown>('tools/call', 'x') }, odd),
        params,
        result: fc.constant<unknown>({}),
      },
      { requiredKeys: ['jsonrpc', 'id', 'method', 'params'], noNullPrototype: true },
    ),
  },
  odd,
)

describe('the classification of a request', () => {
  it('the classification of a request is that of the SDK, also from the cache', () => {
    let remembered = 0
    fc.assert(
      fc.property(body, (given) => {
        // The revision in the header is the caller's to compare; without one the SDK goes by the body alone.
        const expected = bySdk({}, given)
        let asked = 0
        for (let time = 0; time < 2; time++) {
          const classified = classifyRequest(() => {
            asked++
            return {}
          }, given)
          expect(classified).to.deep.equal(expected)
        }
        if (asked < 2 && expected !== 'legacy' && expected !== undefined) remembered++
      }),
      { numRuns: runs(2_000) },
    )
    expect(remembered).to.be.greaterThan(runs(50))
  })

  it('the SDK classifies each envelope once', () => {
    let asked = 0
    const headers = (): MessageHeaders => {
      asked++
      return { protocolVersionHeader: MODERN, mcpMethodHeader: 'tools/list' }
    }
    const request = (id: number, name: string) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/list',
      params: {
        _meta: {
          'io.modelcontextprotocol/protocolVersion': MODERN,
          'io.modelcontextprotocol/clientInfo': { name, version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    })
    for (let id = 0; id < 5; id++) {
      expect(classifyRequest(headers, request(id, 'once'))).to.include({ revision: MODERN })
    }
    expect(asked).to.equal(1)
    classifyRequest(headers, request(6, 'another'))
    expect(asked).to.equal(2)
    const long = 'n'.repeat(2_000)
    for (let id = 0; id < 2; id++) classifyRequest(headers, request(id, long))
    expect(asked).to.equal(4)
  })
})
