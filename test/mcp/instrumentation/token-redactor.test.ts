import { expect } from 'chai'
import fc from 'fast-check'
import { TokenRedactor } from '../../../src/mcp/instrumentation/token-redactor.ts'

const OPAQUE = 'mF_9.B5f-4.1JqM+zz/yy=='
const JWT = 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c2VyLTEyMzQ1In0.c2lnbmF0dXJlLW9mLXRva2Vu'

describe('TokenRedactor', () => {
  for (const [title, authorization, text, expected] of [
    ['the token', OPAQUE, `a ${OPAQUE} b ${OPAQUE}`, 'a [token] b [token]'],
    ['the token, percent-encoded', OPAQUE, `?t=${encodeURIComponent(OPAQUE)}&`, '?t=[token]&'],
    ['a part of a JWT', JWT, `payload ${JWT.split('.')[1]}`, 'payload [token]'],
    ['a whole JWT at once', JWT, JWT, '[token]'],
    ['the token of a header', `Bearer ${JWT}`, `Bearer ${JWT}`, 'Bearer [token]'],
    ['each token of a malformed header', `Bearer ${OPAQUE},${JWT}`, `${OPAQUE} ${JWT}`, '[token] [token]'],
    ['tokens of several headers', [`Bearer ${OPAQUE}`, `DPoP ${JWT}`], `${JWT}${OPAQUE}`, '[token][token]'],
    ['no short word', 'Bearer reader', 'Bearer reader', 'Bearer reader'],
    ['nothing without a token', undefined, 'Bearer x', 'Bearer x'],
  ] as const) {
    it(`TokenRedactor removes ${title}`, () => {
      const eraser = new TokenRedactor(authorization)
      expect(eraser.text(text)).to.equal(expected)
      expect(eraser.isFree(text)).to.equal(text === expected)
    })
  }

  const eraser = new TokenRedactor(OPAQUE)

  it('TokenRedactor removes credentials in JSON values, and returns other values unchanged', () => {
    expect(eraser.json({ a: [OPAQUE], [OPAQUE]: 1 })).to.deep.equal({ a: ['[token]'], '[token]': 1 })
    const clean = { a: 1n.toString() }
    expect(eraser.json(clean)).to.equal(clean)
    expect(eraser.json(undefined)).to.equal(undefined)
  })

  it('TokenRedactor removes credentials from an error and its causes', () => {
    const root = Object.assign(new TypeError(OPAQUE), { code: OPAQUE, name: `Bad${OPAQUE}` })
    const error = new Error(OPAQUE, { cause: new AggregateError([root, OPAQUE], 'middle') })
    root.cause = OPAQUE
    const { name, message, stack } = eraser.thrown(error)
    expect({ name, message }).to.deep.equal({ name: 'Error', message: '[token]' })
    expect(stack).to.match(/^Error: \[token\]\n/)
    expect(stack).to.match(/\nCaused by: AggregateError: middle\n/)
    expect(stack).to.match(/\nError 1 of 2: \S+: \[token\]\n/)
    expect(stack).to.match(/\nCaused by: \[token\]\nError 2 of 2: \[token\]$/)
    expect(eraser.thrown(root)).to.include({ name: 'Bad[token]', code: '[token]' })
  })

  it('a thrown value that is not an error is described by its message or its content', () => {
    const contentOf = (thrown: object) => JSON.stringify(thrown)
    expect(eraser.thrown(OPAQUE)).to.deep.equal({ name: 'Error', message: '[token]' })
    expect(eraser.thrown({ message: OPAQUE, code: 5 }, contentOf)).to.deep.equal({
      name: 'Error',
      message: '[token]',
      code: '5',
    })
    expect(eraser.thrown({ reason: OPAQUE }, contentOf).message).to.equal('{"reason":"[token]"}')
  })

  it('a shortened text does not end with a part of a credential', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('-', 'ab', OPAQUE, OPAQUE.slice(0, 9)), { maxLength: 20 }),
        fc.nat(100),
        (pieces, max) => {
          const text = pieces.join('')
          const cut = eraser.cut(text, max)
          expect(cut.length).to.be.at.most(max)
          expect(cut).not.to.contain(OPAQUE)
          expect(eraser.text(text)).to.satisfy((whole: string) => whole.startsWith(cut))
        },
      ),
    )
  })

  it('a text of exactly the maximum length is returned whole', () => {
    expect(eraser.cut('exact', 5)).to.equal('exact')
    expect(eraser.cut(OPAQUE, OPAQUE.length)).to.equal('[token]')
  })

  it('a text without a credential is cut at the maximum length, however much longer it is', () => {
    for (const beyond of [1, OPAQUE.length, OPAQUE.length + 1, 500]) {
      expect(eraser.cut('n'.repeat(128 + beyond), 128)).to.equal('n'.repeat(128))
    }
  })

  it('TokenRedactor searches for a bounded number of credentials', () => {
    const many = Array.from({ length: 1_000 }, (_, index) => `token-of-16-chars-${index}-`)
    const bounded = new TokenRedactor([`Bearer ${many.join(',')}`])
    expect(bounded.text(`${many[0]} ${many[999]}`)).to.equal(`[token] ${many[999]}`)
  })

  it('TokenRedactor removes a credential of 16 characters, and keeps one of 15 characters', () => {
    const [short, long] = ['a23456789012345', 'b234567890123456']
    expect(new TokenRedactor(long).text(`${short} ${long}`)).to.equal(`${short} [token]`)
    expect(new TokenRedactor(short).text(`${short} ${long}`)).to.equal(`${short} ${long}`)
  })
})
