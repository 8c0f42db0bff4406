import { AssertionError } from 'node:assert'
import { expect } from 'chai'
import { InMemoryTransportAdapter, KitTelemetry, MockTelemetryAdapter } from '../../src/telemetry/index.ts'
import { createTelemetryRecorder, expectNoLeak } from '../../src/testing/index.ts'

const SECRET = 'pä"ss\nwörd/+?&=%x'
const TOKEN = 'eyJhbGciOiJFUzI1NiJ9'

function leakOf(events: unknown, secrets: string | string[] = SECRET): string {
  try {
    expectNoLeak(events, secrets)
  } catch (error) {
    expect(error).to.be.instanceOf(AssertionError)
    return (error as AssertionError).message
  }
  throw new Error('nothing was found')
}

const bytes = (text: string) => Buffer.from(text)

describe('expectNoLeak()', () => {
  const forms: [string, string, string][] = [
    ['as it is', `the ${SECRET} here`, 'as it is'],
    ['JSON-escaped', JSON.stringify({ a: SECRET }), 'JSON-escaped'],
    ['in JSON within JSON', JSON.stringify({ a: JSON.stringify([SECRET]) }), 'JSON-escaped'],
    [
      'with every character as \\u',
      [...SECRET].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
      'JSON-escaped',
    ],
    ['percent-encoded', encodeURIComponent(SECRET), 'percent-encoded'],
    ['percent-encoded in lower case', encodeURIComponent(SECRET).toLowerCase(), 'percent-encoded'],
    ['percent-encoded throughout', bytes(SECRET).toString('hex').replace(/../g, '%$&'), 'percent-encoded'],
    ['percent-encoded twice', encodeURIComponent(encodeURIComponent(SECRET)), 'percent-encoded'],
    ['in a query', new URLSearchParams({ password: SECRET, other: 'b c' }).toString(), 'percent-encoded'],
    ['in base64', bytes(SECRET).toString('base64'), 'in base64'],
    ['in base64url', bytes(SECRET).toString('base64url'), 'in base64'],
    ['in Basic credentials', `Basic ${bytes(`ada:${SECRET}`).toString('base64')}`, 'in base64'],
    ['in base64 after one byte', bytes(`x${SECRET}y`).toString('base64'), 'in base64'],
    ['in base64 after two bytes', bytes(`xx${SECRET}yy`).toString('base64url'), 'in base64'],
    ['in percent-encoded base64', encodeURIComponent(bytes(SECRET).toString('base64')), ''],
    ['in hex', bytes(SECRET).toString('hex'), 'in hex'],
    ['in upper-case hex', bytes(SECRET).toString('hex').toUpperCase(), 'in hex'],
  ]
  for (const [what, text, form] of forms) {
    it(`finds a secret ${what}`, () => {
      for (const value of [text, `before ${text} after`])
        expect(leakOf([{ name: 'a.b', attributes: { note: value } }])).to.contain(form)
    })
  }

  it('tells base64url from base64', () => {
    const secret = '>>>???>>>'
    expect(leakOf([bytes(secret).toString('base64')], secret)).to.contain('in base64:')
    expect(leakOf([bytes(secret).toString('base64url')], secret)).to.contain('in base64url:')
  })

  const error = new Error(`wrong token ${TOKEN}`, { cause: 'x' })
  const circular: Record<string, unknown> = { ok: true }
  circular.self = circular
  const places: [string, unknown, string][] = [
    [
      'an attribute',
      [{ name: 'a.b', attributes: { deep: [{ note: TOKEN }] } }],
      'event 1 (a.b) at attributes.deep[0].note',
    ],
    ['the second event', [{ name: 'a' }, { name: 'b', sessionId: TOKEN }], 'event 2 (b) at sessionId'],
    [
      'a key',
      [{ name: 'a', attributes: { ok: 1, [`x${TOKEN}`]: 1 } }],
      'event 1 (a) at attributes.(key 2), the key itself',
    ],
    ['below a key with a secret', [{ [TOKEN]: { a: TOKEN } }], 'event 1 at (key 1).a'],
    ['the name of the event', [{ name: `a.${TOKEN}` }], 'event 1 at name'],
    ['a line of text', [`GET /?t=${TOKEN}`], 'event 1\n'],
    ['a text by itself', `GET /?t=${TOKEN}`, 'event 1\n'],
    ['a map', [new Map([['k', TOKEN]])], 'event 1 at k'],
    ['a set', [{ s: new Set([TOKEN]) }], 'event 1 at s[0]'],
    ['an error', [error], 'event 1 (Error) at message'],
    ['bytes', [{ body: bytes(TOKEN) }], 'event 1 at body'],
    ['a URL', [{ url: new URL(`http://x/?t=${TOKEN}`) }], 'event 1 at url'],
    ['headers', new Headers({ ok: '1', 'x-token': TOKEN }), 'event 1 at x-token'],
    ['a query', { query: new URLSearchParams({ t: TOKEN }) }, 'event 1 at query.t'],
    ['what contains itself', [circular, { t: TOKEN }], 'event 2 at t'],
  ]
  for (const [what, events, place] of places) {
    it(`finds it in ${what}`, () => {
      expect(`${leakOf(events, TOKEN)}\n`).to.contain(place)
    })
  }

  it('finds it in what a transport has recorded', () => {
    for (const transport of [
      createTelemetryRecorder(),
      InMemoryTransportAdapter.create(),
      MockTelemetryAdapter.create(),
    ]) {
      const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(transport).build()
      telemetry.emit('a.b', { attributes: { note: TOKEN } })
      expect(`${leakOf(transport, TOKEN)}\n`).to.contain('event 1 (a.b) at attributes.note')
    }
  })

  it('refuses what nobody can look into', () => {
    for (const events of [Promise.resolve('x'), [new Response('x')], new Request('http://localhost')])
      expect(() => expectNoLeak(events, SECRET)).to.throw(TypeError, /cannot look into/)
  })

  it('finds a number', () => {
    expect(leakOf([{ pin: 123456 }], '123456')).to.contain('event 1 at pin')
  })

  it('never says what the secret is', () => {
    const everywhere = forms.map(([, text]) => ({ name: text, [text]: text }))
    const message = leakOf(everywhere)
    for (const [, text] of forms) expect(message).not.to.contain(text)
    expect(message).not.to.contain(SECRET)
    expect(message).to.match(/and \d+ more places$/)
  })

  it('says which of the secrets it was', () => {
    expect(leakOf([{ a: TOKEN }], ['other', TOKEN])).to.equal(
      'secrets have leaked:\n  secret 2 of 2, as it is: event 1 at a',
    )
  })

  it('has nothing against events without them', () => {
    const hostile = Object.defineProperty({}, 'x', {
      enumerable: true,
      get: () => {
        throw new Error('no')
      },
    })
    expectNoLeak([], SECRET)
    expectNoLeak(
      [{ name: 'a', n: null, u: undefined, f: () => SECRET, d: new Date(0), b: 5n }, hostile],
      [SECRET, TOKEN],
    )
    // Half a secret is none, and a short one is not looked for by chance.
    expectNoLeak([{ a: TOKEN.slice(1), b: bytes('ab').toString('hex'), c: '100% \\ % %zz' }], [TOKEN, 'ab'])
  })

  it('refuses what is no secret', () => {
    for (const secrets of ['', [], ['a', ''], [5 as any]])
      expect(() => expectNoLeak([], secrets)).to.throw(TypeError)
  })
})
