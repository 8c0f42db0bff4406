import { JsonLogsSerializer, ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer'
import { expect } from 'chai'
import fc from 'fast-check'
import type { TelemetryEnvelope } from '../../../../src/telemetry/envelope/envelope.ts'
import type { SdkLogRecord } from '../../../../src/telemetry/transports/otlp/otlp-export-slot.ts'
import { toOtlpRecord, writeOtlpAttributes } from '../../../../src/telemetry/transports/otlp/otlp-record.ts'
import { otlpWeight } from '../../../../src/telemetry/transports/otlp/otlp-weight.ts'
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
  return { bytes, weight: otlpWeight(envelope) }
}

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

  for (const encoding of ['json', 'protobuf'] as const) {
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
  }
})
