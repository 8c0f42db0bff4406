import { expect } from 'chai'
import { startOtlpReceiver } from '../../../support/otlp-receiver.ts'

/** The tests of OTLP are worth as much as the receiver is strict. */
describe('The OTLP receiver of these tests', () => {
  const good = { timeUnixNano: '1', observedTimeUnixNano: '1', eventName: 'good', attributes: [] as object[] }
  const attribute = (value: object) => ({ ...good, attributes: [{ key: 'k', value }] })
  const bad: Readonly<Record<string, object>> = {
    'a null doubleValue': attribute({ doubleValue: null }),
    'an integer beyond 64 bits': attribute({ intValue: '9223372036854775808' }),
    'an integer beyond 64 bits, as a number': attribute({ intValue: 2 ** 63 }),
    'a fraction as integer': attribute({ intValue: 1.5 }),
    'a negative time': { ...good, timeUnixNano: '-1' },
    'a time beyond 64 bits': { ...good, timeUnixNano: String(2n ** 63n) },
    'no time': { ...good, timeUnixNano: null },
    'an event name that is not a string': { ...good, eventName: 5 },
    'a severity text that is not a string': { ...good, severityText: 5 },
    'a lone surrogate': attribute({ stringValue: '\ud800' }),
    'a bad value deep down': attribute({
      arrayValue: { values: [{ kvlistValue: { values: [{ key: 1 }] } }] },
    }),
    'a key twice': { ...good, attributes: [{ key: 'k' }, { key: 'k' }] },
    'two types in one value': attribute({ intValue: 1, stringValue: '1' }),
    'an odd trace id': { ...good, traceId: 'xyz' },
  }
  for (const [what, record] of Object.entries(bad)) {
    it(`the OTLP receiver rejects a whole request for ${what}`, async () => {
      const receiver = await startOtlpReceiver()
      const send = (logRecords: object[]) =>
        fetch(`${receiver.url}/v1/logs`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }),
        })
      const refused = await send([good, record, good])
      expect(refused.status).to.equal(400)
      expect(refused.headers.get('content-type')).to.equal('application/json')
      expect(receiver.records).to.have.length(0)
      const accepted = await send([good, good])
      expect(accepted.status).to.equal(200)
      expect(await accepted.json()).to.deep.equal({})
      expect(receiver.records).to.have.length(2)
      await receiver.close()
    })
  }

  it('the OTLP receiver rejects invalid protobuf with a response in protobuf', async () => {
    const receiver = await startOtlpReceiver()
    const headers = { 'content-type': 'application/x-protobuf' }
    const refused = await fetch(`${receiver.url}/v1/logs`, {
      method: 'POST',
      headers,
      body: new Uint8Array([10, 9]),
    })
    expect(refused.status).to.equal(400)
    expect(refused.headers.get('content-type')).to.equal('application/x-protobuf')
    await receiver.close()
  })
})
