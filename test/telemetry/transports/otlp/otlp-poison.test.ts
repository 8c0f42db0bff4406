import { types } from 'node:util'
import { expect } from 'chai'
import fc from 'fast-check'
import { KitTelemetry, type KitTelemetryManager, OtlpTransportAdapter } from '../../../../src/index.ts'
import { anyCharacter } from '../../../support/any-character.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../../support/otlp-receiver.ts'
import { runs } from '../../../support/runs.ts'

class Account {
  readonly #secret = 1
  readonly id = 7
  get secret(): number {
    return this.#secret
  }
}

function deep(levels: number): object {
  let value = {}
  for (let level = 0; level < levels; level++) value = { value }
  return value
}

function cyclic(): object {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  return cycle
}

const hostile = new Proxy(
  {},
  {
    get() {
      throw new Error('no')
    },
    ownKeys() {
      throw new Error('no')
    },
  },
)

const throwing = {
  get value(): never {
    throw new Error('no')
  },
}

/** Attributes because of which the SDK loses an attribute, an event, or a batch. */
const POISONS: Readonly<Record<string, unknown>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-0': -0,
  '2 ** 53': 2 ** 53,
  '2 ** 63': 2 ** 63,
  '-(2 ** 63)': -(2 ** 63),
  '1e300': 1e300,
  '5e-324': 5e-324,
  bigint: 2n ** 70n,
  'small bigint': 1n,
  symbol: Symbol('s'),
  function: () => {},
  undefined: undefined,
  null: null,
  'lone surrogate': '\ud800',
  'all controls': '\u0000\u0001\u001f\u007f\u2028',
  date: new Date(0),
  'invalid date': new Date(Number.NaN),
  map: new Map<unknown, unknown>([
    [{}, Number.NaN],
    ['k', 1n],
  ]),
  set: new Set([Number.NaN, 2n ** 64n]),
  error: Object.assign(new TypeError('bad'), { code: 'E', cause: new Error('why') }),
  'class instance': new Account(),
  'nested all': [
    { date: new Date(Number.NaN), deep: [[Number.NaN, undefined, () => {}]], bytes: Buffer.from([255]) },
  ],
  'typed array': new Float64Array([Number.NaN, 1.5]),
  'big integers': new BigUint64Array([2n ** 64n - 1n]),
  'sparse array': new Array(3),
  cycle: cyclic(),
  '20 000 deep': deep(20_000),
  'throwing getter': throwing,
  'throwing toJSON': { toJSON: () => throwing.value },
  'hostile proxy': hostile,
  'revoked proxy': (() => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  })(),
  'keys of Object': { constructor: 1, __proto__: null, toString: 2, hasOwnProperty: 3, '': 4 },
  'own __proto__': JSON.parse('{"__proto__":{"admin":true}}'),
  '1 000 keys': Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`k${index}`, index])),
  'an OTLP value': { intValue: 'x', doubleValue: null },
}

/** The same of everything else an event has. */
const EVENTS: Readonly<Record<string, object>> = {
  'time before 1970': { time: '1900-01-01T00:00:00Z' },
  'time beyond 64 bits': { time: '9999-12-31T23:59:59Z' },
  'no time': { time: 'yesterday' },
  'time a number': { time: 5 },
  'line a fraction': { source: { line: 1.5, file: '\ud800' } },
  'line 2 ** 63': { source: { line: 2 ** 63, causer: '\udc00' } },
  'actor with odd tags': { actor: { type: 'user\ud800', id: '\udfff', tags: { n: Number.NaN, '': 1 } } },
  'scope with odd tags': {
    scope: { type: 'org', id: '\udfff', tags: { n: 2 ** 70, m: new Map([['', 1n]]) } },
  },
  'an error of odd parts': { error: { name: '\ud800', message: '\udc00', code: '\ud800', stack: '\ud800' } },
  'an Error': { error: new RangeError('far', { cause: cyclic() }) },
  'odd session id': { sessionId: 'ses_\ud800' },
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return false
  return !('toJSON' in value) && [Object.prototype, null].includes(Object.getPrototypeOf(value))
}

describe('OtlpTransportAdapter, poisoned events', () => {
  for (const encoding of ['json', 'protobuf'] as const) {
    describe(encoding, () => {
      let receiver: OtlpReceiver
      let telemetry: KitTelemetryManager
      beforeEach(async () => {
        receiver = await startOtlpReceiver()
        telemetry = KitTelemetry.create()
          .withLogger(false)
          .withSampling({ debugRate: 1, infoRate: 1 })
          .addTransport(OtlpTransportAdapter.create({ url: receiver.url, encoding }))
          .build()
      })
      afterEach(async () => {
        await telemetry.shutdown()
        await receiver.close()
      })

      it(`an event with an unusual value does not affect other events of its request (${encoding})`, async () => {
        let emitted = 0
        const neighbor = () => telemetry.emit('neighbor', { attributes: { number: emitted++ } })
        neighbor()
        for (const [name, poison] of Object.entries(POISONS)) {
          telemetry.emit('poison', { attributes: { name, poison } })
          telemetry.emit('poison', { attributes: { name: `${name}, nested`, poison: { list: [poison] } } })
          if (isPlain(poison)) telemetry.emit('poison', { attributes: poison })
          neighbor()
        }
        for (const [name, event] of Object.entries(EVENTS)) {
          telemetry.emit('poison', { attributes: { name }, ...event })
          neighbor()
        }
        const poisons = telemetry.stats().emitted - emitted
        await telemetry.flush()
        expect(receiver.requests.map(({ status }) => status)).to.deep.equal([200])
        const count = (event: string) =>
          receiver.records.filter(({ eventName }) => eventName === event).length
        expect({ neighbors: count('neighbor'), poisons: count('poison') }).to.deep.equal({
          neighbors: emitted,
          poisons,
        })
        expect(telemetry.stats().transports[0]).to.include({ failed: 0, dropped: 0, pending: 0 })
      })

      it(`an event with any attributes does not affect other events of its request (${encoding})`, async function () {
        this.timeout(60_000)
        const anything = fc.anything({
          withBigInt: true,
          withBoxedValues: true,
          withDate: true,
          withMap: true,
          withNullPrototype: true,
          withObjectString: true,
          withSet: true,
          withSparseArray: true,
          withTypedArray: true,
          withUnicodeString: true,
        })
        const key = fc.oneof(
          fc.string({ unit: anyCharacter }),
          fc.constantFrom('', '__proto__', 'constructor', 'time'),
        )
        const number = fc.oneof(
          fc.double(),
          fc.maxSafeInteger(),
          fc.bigInt(),
          fc.constantFrom(2 ** 63, -(2 ** 64)),
        )
        // UTF-16 units, so that there are lone surrogates.
        const text = fc
          .array(fc.integer({ min: 0, max: 0xffff }))
          .map((units) => String.fromCharCode(...units))
        const attributes = fc.dictionary(key, fc.oneof(anything, number, text))
        let sent = 0
        await fc.assert(
          fc.asyncProperty(fc.array(attributes, { minLength: 1, maxLength: 5 }), text, async (events, id) => {
            for (const given of events)
              telemetry.emit('any', { attributes: given, actor: { type: 'user', id, tags: given } })
            sent += events.length
            await telemetry.flush()
            expect(receiver.requests.filter(({ status }) => status !== 200)).to.deep.equal([])
            expect(receiver.records).to.have.length(sent)
          }),
          { numRuns: runs(150) },
        )
      })
    })
  }
})
