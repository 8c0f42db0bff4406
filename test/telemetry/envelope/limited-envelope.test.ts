import { expect } from 'chai'
import fc from 'fast-check'
import { latestCopyBytes, toRedactedJson } from '../../../src/telemetry/envelope/redacted-json.ts'
import { KEEP_EVERYTHING } from '../../../src/telemetry/envelope/redaction.ts'
import { Redactor } from '../../../src/telemetry/envelope/redactor.ts'
import { textBytes, valueBytes } from '../../../src/telemetry/envelope/weight.ts'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  type TelemetryEmitInput,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'
import { runs } from '../../support/runs.ts'
import { keepingEvents, RecordingLogger } from '../../support/telemetry/recording.ts'

const MIB = 2 ** 20
const list = (bytes: number) => Array.from({ length: bytes / 1_000 }, () => 'x'.repeat(997))

/** Emits an event, and returns its envelope, the statistics of its transport, and the messages of the logger. */
function emitted(input: TelemetryEmitInput) {
  const memory = InMemoryTransportAdapter.create()
  const logger = new RecordingLogger()
  const manager = KitTelemetry.create()
    .withLogger(logger)
    .withSampling({ infoRate: 1 })
    .withRedaction({ maxStringLength: 10 * MIB })
    .addTransport(memory)
    .build()
  manager.emit('a', input)
  return { envelope: memory.getEvents()[0] as TelemetryEnvelope, manager, logger }
}

