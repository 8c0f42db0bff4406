import { expect } from 'chai'
import { z } from 'zod'
import { KitTelemetryEvents } from '../../../src/telemetry/index.ts'
import { expectCode } from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

const schema = z.object({ cents: z.number() })
const namespace = KitTelemetryEvents.namespace

describe('KitTelemetryEvents', () => {
  const billing = namespace('billing')
    .event('opened', schema)
    .group('invoice', (invoice) =>
      invoice.event('paid', schema).group('reminder', (reminder) => reminder.event('sent', schema)),
    )
    .build()

  it('a registry joins namespace, groups, and event with dots', () => {
    expect(billing.get.key('opened')).to.equal('billing.opened')
    expect(billing.get.key('invoice.paid')).to.equal('billing.invoice.paid')
    expect(billing.get.key('invoice.reminder.sent')).to.equal('billing.invoice.reminder.sent')
    expect(billing.get.schema('invoice.paid')).to.equal(schema)
    expect(billing.names).to.deep.equal(['opened', 'invoice.paid', 'invoice.reminder.sent'])
    expect(billing.namespace).to.equal('billing')
  })

  it('a registry can be started with create()', () => {
    expect(KitTelemetryEvents.create().namespace('a').event('b', schema).build().get.key('b')).to.equal('a.b')
  })

  for (const name of ['nothing', 'invoice', 'constructor', '__proto__', 'toString', '', 'billing.opened']) {
    it(`a registry throws for the short key ${JSON.stringify(name)}, which it does not have`, () => {
      expectCode('TELEMETRY_UNKNOWN_EVENT', () => billing.get.key(name as Wrong))
      expectCode('TELEMETRY_UNKNOWN_EVENT', () => billing.get.schema(name as Wrong))
    })
  }

  it('the error for an unknown key suggests the nearest key', () => {
    expect(expectCode('TELEMETRY_UNKNOWN_EVENT', () => billing.get.key('opend' as Wrong)).message).to.include(
      "'opened'",
    )
  })

  it('the error for an unknown key suggests nothing for a name that is too different or too long', () => {
    for (const name of ['zzzzzzzzz', 'x'.repeat(300)]) {
      expect(
        expectCode('TELEMETRY_UNKNOWN_EVENT', () => billing.get.key(name as Wrong)).message,
      ).not.to.include('mean')
    }
  })

  it('a registry is immutable', () => {
    const base = namespace('a').event('one', schema)
    base.event('two', schema)
    expect(base.build().names).to.deep.equal(['one'])
    expect(base.event('two', schema).build().names).to.deep.equal(['one', 'two'])
    expect(Object.isFrozen(base.build())).to.equal(true)
  })

  for (const name of ['', 'a b', 'a:b', 'a\tb', 5 as Wrong]) {
    it(`a registry rejects the namespace ${JSON.stringify(name)}`, () => {
      expectCode('TELEMETRY_INVALID_NAMESPACE', () => namespace(name))
    })
  }

  for (const name of ['__a', '__', 'kit', 'kit.mcp', 'kit.x']) {
    it(`the namespace ${name} is reserved`, () => {
      expectCode('TELEMETRY_RESERVED_NAMESPACE', () => namespace(name))
    })
  }

  it('a namespace that only resembles a reserved one is not reserved', () => {
    for (const name of ['kitchen', 'kit-x', 'a.kit', '_a'])
      expect(namespace(name).build().namespace).to.equal(name)
  })

  const twice: [string, () => unknown][] = [
    ['an event twice', () => namespace('a').event('b', schema).event('b', schema)],
    [
      'a group twice',
      () =>
        namespace('a')
          .group('b', (g) => g)
          .group('b', (g) => g),
    ],
    [
      'an event and a group of one name',
      () =>
        namespace('a')
          .event('b', schema)
          .group('b', (g) => g),
    ],
    [
      'a group and an event of one name',
      () =>
        namespace('a')
          .group('b', (g) => g)
          .event('b', schema),
    ],
    [
      'an event twice in a group',
      () => namespace('a').group('b', (g) => g.event('c', schema).event('c', schema)),
    ],
    [
      'a key by an event and by a group',
      () =>
        namespace('a')
          .event('b.c', schema)
          .group('b', (g) => g.event('c', schema)),
    ],
  ]
  for (const [what, work] of twice)
    it(`a registry rejects ${what}`, () => void expectCode('TELEMETRY_DUPLICATE_EVENT', work))

  const names: [string, () => unknown][] = [
    ['an empty name', () => namespace('a').event('', schema)],
    ['a name with a space', () => namespace('a').event('b c', schema)],
    ['a name with a colon', () => namespace('a').event('b:c', schema)],
    ['a group with a control character', () => namespace('a').group('b\u0001', (g) => g)],
    ['a name in a group', () => namespace('a').group('b', (g) => g.event('c d', schema))],
    ['a full key that is too long', () => namespace('a'.repeat(200)).event('b'.repeat(100), schema)],
    [
      'a full key too long by its group',
      () => namespace('a').group('b'.repeat(200), (g) => g.event('c'.repeat(100), schema)),
    ],
    ['a full key with a control character', () => namespace('a\u0001').event('b', schema)],
  ]
  for (const [what, work] of names)
    it(`a registry rejects ${what}`, () => void expectCode('TELEMETRY_INVALID_EVENT_NAME', work))
})
