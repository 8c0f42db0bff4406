import { expect } from 'chai'
import {
  MAX_ATTRIBUTES,
  MAX_LENGTH,
  RequestAttributes,
} from '../../../src/telemetry/session/request-attributes.ts'
import { expectCode, recording } from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

function collecting() {
  const { builder, ...rest } = recording()
  const manager = builder.build()
  const session = manager.session()
  const request = session.beginRequest()
  return { ...rest, manager, session, request, added: () => ({ ...request.values }) }
}

describe('set() of a telemetry session', () => {
  it('a later value of set() replaces an earlier one, and other attributes stay', () => {
    const { session, added } = collecting()
    expect(session.set({ a: 1, b: 1 }).set({ b: 2 })).to.equal(session)
    expect(added()).to.deep.equal({ a: 1, b: 2 })
  })

  it('set() copies values at once as JSON', () => {
    const { session, added } = collecting()
    const cart = { items: new Set(['x']), at: new Date(0) }
    session.set({ cart, nothing: undefined })
    cart.items.add('y')
    expect(added()).to.deep.equal({ cart: { items: ['x'], at: '1970-01-01T00:00:00.000Z' } })
  })

  it('set() of a session inside the run of a request adds to that request', async () => {
    const { manager, session, added } = collecting()
    const outside = manager.session()
    await session.run(async () => {
      manager.set({ ambient: 1 })
      const inner = manager.session()
      await inner.run(async () => {
        await null
        inner.set({ inner: 1 })
        manager.set({ 'inner.ambient': 1 })
      })
      outside.set({ outside: 1 })
    })
    expect(added()).to.deep.equal({ ambient: 1, inner: 1, 'inner.ambient': 1, outside: 1 })
  })

  it('set() of a session that was created in a request adds to that request after the run', async () => {
    const { manager, session, added } = collecting()
    const inner = await session.run(() => manager.session())
    inner.set({ a: 1 })
    expect(added()).to.deep.equal({ a: 1 })
  })

  it('set() of the session of an inner request adds nothing to the outer request', async () => {
    const { manager, session, added } = collecting()
    await session.run(async () => {
      const inner = manager.session()
      const request = inner.beginRequest()
      await inner.run(() => manager.set({ a: 1 }))
      expect({ ...request.values }).to.deep.equal({ a: 1 })
    })
    expect(added()).to.deep.equal({})
  })

  it('set() adds nothing to a request of another manager', async () => {
    const { session, added } = collecting()
    const other = recording()
    const manager = other.builder.build()
    await session.run(() => manager.set({ a: 1 }))
    expect(added()).to.deep.equal({})
    expect(other.logger.warnings).to.have.length(1)
  })

  it('set() outside of a request does nothing but a report', () => {
    const { manager, logger } = collecting()
    manager.set({ a: 1 })
    manager.session().set({ a: 1 })
    expect(logger.warnings.map(({ message }) => message)).to.deep.equal([
      'set() was ignored, because it was called outside of a request. Call it in a handler, or in the run of its session',
    ])
  })

  it('set() after the end of the request does nothing but a report', () => {
    const { session, request, logger, added } = collecting()
    session.set({ a: 1 })
    request.complete()
    session.set({ a: 2 })
    expect(added()).to.deep.equal({})
    expect(logger.warnings.map(({ message }) => message)).to.deep.equal([
      'set() was ignored, because it was called after the end of the request. Call it before the response has ended',
    ])
  })

  it('set() after end() of its session adds to a request that has not ended', async () => {
    const { session, added, logger } = collecting()
    await session.end()
    session.set({ a: 1 })
    expect(added()).to.deep.equal({ a: 1 })
    expect(logger.warnings).to.deep.equal([])
  })

  for (const [kind, attributes] of [
    ['null', null],
    ['an array', ['a']],
    ['a string', 'a'],
    ['a date', new Date()],
    [
      'an object whose keys cannot be read',
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error('no keys')
          },
        },
      ),
    ],
  ] as const) {
    it(`set() throws TELEMETRY_SESSION_INVALID for ${kind}`, () => {
      const { session, manager, added } = collecting()
      const error = expectCode('TELEMETRY_SESSION_INVALID', () => session.set(attributes as Wrong))
      expect(error.message).to.match(/^the arguments of set\(\) are invalid/)
      if (kind === 'null') expectCode('TELEMETRY_SESSION_INVALID', () => manager.set(attributes as Wrong))
      expect(added()).to.deep.equal({})
    })
  }

  it('a reserved name is ignored with a report, and the other attributes are added', () => {
    const { session, added, logger } = collecting()
    session.set({ a: 1, 'kit.mcp.x': 1, 'mcp.method.name': 'x', duration_ms: 0 })
    expect(added()).to.deep.equal({ a: 1 })
    expect(logger.warnings.map(({ message }) => message)).to.deep.equal([
      "set() ignored the attribute 'kit.mcp.x', because this package sets it. Choose another name",
    ])
  })

  it('a request has at most 128 attributes, whose values can still be replaced', () => {
    const { session, added, logger } = collecting()
    for (let index = 0; index <= MAX_ATTRIBUTES; index++) session.set({ [`a${index}`]: index })
    expect(Object.keys(added())).to.have.length(MAX_ATTRIBUTES)
    expect(logger.warnings[0]?.message).to.match(/^set\(\) ignored the attribute 'a128'/)
    session.set({ a0: 'x' })
    expect(added()).to.include({ a0: 'x', a127: 127 })
    expect(added()).not.to.have.property('a128')
  })

  it('the attributes of a request have at most 65,536 characters of JSON', () => {
    const { session, added } = collecting()
    const longest = 'x'.repeat(MAX_LENGTH - 'a'.length - 2)
    session.set({ a: `${longest}x` })
    expect(added()).to.deep.equal({})
    session.set({ a: longest, b: 1 })
    expect(added()).to.deep.equal({ a: longest })
    session.set({ a: 1, b: 1 })
    expect(added()).to.deep.equal({ a: 1, b: 1 })
  })

  it('the attribute __proto__ is an attribute as any other', () => {
    const { session, request } = collecting()
    session.set(JSON.parse('{"__proto__":{"polluted":true}}'))
    expect(Object.keys(request.values ?? {})).to.deep.equal(['__proto__'])
    expect({}).not.to.have.property('polluted')
  })

  it('a completed request releases its attributes', () => {
    const request = new RequestAttributes()
    request.add({ a: 1 }, () => undefined)
    request.complete()
    expect(request.values).to.equal(undefined)
    expect(request.isComplete).to.equal(true)
  })
})
