import { JsonLogsSerializer, ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer'
import { expect } from 'chai'
import fc from 'fast-check'
import type { TelemetryEnvelope } from '../../../../src/telemetry/envelope/envelope.ts'
import type { SdkLogRecord } from '../../../../src/telemetry/transports/otlp/otlp-export-slot.ts'
import { toOtlpRecord, writeOtlpAttributes } from '../../../../src/telemetry/transports/otlp/otlp-record.ts'
import { OtlpWeight } from '../../../../src/telemetry/transports/otlp/otlp-weight.ts'
import { anyCharacter } from '../../../support/any-character.ts'
import { runs } from '../../../support/runs.ts'

const SERIALIZERS = { json: JsonLogsSerializer, protobuf: ProtobufLogsSerializer }

const RESOURCE = { attributes: {} }
const SCOPE = { name: 'mcp-gatekit' }
const SPAN = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 }

/** The bytes that a record adds to a request, and its weight. */
function measure(encoding: 'json' | 'protobuf', members: Partial<TelemetryEnvelope>) {
  const envelope = {
    name: 'x',
    time: '2026-11-20T12:00:00.123Z',
    level: 'error',
    service: 's',
    environment: 'e',
    sessionId: 'ses_0',
    ...members,
  } as TelemetryEnvelope
  const sent = toOtlpRecord(envelope)
  const written = writeOtlpAttributes(envelope, {})
  const record = {
    hrTime: [1_700_000_000, 123_456_789],
    hrTimeObserved: [1_700_000_000, 123_456_789],
    severityNumber: sent.severityNumber,
    severityText: sent.severityText,
    body: sent.body,
    eventName: sent.eventName,
    attributes: written,
    droppedAttributesCount: 0,
    spanContext: SPAN,
    resource: RESOURCE,
    instrumentationScope: SCOPE,
  } as unknown as SdkLogRecord
  const bytesOf = (records: SdkLogRecord[]) =>
    SERIALIZERS[encoding].serializeRequest(records as never)?.length ?? 0
  const bytes = bytesOf([record, record]) - bytesOf([record])
  return { bytes, weight: new OtlpWeight().weigh(envelope) }
}

const LONG = 'x'.repeat(41)

/** Values of attributes, the bytes of such an attribute in a request, and its weight, which is that of the larger encoding or more. */
const VALUES: readonly (readonly [
  what: string,
  value: unknown,
  json: number,
  protobuf: number,
  weight: number,
])[] = [
  ['an empty string', '', 39, 9, 41],
  ['a string', 'text', 43, 13, 45],
  ['a string of two and three bytes per character', 'é漢', 44, 14, 48],
  ['a string of four bytes per character', '😀', 43, 13, 47],
  ['a quote and a backslash', '"\\', 43, 11, 47],
  ['a control character', '\u0001', 45, 10, 49],
  ['a string of 41 characters', LONG, 80, 50, 82],
  ['a string of 41 quotes', LONG.replaceAll('x', '"'), 121, 50, 125],
  ['an integer', 99_999, 39, 11, 66],
  ['a negative integer', -99_999, 40, 18, 66],
  ['a fraction', 0.5, 40, 16, 66],
  ['a long fraction', -1.2345678901234568e-300, 61, 16, 66],
  ['a number that OTLP cannot represent', Number.NaN, 42, 12, 66],
  ['a boolean', true, 39, 9, 66],
  ['null', null, 23, 7, 66],
  ['an empty list', [], 49, 9, 51],
  ['a list', [true, null], 70, 15, 139],
  ['an empty map', {}, 50, 9, 52],
  ['a map', { k: true }, 88, 18, 118],
]

describe('The weight of an OTLP value', () => {
  for (const [what, value, json, protobuf, weight] of VALUES) {
    it(`an attribute with ${what} has ${json} bytes in JSON, ${protobuf} in protobuf, and the weight ${weight}`, () => {
      const added = (encoding: 'json' | 'protobuf') => {
        // The first attribute makes the length of the record a varint of two bytes, with and without the second one.
        const without = measure(encoding, { attributes: { a: LONG.repeat(10) } })
        const { bytes, weight } = measure(encoding, { attributes: { a: LONG.repeat(10), b: value } })
        return { bytes: bytes - without.bytes, weight: weight - without.weight }
      }
      expect(added('json')).to.deep.equal({ bytes: json, weight })
      expect(added('protobuf')).to.deep.equal({ bytes: protobuf, weight })
    })
  }
})

describe('The weight of an OTLP record', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.string({ unit: anyCharacter, minLength: 30, maxLength: 100 }),
    fc.constantFrom(
      '\u0000\u001f"\\\n',
      '漢字'.repeat(100),
      '"'.repeat(50),
      '😀'.repeat(20),
      '\u07ff\u0800\uffff',
    ),
  )
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      text,
      fc.double(),
      fc.integer(),
      fc.maxSafeInteger(),
      fc.boolean(),
      fc.constant(null),
      fc.bigInt(),
      fc.array(tie('value'), { maxLength: 5 }),
      fc.dictionary(text, tie('value'), { maxKeys: 5 }),
    ),
  })).value

  const tags = fc.dictionary(text, text, { maxKeys: 3 })
  const optional = { nil: undefined }

  for (const [encoding, factor] of [
    ['json', 1.6],
    ['protobuf', 3.6],
  ] as const) {
    it(`the weight of an OTLP record is at least its size in ${encoding}`, () => {
      fc.assert(
        fc.property(
          fc.record({
            name: text,
            sessionId: text,
            attributes: fc.dictionary(text, value, { maxKeys: 8 }),
            actor: fc.option(
              fc.record({ type: fc.oneof(text, fc.constant('user')), id: text, tags }),
              optional,
            ),
            scope: fc.option(fc.record({ type: text, id: text, tags }), optional),
            error: fc.option(fc.record({ name: text, message: text, code: text, stack: text }), optional),
            source: fc.option(fc.record({ file: text, line: fc.nat(), causer: text }), optional),
            time: fc.constantFrom('2026-11-20T12:00:00.123Z', '1969', 'no "time"'),
          }),
          (members) => {
            const { bytes, weight } = measure(encoding, members as Partial<TelemetryEnvelope>)
            expect(weight).to.be.at.least(bytes)
          },
        ),
        { numRuns: runs(2_000) },
      )
    })

    it(`the weight of an OTLP record of a usual event is at most ${factor} times its size in ${encoding}`, () => {
      const attributes = {
        'http.request.method': 'GET',
        'url.path': '/mcp',
        status: 200,
        ok: true,
        ms: 12.75,
      }
      const { bytes, weight } = measure(encoding, { name: 'billing.invoice.paid', attributes })
      expect(weight / bytes).to.be.within(1, factor)
    })
  }
})
