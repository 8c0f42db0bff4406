import { expect } from 'chai'
import { readBody } from '../../../src/base/http/body-reader.ts'
import { BodyBudget } from '../../../src/mcp/wire/body-budget.ts'

const MIB = 1024 * 1024

/** A request with a body of this text, which arrives at once. */
function requestOf(text: string, headers: Readonly<Record<string, string>> = {}) {
  const all: Readonly<Record<string, string>> = { 'content-type': 'application/json', ...headers }
  return {
    method: 'POST',
    header: (name: string) => all[name],
    readBody: (limits: never, memory: never) =>
      readBody(
        (sink) => {
          sink.chunk(Buffer.from(text))
          sink.end()
          return () => undefined
        },
        limits,
        memory,
      ),
  } as never
}

/** A request with a body of this many characters, whose messages take about twice as many bytes. */
const sized = (characters: number) => {
  const start = '{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"'
  return `${start}${'x'.repeat(characters - start.length - 3)}"}}`
}

describe('BodyBudget', () => {
  const limits = { maxBytes: 32 * MIB, timeoutMs: 5_000 }
  const kindOf = (parsed: object | undefined): string =>
    parsed === undefined
      ? 'busy'
      : 'response' in parsed
        ? `status ${(parsed as any).response.status}`
        : 'served'

  it('a body that is alone may take more than 64 MiB', async () => {
    const budget = new BodyBudget(limits)
    expect(kindOf(await budget.receive(requestOf(sized(32 * MIB)), () => 'ada'))).to.equal('served')
    const many = `[${'{},'.repeat(MIB)}{}]`
    const message = `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":${many}}}`
    expect(kindOf(await new BodyBudget(limits).receive(requestOf(message), () => 'ada'))).to.equal('served')
  })

  it('the owner of a small body is not asked for, and nothing is released', async () => {
    const owner = () => expect.fail('asked for the owner')
    const budget = new BodyBudget(limits)
    const small = await budget.receive(requestOf(sized(80_000)), owner)
    expect([kindOf(small), 'release' in (small as object)]).to.deep.equal(['served', false])
    const large = await budget.receive(requestOf(sized(90_000)), () => 'ada')
    expect([kindOf(large), 'release' in (large as object)]).to.deep.equal(['served', true])
  })

  it('a body that is not JSON is refused without being read', async () => {
    const budget = new BodyBudget(limits)
    for (const type of ['text/plain', ''])
      expect(kindOf(await budget.receive(requestOf('x', { 'content-type': type }), () => ''))).to.equal(
        'status 415',
      )
  })

  for (const [what, headers, kind] of [
    ['the announced length', { 'content-length': '100' }, 'served'],
    ['less than its length', { 'content-length': '99' }, 'status 413'],
    ['a length that is not a number', { 'content-length': 'x' }, 'status 413'],
    ['no length', {}, 'served'],
    ['the length of an encoded body', { 'content-length': '10', 'content-encoding': 'gzip' }, 'served'],
  ] as const)
    it(`a body without a valid token that announces ${what} is ${kind}`, async () => {
      const parsed = await new BodyBudget(limits).receiveUnverified(requestOf(sized(100), headers))
      expect(kindOf(parsed)).to.equal(kind)
    })
})
