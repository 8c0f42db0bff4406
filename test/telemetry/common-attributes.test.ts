import { type } from 'arktype'
import { expect } from 'chai'
import * as v from 'valibot'
import { z } from 'zod'
import {
  type KitTelemetry,
  KitTelemetryEvents,
  type TelemetryAttributesSource,
  type TelemetryEventSchema,
} from '../../src/telemetry/index.ts'
import { expectCode, recording } from '../support/telemetry/recording.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

/** Emits events with common attributes, and returns those of the last event, and the reports. */
function emitWith(
  sources: readonly TelemetryAttributesSource[],
  emit: (manager: ReturnType<KitTelemetry['build']>) => unknown = (manager) => manager.emit('a'),
  shape: (builder: KitTelemetry) => KitTelemetry = (builder) => builder,
) {
  const { builder, logger, events } = recording()
  const manager = shape(
    sources.reduce<KitTelemetry>((made, source) => made.withAttributes(source), builder),
  ).build()
  emit(manager)
  return {
    attributes: events().at(-1)?.attributes,
    count: events().length,
    reports: logger.warnings.map(({ message }) => message),
  }
}

describe('withAttributes', () => {
  const merged: readonly (readonly [what: string, sources: Wrong[], emit: Wrong, expected: Wrong])[] = [
    [
      'several, of which later ones win',
      [{ a: 1, b: 1 }, () => ({ b: 2, c: 2 }), { c: 3 }],
      undefined,
      { a: 1, b: 2, c: 3 },
    ],
    [
      'below those of the event',
      [{ a: 1, b: 1 }],
      (m: Wrong) => m.emit('a', { attributes: { b: 2 } }),
      { a: 1, b: 2 },
    ],
    [
      'below those of the session',
      [() => ({ a: 1, b: 1, c: 1 })],
      (m: Wrong) =>
        m
          .session()
          .attributes({ b: 2, c: 2 })
          .emit('a', { attributes: { c: 3 } }),
      { a: 1, b: 2, c: 3 },
    ],
    [
      'below those of a session alone',
      [{ a: 1, b: 1 }],
      (m: Wrong) => m.session().attributes({ b: 2 }).emit('a'),
      { a: 1, b: 2 },
    ],
    [
      'a key of the prototype',
      [JSON.parse('{"__proto__":{"x":1}}'), { a: 1 }],
      undefined,
      JSON.parse('{"__proto__":{"x":1},"a":1}'),
    ],
    ['maps', [new Map([['a', 1]]), () => new Map([['b', 2]])], undefined, { a: 1, b: 2 }],
    ['a function that returns nothing', [() => undefined], undefined, {}],
    ['an event of this package', [{ a: 1 }], (m: Wrong) => m.emit('kit.mcp.tool.completed'), { a: 1 }],
  ]
  for (const [what, sources, emit, expected] of merged) {
    it(`withAttributes adds ${what}`, () => {
      const { attributes, reports } = emitWith(sources, emit)
      expect(JSON.stringify(attributes)).to.equal(JSON.stringify(expected))
      expect(reports).to.deep.equal([])
    })
  }

  const wrong: readonly (readonly [what: string, source: Wrong, reason: string])[] = [
    ['throws', () => JSON.parse('{'), 'the function threw'],
    ['returns a string', () => 'eu', 'received a string'],
    ['returns an array', () => ['eu'], 'received an array'],
    ['returns a promise that rejects', async () => JSON.parse('{'), 'attributes must be an object'],
    [
      'returns an object that throws',
      () => ({
        get a() {
          return JSON.parse('{')
        },
      }),
      'the function threw',
    ],
  ]
  for (const [what, source, reason] of wrong) {
    it(`withAttributes delivers every event and reports once if a function ${what}`, () => {
      const { attributes, count, reports } = emitWith([{ a: 1 }, source, { b: 2 }], (manager) => {
        for (const name of ['a', 'b', 'a']) manager.emit(name)
      })
      expect(count).to.equal(3)
      expect(attributes).to.deep.equal({ a: 1, b: 2 })
      expect(reports).to.have.length(1)
      expect(reports[0]).to.include('TELEMETRY_EMIT_FAILED').and.to.include(reason)
    })
  }

  it('withAttributes delivers events whose common attributes have an own toJSON', () => {
    const { attributes, count, reports } = emitWith([() => ({ toJSON: () => 5 })], (manager) => {
      manager.emit('a')
      manager.emit('b', { attributes: { own: 1 } })
    })
    expect([attributes, count, reports.length]).to.deep.equal([{ own: 1 }, 2, 1])
  })

  it('withAttributes calls a function once for each event that is kept or validated, and not for others', () => {
    let calls = 0
    const source = () => {
      calls++
      return { n: calls }
    }
    const registry = KitTelemetryEvents.namespace('shop')
      .event('sold', z.object({ n: z.number() }))
      .build()
    const counts = (shape: (builder: KitTelemetry) => Wrong, name = 'a') => {
      calls = 0
      emitWith([source], (manager) => manager.emit(name), shape)
      return calls
    }
    expect(counts((builder) => builder)).to.equal(1)
    expect(counts((builder) => builder.withSampling({ infoRate: 0 }))).to.equal(0)
    expect(counts((builder) => builder.addEvents(registry), 'shop.sold')).to.equal(1)
    expect(
      counts((builder) => builder.addEvents(registry).withSampling({ infoRate: 0 }), 'shop.sold'),
    ).to.equal(1)
  })

  it('withAttributes does not call a function for an event that it emits itself', () => {
    const holder: { manager?: Wrong } = {}
    const { count } = emitWith(
      [
        () => {
          holder.manager?.emit('inner')
          return { a: 1 }
        },
      ],
      (manager) => {
        holder.manager = manager
        manager.emit('outer')
      },
    )
    expect(count).to.equal(2)
  })

  it('withAttributes copies an object, and redacts what it and a function give', () => {
    const given = { password: 'x', email: 'ada@example.com', long: 'abcdefgh' }
    const { attributes } = emitWith(
      [given, () => ({ token: 'y', nested: { password: 'z' } })],
      (manager) => {
        given.long = 'changed'
        manager.emit('a')
      },
      (builder) =>
        builder.withRedaction({
          denylistKeys: ['password', 'token'],
          hashKeys: ['email'],
          maxStringLength: 64,
        }),
    )
    expect(attributes).to.deep.equal({
      email: 'b4c9a289323b21a01c3e940f150eb9b8c542587f1abfd8f0e1cc1ffc5e475514'.replace(
        /.*/,
        attributes?.email as string,
      ),
      long: 'abcdefgh',
      nested: {},
    })
    expect(attributes?.email).to.match(/^[0-9a-f]{64}$/)
  })

  const schemas: readonly (readonly [
    library: string,
    loose: TelemetryEventSchema,
    strict: TelemetryEventSchema,
  ])[] = [
    [
      'zod',
      z.object({ region: z.string(), n: z.number().optional() }),
      z.strictObject({ region: z.string() }),
    ],
    [
      'valibot',
      v.object({ region: v.string(), n: v.optional(v.number()) }),
      v.strictObject({ region: v.string() }),
    ],
    [
      'arktype',
      type({ region: 'string', 'n?': 'number' }) as Wrong,
      type({ '+': 'reject', region: 'string' }) as Wrong,
    ],
  ]
  const validated: readonly (readonly [
    what: string,
    kind: 0 | 1,
    common: Wrong,
    own: Wrong,
    strict: boolean,
    path?: string,
  ])[] = [
    ['satisfy required members', 0, { region: 'eu' }, undefined, false],
    ['satisfy a member that the event has as undefined', 0, { region: 'eu' }, { region: undefined }, false],
    ['are not counted by strict', 0, { region: 'eu', zone: 'a' }, {}, true],
    ['are not counted by a strict schema', 1, { zone: 'a' }, { region: 'eu' }, false],
    ['do not excuse an undeclared attribute of the event', 0, { region: 'eu' }, { zone: 'a' }, true, 'zone'],
    ['are validated', 0, { region: 'eu', n: 'x' }, {}, false, 'n'],
    ['do not replace those of the event', 0, { region: 'eu' }, { region: 5 }, false, 'region'],
  ]
  for (const [library, ...kinds] of schemas) {
    for (const [what, kind, common, own, strict, path] of validated) {
      // arktype returns undeclared attributes, so the option strict cannot find them.
      if (library === 'arktype' && path === 'zone') continue
      it(`withAttributes and a schema of ${library}: common attributes ${what}`, () => {
        const registry = KitTelemetryEvents.namespace('shop').event('sold', kinds[kind]).build()
        const emit = () =>
          emitWith(
            [common],
            (manager) => manager.emit('shop.sold' as Wrong, { attributes: own }),
            (builder) => builder.addEvents(registry, { mode: 'always', strict }) as Wrong,
          )
        if (path === undefined)
          expect(emit().attributes).to.deep.equal({ ...common, ...JSON.parse(JSON.stringify(own ?? {})) })
        else
          expect(expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', emit).details?.issues).to.deep.equal([
            { path: [path] },
          ])
      })
    }
  }

  for (const argument of [undefined, null, 'eu', 5, ['eu']] as Wrong[]) {
    it(`withAttributes rejects ${JSON.stringify(argument)}`, () => {
      expect(
        expectCode('TELEMETRY_CONFIGURATION_INVALID', () => recording().builder.withAttributes(argument))
          .message,
      ).to.include('the argument of withAttributes() must be an object of attributes, or a function')
    })
  }
})
