import { expect } from 'chai'
import type { TelemetryEnvelope } from '../../../../src/telemetry/envelope/envelope.ts'
import { toOtlpRecord } from '../../../../src/telemetry/transports/otlp/otlp-record.ts'

const EMITTED_AT_MS = Date.parse('2026-11-22T10:00:00.250Z')
const EMITTED_AT = [EMITTED_AT_MS / 1000 - 0.25, 250_000_000]

const at = (time: string): TelemetryEnvelope => ({
  name: 'x',
  time,
  level: 'info',
  service: 'shop',
  environment: 'test',
  sessionId: 'ses_0',
})

describe('the timestamp of an OTLP record', () => {
  for (const [what, time, timestamp] of [
    [
      'a usual time is sent as seconds and nanoseconds',
      '2026-11-22T10:00:01.500Z',
      [1_795_341_601, 500_000_000],
    ],
    ['the first moment of 1970 is one nanosecond, since 0 means unknown', '1970-01-01T00:00:00Z', [0, 1]],
    ['the second millisecond of 1970 is sent as it is', '1970-01-01T00:00:00.001Z', [0, 1_000_000]],
    ['a time before 1970 is replaced by the moment of emit', '1969-12-31T23:59:59.999Z', EMITTED_AT],
    [
      'a time that does not fit into 63 bits is replaced by the moment of emit',
      '9999-12-31T23:59:59Z',
      EMITTED_AT,
    ],
    ['a time that cannot be read is replaced by the moment of emit', 'tomorrow', EMITTED_AT],
  ] as const) {
    it(`the timestamp of an OTLP record whose event waited for init: ${what}`, () => {
      const record = toOtlpRecord(at(time), EMITTED_AT_MS)
      expect(record.timestamp).to.deep.equal(timestamp)
      expect(record.observedTimestamp).to.deep.equal(EMITTED_AT)
    })
  }
})
