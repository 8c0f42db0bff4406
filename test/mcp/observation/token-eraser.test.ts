import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import { TokenEraser } from '../../../src/mcp/observation/token-eraser.ts'

const OPAQUE = 'mF_9.B5f-4.1JqM+zz/yy=='
const JWT = 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c2VyLTEyMzQ1In0.c2lnbmF0dXJlLW9mLXRva2Vu'

describe('TokenEraser', () => {
  for (const [title, authorization, text, expected] of [
    ['the token', OPAQUE, `a ${OPAQUE} b ${OPAQUE}`, 'a [token] b [token]'],
    ['the token, percent-encoded', OPAQUE, `?t=${encodeURIComponent(OPAQUE)}&`, '?t=[token]&'],
    ['a part of a JWT', JWT, `payload ${JWT.split('.')[1]}`, 'payload [token]'],
    ['a whole JWT at once', JWT, JWT, '[token]'],
    ['the token of a header', `Bearer ${JWT}`, `Bearer ${JWT}`, 'Bearer [token]'],
    ['each token of a malformed header', `Bearer ${OPAQUE},${JWT}`, `${OPAQUE} ${JWT}`, '[token] [token]'],
    ['tokens of several headers', [`Bearer ${OPAQUE}`, `DPoP ${JWT}`], `${JWT}${OPAQUE}`, '[token][token]'],
    ['no short word', 'Bearer reader', 'Bearer reader', 'Bearer reader'],
    ['nothing where there is no token', undefined, 'Bearer x', 'Bearer x'],
  ] as const) {
    it(`erases ${title}`, () => {
      const eraser = new TokenEraser(authorization)
      expect(eraser.text(text)).to.equal(expected)
      expect(eraser.isFree(text)).to.equal(text === expected)
    })
  }

  const eraser = new TokenEraser(OPAQUE)

  it('erases in JSON values, and leaves others as they are', () => {
    expect(eraser.json({ a: [OPAQUE], [OPAQUE]: 1 })).to.deep.equal({ a: ['[token]'], '[token]': 1 })
    const clean = { a: 1n.toString() }
    expect(eraser.json(clean)).to.equal(clean)
    expect(eraser.json(undefined)).to.equal(undefined)
  })

  it('erases in every text of an error and its causes', () => {
    const root = Object.assign(new TypeError(OPAQUE), { code: OPAQUE })
    const error = new Error('outer', { cause: new Error('middle', { cause: root }) })
    root.cause = OPAQUE
    const erased = eraser.error(error) as any
    expect(erased).to.be.instanceOf(Error)
    expect(erased.stack).to.equal(error.stack)
    expect(erased.cause.message).to.equal('middle')
    expect(erased.cause.cause).to.include({ name: 'TypeError', message: '[token]', code: '[token]' })
    expect(erased.cause.cause.stack).to.match(/^TypeError: \[token\]\n/)
    expect(erased.cause.cause.cause).to.equal('[token]')
  })

  it('takes errors of any kind, and nothing else', () => {
    expect(eraser.error(runInNewContext('new RangeError("far")'))).to.include({ name: 'RangeError' })
    expect(eraser.error(Object.assign(new Error('x'), { stack: undefined, code: 5 }))).to.include({
      code: '5',
    })
    const circular = new Error('round')
    circular.cause = circular
    expect(eraser.error(circular)?.message).to.equal('round')
    for (const value of ['text', 5, null, undefined, { message: 'x' }])
      expect(eraser.error(value)).to.equal(undefined)
    expect(eraser.error(new Error('x', { cause: { secret: OPAQUE } }))).not.to.have.property('cause')
  })
})
