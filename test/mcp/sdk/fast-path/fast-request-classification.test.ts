import { classifyInboundRequest } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import fc from 'fast-check'
import { classifyRequest } from '../../../../src/mcp/sdk/fast-path.ts'
import { runs } from '../../../support/runs.ts'

const MODERN = '2026-07-28'

/** As the SDK has it, asked anew each time. */
function bySdk(body: unknown) {
  const outcome = classifyInboundRequest({ httpMethod: 'POST', body })
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
        const expected = bySdk(given)
        const [first, second] = [classifyRequest(given), classifyRequest(given)]
        expect([first, second]).to.deep.equal([expected, expected])
        if (typeof first === 'object' && first === second) remembered++
      }),
      { numRuns: runs(2_000) },
    )
    expect(remembered).to.be.greaterThan(runs(50))
  })

  it('the SDK classifies each envelope once, unless it is long', () => {
    const classified = (id: number, name: string) =>
      classifyRequest({
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
    expect(classified(1, 'once')).to.include({ revision: MODERN })
    expect(classified(2, 'once')).to.equal(classified(1, 'once'))
    expect(classified(3, 'another')).not.to.equal(classified(1, 'once'))
    const long = 'n'.repeat(2_000)
    expect(classified(4, long)).not.to.equal(classified(5, long))
  })
})
