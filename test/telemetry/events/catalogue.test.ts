import { type } from 'arktype'
import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import * as v from 'valibot'
import { z } from 'zod'
import { KitTelemetryEvents } from '../../../src/telemetry/index.ts'
import { expectCode, recording } from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

describe('catalogue()', () => {
  const billing = KitTelemetryEvents.namespace('billing')
    .event('opened', z.object({ plan: z.enum(['free', 'pro']) }).describe('An account was opened'))
    .group('invoice', (invoice) =>
      invoice
        .event(
          'paid',
          z.object({
            cents: z.int().describe('Amount | in cents'),
            at: z.iso.datetime().optional(),
            customer: z.object({ country: z.string().nullable(), tags: z.array(z.string()) }),
          }),
        )
        .event('sent', z.object({ on: z.date() })),
    )
    .event('closed', z.object({}))
    .build()

  it('catalogue() lists every event by its full key, sorted, with its JSON Schema if there is one', () => {
    const { namespace, events } = billing.catalogue()
    expect(namespace).to.equal('billing')
    expect(events.map(({ key, name }) => [key, name])).to.deep.equal([
      ['billing.closed', 'closed'],
      ['billing.invoice.paid', 'invoice.paid'],
      ['billing.invoice.sent', 'invoice.sent'],
      ['billing.opened', 'opened'],
    ])
    for (const event of events) expect(event.namespace).to.equal('billing')
    const [closed, paid, sent, opened] = events
    expect(closed?.jsonSchema).to.include({ type: 'object' })
    expect(paid?.jsonSchema).to.deep.include({ type: 'object', required: ['cents', 'customer'] })
    expect(opened?.jsonSchema?.properties).to.deep.equal({ plan: { type: 'string', enum: ['free', 'pro'] } })
    // A Date cannot be written as JSON Schema.
    expect(sent).not.to.have.property('jsonSchema')
  })

  it('catalogue() returns plain data, the same at each call', () => {
    const catalogue = billing.catalogue()
    expect(JSON.stringify(billing.catalogue())).to.equal(JSON.stringify(catalogue))
    expect(billing.catalogue().toMarkdown()).to.equal(catalogue.toMarkdown())
    expect(Object.isFrozen(catalogue.events)).to.equal(true)
    const other = KitTelemetryEvents.namespace('n')
    const [ab, ba] = [
      other.event('a', z.object({})).event('b', z.object({})),
      other.event('b', z.object({})).event('a', z.object({})),
    ]
    expect(ab.build().catalogue().toMarkdown()).to.equal(ba.build().catalogue().toMarkdown())
  })

  it('catalogue() returns Markdown', () => {
    expect(billing.catalogue().toMarkdown()).to.equal(
      [
        '# Events of billing',
        '',
        '## billing.closed',
        '',
        'No attributes are declared.',
        '',
        '## billing.invoice.paid',
        '',
        '| Attribute | Type | Required | Description |',
        '| --- | --- | --- | --- |',
        '| `cents` | integer | yes | Amount \\| in cents |',
        '| `at` | string (date-time) | no |  |',
        '| `customer` | object | yes |  |',
        '| `customer.country` | string or null | yes |  |',
        '| `customer.tags` | array of string | yes |  |',
        '',
        '## billing.invoice.sent',
        '',
        'Its schema does not describe its attributes.',
        '',
        '## billing.opened',
        '',
        'An account was opened',
        '',
        '| Attribute | Type | Required | Description |',
        '| --- | --- | --- | --- |',
        '| `plan` | "free" or "pro" | yes |  |',
        '',
      ].join('\n'),
    )
  })

  it('catalogue() ends for a schema that contains itself', () => {
    const properties: Record<string, unknown> = {}
    const own = { type: 'object', properties }
    properties.own = own
    const catalogue = KitTelemetryEvents.namespace('n')
      .event(
        'e',
        schemaGiving(() => own),
      )
      .build()
      .catalogue()
    expect(catalogue.toMarkdown()).to.contain('| `own` | object | no |')
  })

  it('catalogue() escapes the content of a schema, which cannot break the table', () => {
    const properties = {
      any: {},
      yes: true,
      fixed: { const: 5 },
      either: { oneOf: [{ type: 'string' }, { type: 'string' }, { $ref: '#/$defs/Money' }] },
      several: { type: ['string', 'null'] },
      list: { type: 'array' },
      'od`d\n|name': { type: 'string', description: '<b>*bold*</b>\nnext' },
    }
    const schema = schemaGiving(() => ({ properties }))
    const markdown = KitTelemetryEvents.namespace('n').event('e', schema).build().catalogue().toMarkdown()
    expect(markdown.split('\n').slice(6, -1)).to.deep.equal([
      '| `any` | any | no |  |',
      '| `yes` | any | no |  |',
      '| `fixed` | 5 | no |  |',
      '| `either` | string or Money | no |  |',
      '| `several` | string or null | no |  |',
      '| `list` | array of any | no |  |',
      '| od\\`d \\|name | string | no | \\<b\\>\\*bold\\*\\</b\\> next |',
    ])
  })

  it('catalogue() leaves out the result of a schema that is not a JSON Schema', () => {
    for (const give of [() => 'text', () => null, () => [], undefined]) {
      const descriptor = KitTelemetryEvents.namespace('n').event('e', schemaGiving(give)).build()
      expect(descriptor.catalogue().events).to.deep.equal([{ key: 'n.e', namespace: 'n', name: 'e' }])
    }
  })
})

describe('schemas of Standard Schema libraries', () => {
  const shop = KitTelemetryEvents.namespace('shop')
    .event('zod', z.object({ cents: z.number(), note: z.string().optional() }))
    .event('valibot', v.object({ cents: v.number(), note: v.optional(v.string()) }))
    .event('arktype', type({ cents: 'number', 'note?': 'string' }))
    .build()

  it('attributes have the types of a schema of zod, valibot, and arktype', () => {
    type Attributes = (typeof shop)['$Infer']['events']
    expectTypeOf<Attributes['zod']>().toEqualTypeOf<{ cents: number; note?: string | undefined }>()
    expectTypeOf<Attributes['valibot']>().toEqualTypeOf<{ cents: number; note?: string | undefined }>()
    expectTypeOf<Attributes['arktype']>().toEqualTypeOf<{ cents: number; note?: string }>()
  })

  for (const library of ['zod', 'valibot', 'arktype'] as const) {
    it(`attributes of another type than a schema of ${library} are rejected, at compile time as well`, () => {
      const { builder, events } = recording()
      const manager = builder.addEvents(shop, { mode: 'always' }).build()
      const key = shop.get.key(library)
      // @ts-expect-error cents is a number
      const wrong = () => manager.emit(key, { attributes: { cents: '5' } })
      expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', wrong)
      manager.emit(key, { attributes: { cents: 5, note: 'n' } })
      expect(events()).to.have.length(1)
    })

    it(`catalogue() has the JSON Schema of a schema of ${library} if the library supports it`, () => {
      const schema = shop.catalogue().events.find(({ name }) => name === library)?.jsonSchema
      if (library === 'valibot') expect(schema).to.equal(undefined)
      else expect(schema).to.deep.include({ type: 'object', required: ['cents'] })
    })
  }
})

/** A schema of a library of one's own. */
function schemaGiving(input: (() => unknown) | undefined): Wrong {
  const validate = (value: unknown) => ({ value })
  return {
    '~standard': {
      version: 1,
      vendor: 'own',
      validate,
      jsonSchema: input === undefined ? undefined : { input },
    },
  }
}
