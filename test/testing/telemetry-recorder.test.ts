import { AssertionError } from 'node:assert'
import { expect } from 'chai'
import { KitTelemetry } from '../../src/telemetry/index.ts'
import { createTelemetryRecorder, type EnvelopePattern } from '../../src/testing/index.ts'

/** For arguments that do not compile. */
type Wrong = any

function failureOf(work: () => unknown): AssertionError {
  try {
    work()
  } catch (error) {
    expect(error).to.be.instanceOf(AssertionError)
    return error as AssertionError
  }
  throw new Error('nothing was thrown')
}

describe('createTelemetryRecorder()', () => {
  const recorder = createTelemetryRecorder()
  const manager = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })
    .addTransport(recorder)
    .build()
  beforeEach(() => {
    recorder.clear()
    manager.emit('billing.invoice.opened', { attributes: { cents: 1200 } })
    manager.emit('billing.invoice.paid', {
      actor: { type: 'user', id: 'u1', tags: { plan: 'pro' } },
      attributes: {
        cents: 900,
        lines: [
          { sku: 'a', count: 1 },
          { sku: 'b', count: 2 },
        ],
        card: { brand: 'visa' },
      },
    })
    manager.emit('billing.invoice.failed', { level: 'error', error: new TypeError('no funds') })
  })

  it('a recorder keeps every event in order', () => {
    expect(recorder.events().map(({ name }) => name)).to.deep.equal([
      'billing.invoice.opened',
      'billing.invoice.paid',
      'billing.invoice.failed',
    ])
    expect(recorder.events('billing.invoice.paid')).to.have.length(1)
    expect(recorder.events('billing')).to.deep.equal([])
    recorder.events().pop()
    expect(recorder.events()).to.have.length(3)
    recorder.clear()
    expect(recorder.events()).to.deep.equal([])
    expect(recorder.type).to.equal('recorder')
  })

  const matching: [string, EnvelopePattern][] = [
    ['nothing but the name', {}],
    ['a part of the attributes', { attributes: { cents: 900 } }],
    ['a part of what is nested', { attributes: { card: { brand: 'visa' } } }],
    ['parts of the items of an array', { attributes: { lines: [{ sku: 'a' }, { count: 2 }] } }],
    ['a regular expression', { sessionId: /^ses_/, attributes: { card: { brand: /^vi/g } } }],
    ['a function', { attributes: { cents: (cents: number) => cents > 800 } }],
    [
      'a function for a whole member',
      { attributes: ({ lines }) => lines.length === 2, level: (level) => level === 'info' },
    ],
    [
      'a member that must be absent',
      { error: undefined, scope: undefined, attributes: { nothing: undefined } },
    ],
    ['actor and level', { level: 'info', actor: { type: 'user', tags: { plan: 'pro' } } }],
  ]
  for (const [what, pattern] of matching) {
    it(`expectEvent finds an event by ${what}`, () => {
      expect(recorder.expectEvent('billing.invoice.paid', pattern)).to.equal(recorder.events()[1])
      failureOf(() => recorder.expectNoEvent('billing.invoice.paid', pattern))
    })
  }

  const differing: [string, EnvelopePattern, string][] = [
    ['a value', { attributes: { cents: 1200 } }, 'attributes.cents: expected 1200, got 900'],
    ['a type', { attributes: { cents: '900' } }, "attributes.cents: expected '900', got 900"],
    ['a missing member', { attributes: { vat: 19 } }, 'attributes.vat: expected 19, got undefined'],
    [
      'an inherited member',
      { attributes: { toString: Object.prototype.toString } },
      'attributes.toString: expected',
    ],
    ['a present member', { actor: undefined }, "actor: expected undefined, got { type: 'user'"],
    [
      'an item',
      { attributes: { lines: [{ sku: 'a' }, { sku: 'c' }] } },
      "attributes.lines[1].sku: expected 'c', got 'b'",
    ],
    ['the number of items', { attributes: { lines: [{ sku: 'a' }] } }, 'attributes.lines: expected [ { sku'],
    [
      'an array for none',
      { attributes: { card: ['visa'] } },
      "attributes.card: expected [ 'visa' ], got { brand: 'visa' }",
    ],
    ['an object for none', { attributes: { lines: {} } }, 'attributes.lines: expected {}, got [ '],
    ['a regular expression', { attributes: { cents: /9/ } }, 'attributes.cents: expected /9/, got 900'],
    [
      'a function',
      { attributes: { cents: () => false } },
      'attributes.cents: expected [Function: cents], got 900',
    ],
    ['the level', { level: 'warn' }, "level: expected 'warn', got 'info'"],
  ]
  for (const [what, pattern, difference] of differing) {
    it(`a failure of expectEvent shows ${what} that differs`, () => {
      const { message } = failureOf(() => recorder.expectEvent('billing.invoice.paid', pattern))
      expect(message).to.contain(difference)
      recorder.expectNoEvent('billing.invoice.paid', pattern)
    })
  }

  it('a failure of expectEvent shows the pattern and the recorded events', () => {
    const failure = failureOf(() =>
      recorder.expectEvent('billing.invoice.paid', { attributes: { cents: 1200 } }),
    )
    expect(failure.message).to.equal(
      [
        'no event "billing.invoice.paid" with { attributes: { cents: 1200 } } was recorded',
        '',
        'Recorded: 3 events',
        '  1. info billing.invoice.opened attributes: { cents: 1200 }',
        "  2. info billing.invoice.paid actor: { type: 'user', id: 'u1', tags: { plan: 'pro' } } attributes: { cents: 900, lines: [ { sku: 'a', count: 1 }, { sku: 'b', count: 2 } ], card: { brand: 'visa' } }",
        '       attributes.cents: expected 1200, got 900',
        "  3. error billing.invoice.failed error: { name: 'TypeError', message: 'no funds' }",
      ].join('\n'),
    )
    expect(failure).to.deep.include({
      operator: 'expectEvent',
      actual: recorder.events('billing.invoice.paid'),
    })
    expect(failure.stack?.split('\n').find((line) => line.includes(' at '))).to.contain(
      'telemetry-recorder.test',
    )
  })

  it('a failure mentions sampling if no event has the name', () => {
    expect(failureOf(() => recorder.expectEvent('billing.closed')).message).to.contain(
      'withSampling({ debugRate: 1',
    )
    recorder.clear()
    expect(failureOf(() => recorder.expectEvent('billing.closed')).message).to.contain(
      'Nothing was recorded.',
    )
  })

  it('a failure of expectEvent shows the latest of many events', () => {
    for (let count = 0; count < 100; count++) manager.emit('tick', { attributes: { count } })
    const { message } = failureOf(() => recorder.expectEvent('tock'))
    expect(message)
      .to.contain('Recorded: 103 events, of which the last 20 are\n  84. info tick')
      .and.to.contain('103. info tick')
  })

  it('a failure of expectNoEvent shows the unexpected events', () => {
    expect(
      failureOf(() => recorder.expectNoEvent('billing.invoice.failed', { level: 'error' })).message,
    ).to.equal(
      [
        `an event "billing.invoice.failed" with { level: 'error' } was recorded`,
        '',
        'Recorded: 1 event',
        "  1. error billing.invoice.failed error: { name: 'TypeError', message: 'no funds' }",
      ].join('\n'),
    )
  })

  it('a recorder can be destructured', () => {
    const { expectEvent, expectNoEvent } = recorder
    expectEvent('billing.invoice.paid')
    expectNoEvent('billing.closed')
  })

  it('patterns of a recorder are typed', () => {
    // @ts-expect-error the level does not exist
    recorder.expectNoEvent('x', { level: 'loud' })
    // @ts-expect-error the member does not exist
    recorder.expectNoEvent('x', { session: 'ses_1' })
    recorder.expectNoEvent('x', { level: 'loud' as Wrong })
  })
})
