import { createHash } from 'node:crypto'
import { expect } from 'chai'
import {
  ErrorTrackerTransportAdapter,
  KitTelemetry,
  OtlpTransportAdapter,
  type TelemetryRedactionPolicy,
} from '../../../src/telemetry/index.ts'
import { startOtlpReceiver } from '../../support/otlp-receiver.ts'

const USER = 'ada@example.com'
const SESSION = 'session-of-ada'
const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex')

/** Emits an error and a breadcrumb, and returns everything that OTLP and the error tracker received, as one text. */
async function sentWith(policy: TelemetryRedactionPolicy): Promise<string> {
  const receiver = await startOtlpReceiver()
  const tracked: unknown[] = []
  const note = (...args: unknown[]) => void tracked.push(args)
  const telemetry = KitTelemetry.create()
    .withRedaction(policy)
    .withSampling({ infoRate: 1 })
    .addTransport(OtlpTransportAdapter.create({ url: receiver.url }))
    .addTransport(
      ErrorTrackerTransportAdapter.create({ sdk: { captureException: note, addBreadcrumb: note } }),
    )
    .build()
  for (const level of ['error', 'info'] as const)
    telemetry.emit('a.b', { level, sessionId: SESSION, actor: { type: 'user', id: USER } })
  await telemetry.shutdown()
  await receiver.close()
  return JSON.stringify([receiver.records.map(({ attributes }) => attributes), tracked])
}

describe('redacted ids', () => {
  for (const [key, id] of [
    ['user.id', USER],
    ['kit.actor.id', USER],
    ['session.id', SESSION],
  ] as const) {
    it(`OTLP and an error tracker send the hash of an id if hashKeys has ${key}, and no id if denylistKeys has it`, async () => {
      const other = id === USER ? SESSION : USER
      const hashed = await sentWith({ hashKeys: [key] })
      expect(hashed).to.include(sha256(id)).and.include(other).and.not.include(id)
      expect(await sentWith({ denylistKeys: [key] }))
        .to.include(other)
        .and.not.include(sha256(id))
        .and.not.include(id)
    })
  }

  it('OTLP and an error tracker send ids unchanged without such a key', async () => {
    expect(await sentWith({ hashKeys: ['email'] }))
      .to.include(USER)
      .and.include(SESSION)
  })
})
