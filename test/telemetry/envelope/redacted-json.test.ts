import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import fc from 'fast-check'
import { runs } from '../../support/runs.ts'
import { emitted, recording, settle } from '../../support/telemetry/recording.ts'

const copied = (attributes: object) => emitted({ attributes }).attributes as Record<string, unknown>

describe('values that JSON cannot carry', () => {
  class Money {
    readonly cents = 5
    get euros() {
      return this.cents / 100
    }
  }
  const table: [string, unknown, unknown][] = [
    ['a bigint', 12345678901234567890n, '12345678901234567890'],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['an invalid date', new Date(Number.NaN), 'Invalid Date'],
    ['a date of another realm', runInNewContext('new Date(0)'), '1970-01-01T00:00:00.000Z'],
    ['NaN', Number.NaN, 'NaN'],
    ['Infinity', Number.POSITIVE_INFINITY, 'Infinity'],
    ['-Infinity', Number.NEGATIVE_INFINITY, '-Infinity'],
    ['-0', -0, 0],
    [
      'a map',
      new Map<unknown, unknown>([
        ['a', 1],
        [2, new Map([['b', 3n]])],
      ]),
      { a: 1, 2: { b: '3' } },
    ],
    [
      'a map with keys that are symbols, objects, and functions, which are left out',
      new Map<unknown, unknown>([
        [Object.create(null), 1],
        [Symbol('a'), 1],
        [new Date(0), 1],
        [{ toString: () => 'a' }, 1],
        [() => 1, 1],
        [null, 2],
        [true, 3],
        [4n, 4],
      ]),
      { null: 2, true: 3, 4: 4 },
    ],
    ['a set', new Set([1, 'a', new Set([2])]), [1, 'a', [2]]],
    ['a typed array', new Uint8Array([1, 2, 255]), [1, 2, 255]],
    ['a buffer', Buffer.from('ab'), [97, 98]],
    ['a bigint array', new BigInt64Array([1n, -2n]), ['1', '-2']],
    ['a float array', new Float64Array([0.5, Number.NaN]), [0.5, 'NaN']],
    ['a URL', new URL('https://example.org/a'), 'https://example.org/a'],
    ['a class instance', new Money(), { cents: 5 }],
    [
      'a toJSON',
      { toJSON: () => ({ at: new Date(0), deep: [1n] }) },
      { at: '1970-01-01T00:00:00.000Z', deep: ['1'] },
    ],
    ['a toJSON of an array', Object.assign([1], { toJSON: () => 'list' }), 'list'],
    ['a toJSON that returns a date', { toJSON: () => new Date(0) }, '1970-01-01T00:00:00.000Z'],
    [
      'boxed values',
      [Object('a'), Object(1), Object(true), Object(1n), Object(Symbol('s'))],
      ['a', 1, true, '1', null],
    ],
    [
      'holes and functions in an array',
      Object.assign([1], { 2: () => {}, 3: undefined, 4: Symbol('s') }),
      [1, null, null, null, null],
    ],
    ['a regular expression', /x/g, '/x/g'],
    [
      'headers',
      new Headers([
        ['a', '1'],
        ['set-cookie', 'x'],
        ['set-cookie', 'y'],
      ]),
      { a: '1', 'set-cookie': ['x', 'y'] },
    ],
    ['a query', new URLSearchParams('a=1&b=2&a=3'), { a: ['1', '3'], b: '2' }],
    [
      'objects without keys of their own',
      [new WeakMap(), new AbortController()],
      ['[WeakMap]', '[AbortController]'],
    ],
    ['plain objects without keys, also of another realm', [{}, runInNewContext('({})')], [{}, {}]],
    ['an object without prototype', Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
    ['null', null, null],
  ]
  for (const [what, value, expected] of table) {
    it(`toRedactedJson() copies ${what}`, () => expect(copied({ value })).to.deep.equal({ value: expected }))
  }

  it('toRedactedJson() copies an Error like the error of an envelope, also one of another realm', () => {
    const value = Object.assign(new TypeError('m', { cause: new Error('c') }), { code: 'E' })
    const copy = copied({ value, foreign: runInNewContext('new Error("far")') })
    expect(copy.value).to.deep.include({ name: 'TypeError', message: 'm', code: 'E' })
    expect((copy.value as { stack: string }).stack).to.include('Caused by: Error: c')
    expect(copy.foreign).to.deep.include({ name: 'Error', message: 'far' })
  })

  it('toRedactedJson() drops undefined, functions, and symbols', () => {
    expect(
      copied({ a: undefined, b: () => {}, c: Symbol('s'), d: 1, e: { toJSON: () => undefined } }),
    ).to.deep.equal({ d: 1 })
  })

  it('toRedactedJson() marks cycles, but not repeated objects', () => {
    const shared = { a: 1 }
    const value: Record<string, unknown> = { one: shared, two: shared }
    value.self = value
    value.list = [value]
    value.map = new Map([['m', value]])
    value.json = { toJSON: () => value }
    expect(copied(value)).to.deep.equal({
      one: { a: 1 },
      two: { a: 1 },
      self: '[Circular]',
      list: ['[Circular]'],
      map: { m: '[Circular]' },
      json: '[Circular]',
    })
  })

  it('toRedactedJson() cuts objects and arrays at depth 9', () => {
    const nest = (depth: number, leaf: unknown): unknown =>
      depth === 0 ? leaf : { n: nest(depth - 1, leaf) }
    const at = (value: unknown, depth: number): unknown =>
      depth === 0 ? value : at((value as { n: unknown }).n, depth - 1)
    expect(at(copied(nest(8, { leaf: 1 }) as object), 8)).to.deep.equal({ leaf: 1 })
    expect(at(copied(nest(9, { leaf: 1 }) as object), 9)).to.equal('[Truncated]')
    expect(at(copied(nest(9, [1]) as object), 9)).to.equal('[Truncated]')
    expect(at(copied(nest(9, 'text') as object), 9)).to.equal('text')
    expect(at(copied(nest(9, new Date(0)) as object), 9)).to.equal('1970-01-01T00:00:00.000Z')
  })

  it('toRedactedJson() leaves out only the key whose getter or toJSON throws', () => {
    const fail = () => {
      throw new Error('no')
    }
    const proxy = new Proxy({}, { ownKeys: fail })
    const revoked = Proxy.revocable({}, {})
    revoked.revoke()
    const value = {
      a: 1,
      get b() {
        return fail()
      },
      c: { toJSON: fail },
      d: proxy,
      e: revoked.proxy,
      f: {
        get g() {
          return fail()
        },
        h: 2,
      },
      list: [proxy, 3],
    }
    expect(copied(value)).to.deep.equal({ a: 1, f: { h: 2 }, list: [null, 3] })
  })

  it('toRedactedJson() reads each value once, also after one that throws', () => {
    const reads: string[] = []
    const value = Object.defineProperties(
      {},
      Object.fromEntries(
        ['a', 'b', 'c', 'd'].map((key) => [
          key,
          {
            enumerable: true,
            get: () => {
              reads.push(key)
              if (key === 'b' || key === 'c') throw new Error('no')
              return key
            },
          },
        ]),
      ),
    )
    expect(copied(value)).to.deep.equal({ a: 'a', d: 'd' })
    expect(reads).to.deep.equal(['a', 'b', 'c', 'd'])
  })

  it('toRedactedJson() does not copy inherited keys', () => {
    const inherits = Object.assign(Object.create({ inherited: 1 }), { own: 2 })
    expect(copied(inherits)).to.deep.equal({ own: 2 })
    expect(copied({ nested: inherits })).to.deep.equal({ nested: { own: 2 } })
    const manager = recording().builder.build()
    let copy: Readonly<Record<string, unknown>> = {}
    Object.defineProperty(Object.prototype, 'polluted', {
      value: 1,
      enumerable: true,
      configurable: true,
      writable: true,
    })
    try {
      copy = manager.redact({ own: 2, nested: { own: 3 } })
    } finally {
      delete (Object.prototype as { polluted?: unknown }).polluted
    }
    expect(copy).to.deep.equal({ own: 2, nested: { own: 3 } })
  })

  it('toRedactedJson() handles the rejection of an asynchronous toJSON', async () => {
    const value = {
      toJSON: async () => {
        throw new Error('no')
      },
    }
    const unhandled: unknown[] = []
    const note = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', note)
    try {
      expect(copied({ value })).to.deep.equal({ value: '[Promise]' })
      await settle()
    } finally {
      process.off('unhandledRejection', note)
    }
    expect(unhandled).to.deep.equal([])
  })

  it('toRedactedJson() copies __proto__ and constructor like other keys', () => {
    const hostile = JSON.parse(
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"nested":{"__proto__":3}}',
    )
    const copy = copied(hostile)
    expect(JSON.stringify(copy)).to.equal(JSON.stringify(hostile))
    expect(Object.getPrototypeOf(copy)).to.equal(Object.prototype)
    expect(({} as { polluted?: unknown }).polluted).to.equal(undefined)
    expect(JSON.stringify(copied(new Map([['__proto__', { polluted: 1 }]])))).to.equal(
      '{"__proto__":{"polluted":1}}',
    )
  })

  it('toRedactedJson() accepts maps and instances of classes', () => {
    expect(copied(new Map([['a', 1]]))).to.deep.equal({ a: 1 })
    expect(copied({ toJSON: () => ({ a: 1 }) })).to.deep.equal({ a: 1 })
  })

  it('toRedactedJson() bounds the work for one event', () => {
    let shared: unknown = 'leaf'
    for (let i = 0; i < 7; i++) shared = Array.from({ length: 100 }, () => shared)
    const started = performance.now()
    const text = JSON.stringify(copied({ shared, after: 1 }))
    expect(performance.now() - started).to.be.lessThan(3000)
    expect(text).to.include('[Truncated]')
    expect(text.length).to.be.lessThan(2_000_000)
    const bytes = copied({ bytes: new Uint8Array(1_000_000) }).bytes as unknown[]
    expect(bytes.at(-1)).to.equal('[Truncated]')
    expect(bytes.length).to.be.within(99_000, 100_001)
    expect((copied({ set: new Set(Array(200_000).keys()) }).set as unknown[]).length).to.be.lessThan(100_002)
  })

  it('an event has up to 100,000 values, and one [Truncated] in the place of the next', () => {
    const list = Array(99_997).fill(1)
    const { list: copy, ...others } = copied({ list, a: 1, b: 1, c: 1, d: 1 })
    expect(copy).to.have.length(list.length)
    expect(others).to.deep.equal({ a: 1, b: 1, c: '[Truncated]' })
    // The set itself is a value, too.
    for (const [count, last] of [
      [99_999, 99_998],
      [100_000, '[Truncated]'],
      [200_000, '[Truncated]'],
    ] as const) {
      const set = copied({ set: new Set(Array(count).keys()) }).set as unknown[]
      expect([set.length, set.at(-1)]).to.deep.equal([Math.min(count, 100_000), last])
    }
  })

  it('toRedactedJson() returns the right copy if a getter emits an event', () => {
    const { builder, events } = recording()
    const manager = builder.build()
    manager.emit('outer', {
      attributes: {
        get a() {
          manager.emit('inner', { attributes: { b: [1] } })
          return [2]
        },
      },
    })
    expect(events().map(({ name, attributes }) => [name, attributes])).to.deep.equal([
      ['inner', { b: [1] }],
      ['outer', { a: [2] }],
    ])
  })

  it('toRedactedJson() returns JSON for any value, and does not change the value', () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
      withSparseArray: true,
      withNullPrototype: true,
      withObjectString: true,
      withBoxedValues: true,
    })
    fc.assert(
      fc.property(fc.dictionary(fc.string(), anything), (attributes) => {
        const before = fc.stringify(attributes)
        const envelope = emitted({ attributes, actor: { type: 'a', tags: attributes } })
        expect(JSON.parse(JSON.stringify(envelope))).to.deep.equal(envelope)
        expect(fc.stringify(attributes)).to.equal(before)
      }),
      { numRuns: runs(500) },
    )
  })

  it('toRedactedJson() does not change JSON', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 5, noUnicodeString: false } as never)),
        (attributes) => {
          expect(JSON.stringify(copied(attributes))).to.equal(JSON.stringify(attributes))
        },
      ),
      { numRuns: runs(300) },
    )
  })
})
