import { AssertionError } from 'node:assert'
import { inspect } from 'node:util'
import { expect } from 'chai'
import fc from 'fast-check'
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
    [
      'percent-encoded eight times',
      Array.from({ length: 8 }).reduce<string>(encodeURIComponent, SECRET),
      'percent-encoded',
    ],
    [
      'in base64 that is broken into lines',
      bytes(`${'x'.repeat(50)}${SECRET}`)
        .toString('base64')
        .replace(/.{76}/g, '$&\r\n'),
      'in base64',
    ],
    ['as printed by inspect', inspect({ text: SECRET }), 'JSON-escaped'],
    ['in printed bytes', inspect(bytes(SECRET)), 'in hex'],
    ['in bytes written as JSON', JSON.stringify(bytes(SECRET)), 'as a list of bytes'],
    [
      'in bytes written as indented JSON',
      JSON.stringify({ bytes: [...bytes(SECRET)] }, undefined, 2),
      'as a list of bytes',
    ],
    ['in hex', bytes(SECRET).toString('hex'), 'in hex'],
    ['in upper-case hex', bytes(SECRET).toString('hex').toUpperCase(), 'in hex'],
  ]
  for (const [what, text, form] of forms) {
    it(`expectNoLeak finds a secret ${what}`, () => {
      for (const value of [text, `before ${text} after`])
        expect(leakOf([{ name: 'a.b', attributes: { note: value } }])).to.contain(form)
    })
  }

  it('expectNoLeak distinguishes base64url from base64', () => {
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
    it(`expectNoLeak finds a secret in ${what}`, () => {
      expect(`${leakOf(events, TOKEN)}\n`).to.contain(place)
    })
  }

  class Account {
    readonly #token = TOKEN
    get secret() {
      return this.#token
    }
  }
  class Printed {
    readonly #token = TOKEN;
    [inspect.custom]() {
      return { token: this.#token }
    }
  }
  class Written {
    readonly #token = TOKEN
    toJSON() {
      return [this.#token]
    }
  }
  class Templated {
    readonly #token = TOKEN
    toString() {
      return `token ${this.#token}`
    }
  }
  class DeniedError extends Error {
    get details() {
      return { token: TOKEN }
    }
  }
  const form = new FormData()
  form.set('token', TOKEN)
  const shared = new SharedArrayBuffer(TOKEN.length)
  new Uint8Array(shared).set(bytes(TOKEN))
  const buffer = new Uint8Array(bytes(TOKEN)).buffer
  const held = { token: TOKEN }
  const containers: Readonly<Record<string, unknown>> = {
    'a plain object': held,
    'a Buffer': bytes(TOKEN),
    'a typed array': new Uint8Array(bytes(TOKEN)),
    'a Uint16Array of characters': Uint16Array.from(TOKEN, (character) => character.charCodeAt(0)),
    'a Float64Array of characters': Float64Array.from(TOKEN, (character) => character.charCodeAt(0)),
    'bytes in UTF-16': Buffer.from(TOKEN, 'utf16le'),
    'bytes in UTF-16 after one byte': Buffer.concat([Buffer.alloc(1), Buffer.from(TOKEN, 'utf16le')]),
    'an array of bytes': [...bytes(TOKEN)],
    'an ArrayBuffer': buffer,
    'a SharedArrayBuffer': shared,
    'a DataView': new DataView(buffer),
    'a boxed string': new String(TOKEN),
    'a symbol': Symbol(TOKEN),
    'a boxed symbol': Object(Symbol(TOKEN)),
    'a key that is a symbol': { [Symbol(TOKEN)]: 1 },
    'a value below a symbol': { [Symbol('x')]: TOKEN },
    FormData: form,
    'the key of a map': new Map([[TOKEN, 1]]),
    'an object that is the key of a map': new Map([[{ token: TOKEN }, 1]]),
    'a property that is not enumerable': Object.defineProperty({}, 'token', { value: TOKEN }),
    'an extra property of an array': Object.assign([1], { token: TOKEN }),
    'an extra property of a map': Object.assign(new Map(), { token: TOKEN }),
    'a property of a function': Object.assign(() => 1, { token: TOKEN }),
    'a cause': new Error('x', { cause: new Error('y', { cause: { token: TOKEN } }) }),
    'an AggregateError': new AggregateError([new Error(TOKEN)], 'x'),
    'an accessor of a class': new Account(),
    'an accessor of a class of errors': new DeniedError('x'),
    'what inspect prints': new Printed(),
    'what toJSON returns': new Written(),
    'what toString returns': new Templated(),
    // The first entry keeps its target in memory.
    'a WeakRef': new WeakRef(held),
    'a proxy': new Proxy({ token: TOKEN }, {}),
    'an object without a prototype': Object.assign(Object.create(null), { token: TOKEN }),
    'a RegExp': new RegExp(TOKEN),
  }
  for (const [what, container] of Object.entries(containers)) {
    it(`expectNoLeak finds a secret in ${what}, at the top and nested`, () => {
      for (const events of [container, [container], [{ name: 'a', attributes: { deep: [{ container }] } }]])
        expect(leakOf(events, TOKEN)).to.contain('secret 1 of 1')
    })
  }

  it('expectNoLeak finds any secret in any structure and encoding', () => {
    const encodings: ((text: string) => unknown)[] = [
      (text) => text,
      (text) => encodeURIComponent(text),
      (text) => encodeURIComponent(encodeURIComponent(text)),
      (text) => JSON.stringify(JSON.stringify(text)),
      (text) => bytes(text).toString('base64'),
      (text) => bytes(text).toString('base64url'),
      (text) => bytes(text).toString('hex'),
      (text) => bytes(text),
      (text) => [...bytes(text)],
      (text) => new String(text),
    ]
    const wrappers: ((inner: unknown) => unknown)[] = [
      (inner) => [1, inner, 'x'],
      (inner) => ({ a: 1, b: inner }),
      (inner) => new Map([['k', inner]]),
      (inner) => new Map([[inner, 'v']]),
      (inner) => new Set(['x', inner]),
      (inner) => new Error('x', { cause: inner }),
      (inner) => ({ toJSON: () => inner }),
      (inner) => Object.create({}, { hidden: { value: inner } }),
    ]
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 8, maxLength: 20 }),
        fc.constantFrom(...encodings),
        fc.array(fc.constantFrom(...wrappers), { maxLength: 5 }),
        (secret, encode, wraps) => {
          const events = wraps.reduce((inner, wrap) => wrap(inner), encode(secret))
          expect(leakOf([events], secret)).to.contain('secret 1 of 1')
          expectNoLeak([events], 'not in any of these')
        },
      ),
    )
  })

  it('expectNoLeak searches readable values next to unreadable ones', () => {
    const request = new Request('http://localhost', { headers: { authorization: TOKEN } })
    expect(leakOf([{ request, token: TOKEN }], TOKEN)).to.contain('event 1 at token')
  })

  it('expectNoLeak ends for cycles, deep values, and accessors that always return new values', () => {
    let deep: unknown = TOKEN
    for (let level = 0; level < 100_000; level++) deep = { deep }
    expect(leakOf([deep], TOKEN)).to.match(/event 1 at deep\.deep[.\w]+…$/)
    class Endless {
      get next() {
        return new Endless()
      }
      get other() {
        return new Endless()
      }
    }
    expectNoLeak([new Endless()], TOKEN)
    expect(() =>
      expectNoLeak(
        Array.from({ length: 1_000 }, () => new Endless()),
        TOKEN,
      ),
    ).to.throw(RangeError)
  })

  it('expectNoLeak finds a secret in the events of a transport', () => {
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

  it('expectNoLeak rejects values that can only be read asynchronously', () => {
    const file = new FormData()
    file.set('file', new File(['x'], 'x.txt'))
    for (const opaque of [
      Promise.resolve('x'),
      new Response('x'),
      new Request('http://localhost'),
      new Blob(['x']),
      file,
      new ReadableStream(),
    ]) {
      for (const events of [opaque, [opaque], [{ name: 'a', attributes: { deep: [{ opaque }] } }]])
        expect(() => expectNoLeak(events, SECRET)).to.throw(TypeError, /cannot search/)
    }
  })

  const values = function* () {
    yield SECRET
  }
  const later = async function* () {
    yield SECRET
  }
  const custom = { next: () => ({ done: true, value: SECRET }), [Symbol.iterator]: () => custom }
  const iterators: Readonly<Record<string, object>> = {
    'a generator': values(),
    'an async generator': later(),
    'an iterator of a map': new Map([['k', SECRET]]).values(),
    'an iterator of an array': [SECRET][Symbol.iterator](),
    'an iterator of a string': SECRET.matchAll(/./g),
    'an iterator of the application': custom,
    'a WeakMap': new WeakMap([[{}, SECRET]]),
    'a WeakSet': new WeakSet([{ SECRET }]),
  }
  for (const [what, iterator] of Object.entries(iterators)) {
    it(`expectNoLeak rejects ${what}, and does not read it`, () => {
      for (const events of [iterator, [iterator], [{ attributes: { deep: [{ iterator }] } }]])
        expect(() => expectNoLeak(events, 'other')).to.throw(
          TypeError,
          /cannot search a (?:generator or an it|Weak)/,
        )
      if (what === 'a generator') expect([...(iterator as Iterable<unknown>)]).to.deep.equal([SECRET])
    })
  }

  it('expectNoLeak finds a secret in an iterable object of the application, also in an endless one', () => {
    expect(
      leakOf(
        [
          {
            list: {
              *[Symbol.iterator]() {
                yield* ['x', { t: TOKEN }]
              },
            },
          },
        ],
        TOKEN,
      ),
    ).to.contain('event 1 at list[1].t')
    const endless = {
      *[Symbol.iterator]() {
        for (;;) yield {}
      },
    }
    expect(() => expectNoLeak([endless], TOKEN)).to.throw(RangeError, /reads at most/)
  })

  it('expectNoLeak finds a secret in a number', () => {
    expect(leakOf([{ pin: 123456 }], '123456')).to.contain('event 1 at pin')
  })

  it('the message of expectNoLeak does not contain the secret', () => {
    const everywhere = forms.map(([, text]) => ({ name: text, [text]: text }))
    const message = leakOf(everywhere)
    for (const [, text] of forms) expect(message).not.to.contain(text)
    expect(message).not.to.contain(SECRET)
    expect(message).to.match(/and \d+ more places$/)
  })

  for (const [count, ending] of [
    [10, 'event 10'],
    [11, '  and 1 more place'],
    [12, '  and 2 more places'],
  ] as const)
    it(`the message of expectNoLeak about ${count} places ends with "${ending.trim()}"`, () => {
      const lines = leakOf(
        Array.from({ length: count }, () => TOKEN),
        TOKEN,
      ).split('\n')
      expect(lines).to.have.length(Math.min(count, 11) + 1)
      expect(lines.at(-1)).to.satisfy((line: string) => line.endsWith(ending))
    })

  it('the message of expectNoLeak names the number of the secret', () => {
    expect(leakOf([{ a: TOKEN }], ['other', TOKEN])).to.equal(
      'secrets have leaked:\n  secret 2 of 2, as it is: event 1 at a',
    )
  })

  it('expectNoLeak accepts events without secrets', () => {
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
    expectNoLeak([new Proxy({}, { ownKeys: () => [TOKEN, 1 as never] }), Object.create(hostile)], TOKEN)
    expectNoLeak(['1104,105,106,107', 'x104,105,106,1071'], 'hijk')
    expectNoLeak([{ a: TOKEN.slice(1), b: bytes('ab').toString('hex'), c: '100% \\ % %zz' }], [TOKEN, 'ab'])
  })

  it('expectNoLeak rejects values that are not secrets', () => {
    for (const secrets of ['', [], ['a', ''], [5 as any]])
      expect(() => expectNoLeak([], secrets)).to.throw(TypeError)
  })
})
