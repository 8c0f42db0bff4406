import { expect } from 'chai'
import { isTooLong, longValueIn, refusedValue } from '../../../src/mcp/wire/client-values.ts'

const LIMIT = 'must have at most 1024 characters'
const [FITS, LONG] = ['x'.repeat(1_024), 'x'.repeat(1_025)]
const VERSION = 'io.modelcontextprotocol/protocolVersion'

/** Returns the status and the body of a refusal. */
function refusalOf(body: unknown, headers: Readonly<Record<string, string>> = {}, messages = [body]) {
  const response = refusedValue({ header: (name) => headers[name] }, { body, messages } as never)
  return response && { status: response.status, ...JSON.parse(String(response.body)) }
}

describe('longValueIn()', () => {
  it('a string of 1,024 characters is not too long, and neither is another value', () => {
    expect([FITS, LONG, '', 5, undefined].map(isTooLong)).to.deep.equal([false, true, false, false, false])
  })

  for (const [name, messageOf, code] of [
    ['id', (value) => ({ id: value, method: 'm' }), -32_600],
    ['method', (value) => ({ id: 1, method: value }), -32_600],
    ['name', (value) => ({ id: 1, method: 'm', params: { name: value } }), -32_602],
    ['taskId', (value) => ({ id: 1, method: 'm', params: { taskId: value } }), -32_602],
    ['protocolVersion', (value) => ({ id: 1, method: 'm', params: { protocolVersion: value } }), -32_602],
    ['ref.name', (value) => ({ id: 1, method: 'm', params: { ref: { name: value } } }), -32_602],
    ['argument.name', (value) => ({ id: 1, method: 'm', params: { argument: { name: value } } }), -32_602],
    [
      '_meta.progressToken',
      (value) => ({ id: 1, method: 'm', params: { _meta: { progressToken: value } } }),
      -32_602,
    ],
    [
      `_meta["${VERSION}"]`,
      (value) => ({ id: 1, method: 'm', params: { _meta: { [VERSION]: value } } }),
      -32_602,
    ],
  ] as [string, (value: string) => object, number][])
    it(`a ${name} of 1,025 characters is an error, and one of 1,024 is not`, () => {
      expect(longValueIn(messageOf(FITS))).to.equal(undefined)
      const words = code === -32_600 ? 'Invalid Request' : 'Invalid params'
      expect(longValueIn(messageOf(LONG))).to.deep.equal({
        code,
        message: `${words}: ${name} ${LIMIT}`,
        id: name === 'id' ? null : 1,
      })
    })

  for (const [what, message] of [
    ['arguments', { id: 1, params: { arguments: { a: LONG }, uri: LONG } }],
    ['the name of a ref that is a string', { id: 1, params: { ref: LONG, argument: LONG, _meta: LONG } }],
    ['parameters that are a list', { id: 1, params: [LONG] }],
    ['a message that is not an object', LONG],
    ['no message', undefined],
  ] as const)
    it(`${what} may have more than 1,024 characters`, () => {
      expect(longValueIn(message)).to.equal(undefined)
    })

  it('the error about a value repeats an id that is a string or a number, and no other', () => {
    const ids = ['a', 0, null, {}, undefined].map((id) => longValueIn({ id, method: LONG })?.id)
    expect(ids).to.deep.equal(['a', 0, null, null, null])
  })
})

describe('refusedValue()', () => {
  const error = (code: number, message: string, id: unknown = null) => ({
    status: 400,
    jsonrpc: '2.0',
    id,
    error: { code, message },
  })
  const encoded = (name: string) => `=?base64?${Buffer.from(name).toString('base64')}?=`

  for (const [what, body, headers, refusal] of [
    ['no long value', { id: 1, method: 'm' }, {}, undefined],
    ['a long method', { id: 1, method: LONG }, {}, error(-32_600, `Invalid Request: method ${LIMIT}`, 1)],
    [
      'a long name',
      { id: 'a', method: 'm', params: { name: LONG } },
      {},
      error(-32_602, `Invalid params: name ${LIMIT}`, 'a'),
    ],
    ...['mcp-protocol-version', 'mcp-method', 'mcp-name'].flatMap(
      (name) =>
        [
          [`the header ${name} at its limit`, {}, { [name]: FITS }, undefined],
          [
            `a long header ${name}`,
            {},
            { [name]: LONG },
            error(-32_600, `Invalid Request: the header ${name} ${LIMIT}`),
          ],
        ] as const,
    ),
    ['a long Mcp-Name that is a URI', { params: { uri: 'a:b' } }, { 'mcp-name': LONG }, undefined],
    [
      'a long Mcp-Name next to a URI that is not a string',
      { params: { uri: 5 } },
      { 'mcp-name': LONG },
      error(-32_600, `Invalid Request: the header mcp-name ${LIMIT}`),
    ],
    ['an encoded Mcp-Name at its limit', {}, { 'mcp-name': encoded(FITS) }, undefined],
    [
      'a long encoded Mcp-Name',
      {},
      { 'mcp-name': encoded(LONG) },
      error(-32_600, `Invalid Request: the header mcp-name ${LIMIT}`),
    ],
    ['a long other header', {}, { other: LONG }, undefined],
  ] as const)
    it(`a request with ${what} is ${refusal === undefined ? 'served' : 'refused'}`, () => {
      expect(refusalOf(body, headers)).to.deep.equal(refusal)
    })

  it('the refusal of a batch has no id, and names the first long value', () => {
    const batch = [
      { id: 1, method: 'm' },
      { id: 2, method: LONG },
    ]
    expect(refusalOf(batch, {}, batch as never)).to.deep.equal(
      error(-32_600, `Invalid Request: method ${LIMIT}`),
    )
  })
})
