import { JsonLogsSerializer, ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer'
import { expect } from 'chai'
import fc from 'fast-check'
import type { SdkLogRecord } from '../../../../src/telemetry/transports/otlp/otlp-export-slot.ts'
import type { OtlpAttributes, OtlpValue } from '../../../../src/telemetry/transports/otlp/otlp-record.ts'
import { toOtlpRecord, writeOtlpAttributes } from '../../../../src/telemetry/transports/otlp/otlp-record.ts'
import { OtlpWeight } from '../../../../src/telemetry/transports/otlp/otlp-weight.ts'
import { runs } from '../../../support/runs.ts'

const SERIALIZERS = { json: JsonLogsSerializer, protobuf: ProtobufLogsSerializer }

const RESOURCE = { attributes: {} }
const SCOPE = { name: 'mcp-gatekit' }
const SPAN = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 }

/** The bytes that a record adds to a request, and its weight. */
function measure(encoding: 'json' | 'protobuf', name: string, attributes: Record<string, unknown>) {
  const envelope = {
    name,
    time: '2026-11-20T12:00:00.123Z',
    level: 'error',
    service: 's',
    environment: 'e',
    sessionId: 'ses_0',
    attributes,
  } as const
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
  return { bytes, weight: new OtlpWeight(encoding).weigh(envelope), written }
}

/** The values in it, maps and lists included. */
function count(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value as OtlpAttributes).reduce<number>((sum, inner) => sum + count(inner), 1)
}

describe('OtlpWeight', () => {
  const table: [what: string, value: OtlpValue, json: number, protobuf: number][] = [
    ['an empty string', '', 19, 5],
    ['a string', 'text', 23, 9],
    ['a string of two and three bytes per character', 'é漢', 24, 10],
    ['a string of four bytes per character', '😀', 23, 9],
    ['a quote and a backslash', '"\\', 23, 7],
    ['a control character', '\u0001', 25, 6],
    ['a string of 40 characters', 'x'.repeat(40), 59, 45],
    ['a string of 41 characters', 'x'.repeat(41), 60, 46],
    ['a string of 41 quotes', '"'.repeat(41), 101, 46],
    ['an integer of five digits', 99_999, 20, 16],
    ['a negative integer of five digits', -99_999, 20, 16],
    ['an integer of six digits', 100_000, 31, 16],
    ['a negative integer of six digits', -100_000, 31, 16],
    ['a fraction', 0.5, 42, 16],
    ['a boolean', true, 20, 7],
    ['null', null, 3, 5],
    ['an empty list', [], 29, 10],
    ['a list', [true, null], 52, 22],
    ['an empty map', {}, 30, 10],
    ['a map', { k: true }, 72, 33],
  ]
  for (const [what, value, json, protobuf] of table) {
    it(`the weight of ${what} is ${json} bytes in JSON and ${protobuf} bytes in protobuf, without its key`, () => {
      const weights = (['json', 'protobuf'] as const).map(
        (encoding) =>
          new OtlpWeight(encoding).attributes({ a: value, b: value }) -
          new OtlpWeight(encoding).attributes({ a: null }),
      )
      const [keyInJson, keyInProtobuf] = [19 + 3, 15 + 1]
      expect(weights).to.deep.equal([2 * json + keyInJson - 3, 2 * protobuf + keyInProtobuf - 5])
    })
  }
})

describe('The weight of an OTLP record', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.string({ unit: 'binary', minLength: 30, maxLength: 100 }),
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

  for (const encoding of ['json', 'protobuf'] as const) {
    it(`the weight of an OTLP record is at least its size in ${encoding}, and little more`, () => {
      fc.assert(
        fc.property(text, fc.dictionary(text, value, { maxKeys: 8 }), (name, attributes) => {
          const { bytes, weight, written } = measure(encoding, name, attributes)
          expect(weight).to.be.at.least(bytes)
          expect(weight).to.be.at.most(bytes + 200 + 20 * count(written))
        }),
        { numRuns: runs(2_000) },
      )
    })

    it(`the weight of an OTLP record of a usual event is close to its size in ${encoding}`, () => {
      const attributes = {
        'http.request.method': 'GET',
        'url.path': '/mcp',
        status: 200,
        ok: true,
        ms: 12.75,
      }
      const { bytes, weight } = measure(encoding, 'billing.invoice.paid', attributes)
      expect(weight / bytes).to.be.within(1, 1.6)
    })
  }
})
