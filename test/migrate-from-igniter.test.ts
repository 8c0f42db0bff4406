import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { z } from 'zod'
import {
  InMemoryTransportAdapter,
  KitTelemetryError,
  KitTelemetryEvents,
  LoggerTransportAdapter,
  MockTelemetryAdapter,
  type TelemetryTransport,
} from '../src/telemetry/index.ts'

const page = readFileSync(new URL('../../docs/guides/migrate-from-igniter.md', import.meta.url), 'utf8')

/** Returns the row of the page for an old name. */
const nowFor = (before: string): string => {
  const row = page.split('\n').find((line) => line.startsWith('| ') && line.includes(before))
  expect(row, before).to.be.a('string')
  return row as string
}

describe('docs/guides/migrate-from-igniter.md', () => {
  const paid = z.object({ cents: z.number() })
  const descriptor = KitTelemetryEvents.namespace('billing')
    .group('invoice', (invoice) => invoice.event('paid', paid))
    .build()

  it('a descriptor has names and get.schema() instead of events and options', () => {
    expect(nowFor('`descriptor.events`'))
      .to.contain('`descriptor.names`')
      .and.contain('`descriptor.get.schema(name)`')
    expect(descriptor).not.to.have.any.keys('events', 'options')
    expect(descriptor.names).to.deep.equal(['invoice.paid'])
    expect(descriptor.get.schema('invoice.paid')).to.equal(paid)
  })

  it('names of events and groups can begin with __, and namespaces cannot', () => {
    expect(nowFor('begin with `__`')).to.contain('they are allowed')
    const namespace = KitTelemetryEvents.namespace('billing').event('__paid', paid)
    expect(namespace.group('__group', (group) => group.event('__paid', paid)).build().names).to.have.lengthOf(
      2,
    )
    expect(() => KitTelemetryEvents.namespace('__billing')).to.throw(/reserved/)
  })

  it('KitTelemetryError takes the arguments that the page shows', () => {
    expect(nowFor('new IgniterTelemetryError')).to.contain(
      '`new KitTelemetryError(code, message, { cause, details, docs })`',
    )
    const options = { cause: 'c', details: { a: 1 }, docs: 'docs/reference/errors.md' }
    expect(new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'm', options)).to.include({
      message: 'm',
      ...options,
    })
  })

  it('the logger and mock transports have neither flush nor shutdown', () => {
    expect(nowFor('`flush()` and `shutdown()` of')).to.contain('they have neither')
    const transports: TelemetryTransport[] = [
      LoggerTransportAdapter.create({ logger: console }),
      MockTelemetryAdapter.create(),
    ]
    for (const { flush, shutdown } of transports)
      expect([flush, shutdown]).to.deep.equal([undefined, undefined])
    expect(nowFor('`type` of `InMemoryTransportAdapter`')).to.contain(
      `\`${InMemoryTransportAdapter.create().type}\``,
    )
  })
})
