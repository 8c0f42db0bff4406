import { expect } from 'chai'
import fc from 'fast-check'
import { checkJson, jsonSafe, plainCopy, responseText } from '../../../src/mcp/wire/json-safe.ts'

const jsonOf = (value: unknown) => JSON.stringify(value)

describe('plainCopy()', () => {
  const TABLE: readonly (readonly [what: string, value: unknown])[] = [
    ['primitive values', [1, 'x', true, null, undefined, Number.NaN]],
    ['members that JSON leaves out', { a: undefined, b: () => 1, c: Symbol('x'), d: 1 }],
    [
      'dates and other objects with toJSON',
      { date: new Date(0), own: { toJSON: (key: string) => `at ${key}` } },
    ],
    ['a toJSON that returns an object with a toJSON', { toJSON: () => ({ a: 1, toJSON: () => 2 }) }],
    ['a toJSON that returns its own object', Object.assign([1], { toJSON: () => [2] })],
    ['boxed values', [new String('x'), new Number(1), new Boolean(false)]],
    ['maps, sets, and class instances', [new Map([[1, 2]]), new Set([1]), new URL('http://x/')]],
    ['arrays with holes', Object.assign(new Array(3), { 1: 'x' })],
    ['an array with a method of its own', Object.assign([1], { map: () => 'not this' })],
    ['a key __proto__', JSON.parse('{"__proto__":{"a":1},"b":2}')],
    ['a proxy', new Proxy({ a: [1] }, {})],
  ]
  for (const [what, value] of TABLE) {
    it(`plainCopy() has the JSON form of ${what}`, () =>
      expect(jsonOf(plainCopy(value))).to.equal(jsonOf(value)))
  }

  it('plainCopy() has the JSON form of any JSON value, and shares no object with it', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        checkJson(value)
        const copy = plainCopy(value)
        // Compared as JSON, which writes -0 as 0.
        expect(JSON.stringify(copy)).to.equal(JSON.stringify(value))
        if (typeof value === 'object' && value !== null) expect(copy).not.to.equal(value)
      }),
    )
  })
})

describe('a response to a client', () => {
  const INPUT_ERROR = 'Input validation error: '
  const failed = (message: string) => ({ jsonrpc: '2.0', id: 1, error: { code: -32_602, message } }) as const
  const invalid = (text: string, more: object = {}) =>
    ({
      jsonrpc: '2.0',
      id: 1,
      result: { isError: true, content: [{ type: 'text', text }], ...more },
    }) as never
  const issues = (count: number) =>
    JSON.stringify(
      Array.from({ length: count }, (_, index) => ({ message: `m${index}`.padEnd(90), path: ['a'] })),
    )

  for (const [what, message] of [
    ['a message of 2,000 characters', failed('x'.repeat(2_000))],
    ['a message of 4,000 characters that is not a list of issues', failed('x'.repeat(4_000))],
    ['an invalid input of 4,000 characters', invalid(INPUT_ERROR.padEnd(4_000, 'x'))],
    ['another long error of a tool', invalid('x'.repeat(5_000))],
    [
      'two long texts',
      invalid(INPUT_ERROR.padEnd(5_000), { content: [{ text: INPUT_ERROR.padEnd(5_000) }, { text: 'b' }] }),
    ],
    ['a long result', invalid(INPUT_ERROR.padEnd(5_000), { isError: false })],
    ['a request', { jsonrpc: '2.0', id: 1, method: 'ping' }],
    ['a list of issues that is short', failed(issues(10))],
    ['a message that is not a string', failed(5 as never)],
  ] as const)
    it(`jsonSafe() returns a response with ${what} unchanged`, () => {
      expect(jsonSafe(message as never)).to.deep.equal(message)
      expect(responseText(message as never)).to.equal(JSON.stringify(message))
    })

  it('a long error message is cut, and says how much is missing', () => {
    const kept = 'x'.repeat(3_899)
    expect((jsonSafe(failed('x'.repeat(4_001))) as any).error).to.deep.equal({
      code: -32_602,
      message: `${kept}… and 102 more characters`,
    })
    expect((jsonSafe(failed('x'.repeat(50_000))) as any).error.message).to.match(
      /… and 46,101 more characters$/,
    )
    const { result } = jsonSafe(invalid(INPUT_ERROR.padEnd(4_001, 'x'))) as any
    expect(result.content[0].text).to.equal(`${INPUT_ERROR.padEnd(3_899, 'x')}… and 102 more characters`)
    expect(result.isError).to.equal(true)
  })

  it('an error message that lists issues names the first of them', () => {
    const { message } = (jsonSafe(failed(issues(100))) as any).error
    expect(message).to.match(/^a: m0 +; a: m1 /)
    expect(message).to.match(/; and 80 more$/)
    for (const text of ['[{"message":"m"}]', '[{"path":[]}]', '[null]', '[1', '{"message":"m","path":[]}'])
      expect((jsonSafe(failed(text.padEnd(4_500))) as any).error.message).to.match(/more characters$/)
  })

  const circular: Record<string, unknown> = {}
  circular.self = circular
  for (const [what, response, id] of [
    ['a bigint', { jsonrpc: '2.0', id: 'a', result: { a: 1n } }, 'a'],
    ['a cycle', { jsonrpc: '2.0', id: 0, result: circular }, 0],
    ['no result', { jsonrpc: '2.0', id: 5 }, 5],
  ] as const)
    it(`a response with ${what} is replaced with an internal error`, () => {
      const error = { code: -32_603, message: 'The response cannot be serialized as JSON' }
      expect(jsonSafe(response as never)).to.deep.equal({ jsonrpc: '2.0', id, error })
      if (what !== 'no result')
        expect(JSON.parse(responseText(response as never))).to.deep.equal({ jsonrpc: '2.0', id, error })
    })

  it('an internal error has no id if the response has none', () => {
    expect(jsonSafe({ jsonrpc: '2.0', error: { code: 1, message: 'x', data: 1n } } as never)).to.deep.equal({
      jsonrpc: '2.0',
      error: { code: -32_603, message: 'The response cannot be serialized as JSON' },
    })
  })
})
