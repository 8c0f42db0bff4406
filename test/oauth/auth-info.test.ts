import { format, inspect } from 'node:util'
import { serialize } from 'node:v8'
import { expect } from 'chai'
import { AuthInfo, attachedTo, attachTo, tokenIssuer } from '../../src/oauth/auth-info.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'

const TOKEN = 'eyJzZWNyZXQtb2YtYWRh.c2VjcmV0.c2lnbmF0dXJl'

describe('an AuthInfo', () => {
  const auth = AuthInfo.of(TOKEN, {
    clientId: 'cli',
    scopes: ['mcp:read'],
    user: { id: 'ada' },
    expiresAt: 2_000_000_000,
    resource: new URL('https://mcp.example.com/mcp'),
    extra: { tenant: 'acme' },
  })
  const req = { method: 'POST', auth }

  const ways: Readonly<Record<string, () => unknown>> = {
    'util.inspect': () => inspect(auth),
    'util.inspect with hidden properties': () => inspect(auth, { showHidden: true, depth: null }),
    'util.inspect with getters': () => inspect(auth, { getters: true }),
    'util.inspect without custom inspection': () => inspect(auth, { customInspect: false, showHidden: true }),
    'util.inspect of an object that contains it': () =>
      inspect(req, { showHidden: true, getters: true, depth: null }),
    'util.inspect of an error that it caused': () => inspect(new Error('x', { cause: auth })),
    'the formats of console.log': () => format('%s %j %o %O %d', auth, auth, auth, auth, auth),
    'JSON.stringify': () => JSON.stringify(req),
    'a template string': () => `${auth}`,
    'the spread syntax': () => ({ ...auth }),
    'Object.assign': () => Object.assign({}, auth),
    'Object.entries': () => Object.entries(auth),
    'for … in': () => {
      const found: unknown[] = []
      for (const key in auth) found.push(key, auth[key as keyof AuthInfo])
      return found
    },
    'own property descriptors': () => Object.getOwnPropertyDescriptors(auth),
    // Since Node.js 22, a URL cannot be cloned. Everything else can.
    structuredClone: () => structuredClone(AuthInfo.of(TOKEN, { ...auth, resource: undefined })),
    'v8.serialize': () => serialize(auth).toString('latin1'),
  }
  for (const [way, act] of Object.entries(ways)) {
    it(`the token of an AuthInfo is not in the output of ${way}`, () => expectNoSecret([act()], TOKEN))
  }

  const wrappers: Readonly<Record<string, (original: AuthInfo) => AuthInfo>> = {
    'a Proxy of': (original) => new Proxy(original, {}),
    'a Proxy of a Proxy of': (original) => new Proxy(new Proxy(original, {}), {}),
    'an object that inherits from': (original) => Object.create(original),
    'a copy with the prototype of': (original) =>
      Object.assign(Object.create(Object.getPrototypeOf(original)), original),
    'a copy with the prototype and the descriptors of': (original) =>
      Object.create(Object.getPrototypeOf(original), Object.getOwnPropertyDescriptors(original)),
    'a copy with other scopes and the prototype of': (original) =>
      Object.assign(Object.create(Object.getPrototypeOf(original)), original, { scopes: [] }),
  }
  for (const [what, wrap] of Object.entries(wrappers)) {
    it(`${what} an AuthInfo has its token, its issuer, and what was attached to it`, () => {
      const original = AuthInfo.of(TOKEN, { clientId: 'cli', scopes: ['mcp:read'], extra: {} }, 'iss:a')
      const attached = {}
      attachTo(original, attached)
      const wrapped = wrap(original)
      expect(wrapped.token).to.equal(TOKEN)
      expect(wrapped.clientId).to.equal('cli')
      expect(tokenIssuer(wrapped)).to.equal('iss:a')
      expect(attachedTo(wrapped)).to.equal(attached)
      expect(attachedTo({ ...wrapped })).to.equal(undefined)
    })

    it(`${what} an AuthInfo does not show the token`, () => {
      const wrapped = wrap(auth)
      const options = { showHidden: true, depth: null, showProxy: true }
      for (const shown of [
        inspect(wrapped, options),
        inspect(wrapped, { ...options, customInspect: false }),
        inspect(wrapped, { getters: true }),
        inspect(wrapped.extra, options),
        format('%s %j %o %O', wrapped, wrapped, wrapped, wrapped),
        JSON.stringify([wrapped, wrapped.extra]),
        { ...wrapped },
        Object.getOwnPropertyDescriptors(wrapped),
        Object.getOwnPropertyDescriptors(wrapped.extra),
      ])
        expectNoSecret([shown], TOKEN)
    })
  }

  it('a copy of an AuthInfo with another extra has no token', () => {
    const copy = Object.assign(Object.create(AuthInfo.prototype), auth, { extra: { tenant: 'other' } })
    expect(copy.token).to.equal(undefined)
    expect(tokenIssuer(copy)).to.equal(undefined)
    for (const extra of [undefined, null, 'text'])
      expect(Object.assign(Object.create(AuthInfo.prototype), { extra }).token).to.equal(undefined)
  })

  it('an event with an AuthInfo as attribute, tag, and cause of an error does not contain the token', async () => {
    const { telemetry, transport } = keepingEvents()
    telemetry.emit('request.seen', {
      attributes: { auth, nested: [req] },
      actor: { type: 'user', id: 'ada', tags: { auth } },
      error: new Error('failed', { cause: auth }),
    })
    await telemetry.flush()
    const events = transport.getEvents()
    expect(events[0]?.attributes).to.have.nested.property('auth.user.id', 'ada')
    expectNoSecret(events, TOKEN)
  })

  it('reading the token of an AuthInfo by name returns it', () => {
    expect(auth.token).to.equal(TOKEN)
  })
})
