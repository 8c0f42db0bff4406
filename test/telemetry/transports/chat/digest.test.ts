import { expect } from 'chai'
import type { TelemetryEnvelope } from '../../../../src/telemetry/index.ts'
import { digestOf as digestOfAlerts } from '../../../../src/telemetry/transports/chat/digest.ts'
import { anEvent } from '../../../support/chat-services.ts'

const digestOf = (envelopes: readonly TelemetryEnvelope[]) =>
  digestOfAlerts(envelopes.map((envelope) => ({ envelope, count: 1 })))

describe('digestOf()', () => {
  for (const [title, alerts, more] of [
    ['one repeated event', [{ count: 37, withinMs: 299_800 }], ' (37 more in 5 minutes)'],
    ['a repeated event after seconds', [{ count: 2, withinMs: 1_200 }], ' (2 more in 1 second)'],
    [
      'a repeated event and others',
      [{ count: 37, withinMs: 60_000 }, { count: 4, withinMs: 60_000 }, { count: 1 }],
      ' (37 more in 1 minute) and 5 more',
    ],
    ['an event and repeated ones', [{ count: 1 }, { count: 4, withinMs: 60_000 }], ' and 4 more'],
  ] as const)
    it(`digestOf() counts ${title}`, () => {
      const made = alerts.map((alert, index) => ({ ...alert, envelope: anEvent({ name: `kind.${index}` }) }))
      expect(digestOfAlerts(made).more).to.equal(more)
    })

  it('digestOf() shows the most severe event, and counts the others', () => {
    const events = [anEvent({ name: 'a', level: 'warn' }), anEvent({ name: 'b', level: 'fatal' })]
    expect(digestOf(events)).to.include({ name: 'b', level: 'fatal', more: ' and 1 more' })
    expect(digestOf(events.slice(0, 1))).to.include({ name: 'a', more: '' })
  })

  it('digestOf() lists ten kinds of other events, the most severe and most frequent first, and counts the remaining kinds', () => {
    const kinds = Array.from({ length: 13 }, (_, kind) => {
      const event = anEvent({ name: `kind.${kind}`, level: kind === 12 ? 'error' : 'warn' })
      return Array.from({ length: kind + 1 }, () => ({ ...event }))
    })
    const { details } = digestOf([anEvent({ name: 'lead', level: 'fatal' }), ...kinds.flat()])
    const lines = details.at(-1)?.split('\n') ?? []
    expect(lines[0]).to.match(/^13 × ERROR kind\.12/)
    expect(lines[1]).to.match(/^12 × WARN kind\.11/)
    expect(lines).to.have.length(11)
    expect(lines.at(-1)).to.equal('… 3 kinds left out')
  })

  it('digestOf() has as many attributes as fit, and counts the remaining ones', () => {
    const attributes = Object.fromEntries(Array.from({ length: 40 }, (_, key) => [`k${key}`, 'x'.repeat(95)]))
    const lines =
      digestOf([anEvent({ attributes })])
        .details.at(-1)
        ?.split('\n') ?? []
    const shown = lines.length - 1
    expect(shown).to.be.within(8, 11)
    expect(lines.at(-1)).to.equal(`… ${40 - shown} attributes left out`)
  })

  it('digestOf() cuts the line of an error to 400 characters, and keeps its code', () => {
    const error = { name: 'Error', message: 'x'.repeat(500), code: 'E_LONG' }
    const line = digestOf([anEvent({ error })]).error
    expect(line).to.have.length(400)
    expect(line).to.match(/… \(E_LONG\)$/)
  })
})