describe('the size of an event', () => {
  const tooLarge: [what: string, input: TelemetryEmitInput, removed: string[], kept: string[]][] = [
    [
      'two large attributes',
      { attributes: { small: 1, larger: list(700_000), large: list(500_000) } },
      ['larger'],
      ['small', 'large'],
    ],
    [
      'an attribute of three bytes for each character',
      { attributes: { text: '漢'.repeat(400_000), id: 'u1' } },
      ['text'],
      ['id'],
    ],
    [
      'an attribute of control characters',
      { attributes: { text: '\u0000'.repeat(180_000), id: 'u1' } },
      ['text'],
      ['id'],
    ],
    [
      'an attribute of quotes and backslashes',
      { attributes: { text: '"\\'.repeat(300_000), id: 'u1' } },
      ['text'],
      ['id'],
    ],
    [
      'an attribute of 90,000 references to one string',
      { attributes: { list: new Array(90_000).fill('x'.repeat(5_000)), id: 'u1' } },
      ['list'],
      ['id'],
    ],
    [
      'a key of 2 MiB',
      { attributes: { ['k'.repeat(2 * MIB)]: 1, id: 'u1' } },
      [`${'k'.repeat(99)}…`],
      ['id'],
    ],
    [
      'large tags',
      {
        actor: { type: 'user', id: 'u1', tags: { list: list(600_000) } },
        scope: { type: 'org', id: 'o1', tags: { list: list(500_000) } },
        attributes: { id: 'u1' },
      },
      ['actor.tags'],
      ['id'],
    ],
    [
      'a large stack, without attributes',
      { error: { name: 'Error', message: 'failed', stack: 'x'.repeat(2 * MIB) } },
      ['error.stack'],
      [],
    ],
  ]
  for (const [what, input, removed, kept] of tooLarge) {
    it(`an event with ${what} loses the largest part, and kit.truncated names it`, () => {
      const { attributes, ...rest } = emitted(input).envelope
      expect(attributes?.['kit.truncated']).to.deep.equal(removed)
      expect(Object.keys(attributes ?? {})).to.deep.equal([...kept, 'kit.truncated'])
      expect(Buffer.byteLength(JSON.stringify({ ...rest, attributes }))).to.be.at.most(MIB)
    })
  }

  it('an event keeps what fits if it has too large actor tags', () => {
    const { actor } = emitted({ actor: { type: 'user', id: 'u1', tags: { list: list(2_000_000) } } }).envelope
    expect(actor).to.deep.equal({ type: 'user', id: 'u1' })
  })

  it('an event with 30,000 attributes names the ten largest that it loses, and counts the others', () => {
    const text = 'x'.repeat(50)
    const attributes = Object.fromEntries(
      Array.from({ length: 30_000 }, (_, index) => [`key${index}`, index < 10 ? text + text : text]),
    )
    const { envelope } = emitted({ attributes })
    const names = envelope.attributes?.['kit.truncated'] as string[]
    const removed = 30_001 - Object.keys(envelope.attributes ?? {}).length
    expect(names.slice(0, 10)).to.have.members(Object.keys(attributes).slice(0, 10))
    expect(names.slice(10)).to.deep.equal([`… and ${removed - 10} more`])
    expect(Buffer.byteLength(JSON.stringify(envelope))).to.be.within(MIB - 20_000, MIB)
  })

  it('an event of the attributes of its session loses the largest of them', () => {
    const { telemetry: manager, transport: memory } = keepingEvents()
    const session = manager.session().attributes({ list: list(900_000) })
    session.emit('a', { attributes: { other: list(300_000) } })
    expect(memory.getEvents()[0]?.attributes?.['kit.truncated']).to.deep.equal(['list'])
  })

  for (const [what, attributesOf] of Object.entries<(length: number) => Record<string, unknown>>({
    'a string': (length) => ({ large: 'x'.repeat(length) }),
    'an array': (length) => ({ large: ['x'.repeat(1_000), 'x'.repeat(length), 5, null, true] }),
    'an object': (length) => ({ large: { a: 'x'.repeat(1_000), b: {}, c: [], d: 'x'.repeat(length) } }),
    'a key': (length) => ({ large: { ['k'.repeat(length)]: 1 } }),
    'three bytes for a character': (length) => ({ large: `漢${'x'.repeat(length)}` }),
  }))
    it(`an event with ${what} keeps it up to exactly 1 MiB`, () => {
      const jsonOf = (length: number) =>
        JSON.stringify(emitted({ attributes: attributesOf(length) }).envelope)
      const length = 100_000 + MIB - Buffer.byteLength(jsonOf(100_000))
      expect(Buffer.byteLength(jsonOf(length))).to.equal(MIB)
      expect(JSON.parse(jsonOf(length + 1)).attributes).to.deep.equal({ 'kit.truncated': ['large'] })
    })

  for (const [count, more] of [
    [10, []],
    [11, ['… and 1 more']],
  ] as const)
    it(`an event that loses ${count} attributes names ten`, () => {
      // The last attribute fits, and the others do not.
      const attributes = {
        ...Object.fromEntries(
          Array.from({ length: count }, (_, index) => [`large${index}`, list(1_041_000)]),
        ),
        small: list(1_030_000),
      }
      const names = emitted({ attributes }).envelope.attributes?.['kit.truncated'] as string[]
      expect(names).to.have.length(10 + more.length)
      expect(names.slice(10)).to.deep.equal(more)
    })

  it('an event of less than 1 MiB loses nothing', () => {
    const attributes = { list: list(1_040_000), text: '漢"\u0000', nested: { numbers: [1, 2.5, null, true] } }
    expect(emitted({ attributes }).envelope.attributes).to.deep.equal(attributes)
  })

  for (const [what, input] of Object.entries<TelemetryEmitInput>({
    'session id': { sessionId: 's'.repeat(2 * MIB) },
    'actor id': { actor: { type: 'user', id: 'u'.repeat(2 * MIB) } },
    'error message': { error: { name: 'Error', message: 'x'.repeat(2 * MIB) } },
    'source file': { source: { file: 'f'.repeat(2 * MIB) } },
  })) {
    it(`an event whose ${what} is larger than 1 MiB fails, and the logger receives the reason`, () => {
      const { envelope, manager, logger } = emitted({ ...input, attributes: { id: 1 } })
      expect(envelope).to.equal(undefined)
      expect(manager.stats()).to.include({ emitted: 1 })
      expect(manager.stats().transports[0]).to.include({ accepted: 1, failed: 1 })
      expect(logger.errors[0]?.message).to.include(
        'the event is larger than 1 MiB without its attributes, tags, and stack',
      )
    })
  }

  it('the bytes of an actor and of a scope count their type, their id, and their tags', () => {
    const redactor = new Redactor(KEEP_EVERYTHING)
    const bytesOf = (tags?: Record<string, string>) => {
      const given = { type: 'user', id: 'ada', ...(tags !== undefined && { tags }) }
      redactor.actor(given)
      const { bytes } = redactor
      redactor.scope(given)
      expect(redactor.bytes).to.equal(bytes)
      return bytes
    }
    expect(bytesOf()).to.equal(textBytes('user') + textBytes('ada'))
    expect(bytesOf({ plan: 'pro' })).to.equal(bytesOf() + valueBytes({ plan: 'pro' }))
  })

  it('the bytes of a copy that are counted while it is made equal those that are counted afterwards', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 6 })), (value) => {
        const copy = toRedactedJson(value, KEEP_EVERYTHING)
        expect(latestCopyBytes()).to.equal(valueBytes(copy))
      }),
      { numRuns: runs(500) },
    )
  })
})
