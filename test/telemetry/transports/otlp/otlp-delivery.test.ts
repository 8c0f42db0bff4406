import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect } from 'chai'
import { OtlpTransportAdapter } from '../../../../src/telemetry/transports/otlp/otlp.ts'
import { anEvent } from '../../../support/chat-services.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../../support/otlp-receiver.ts'

describe('OtlpDelivery', () => {
  let receiver: OtlpReceiver
  let sockets: Set<Socket>
  beforeEach(async () => {
    sockets = new Set()
    receiver = await startOtlpReceiver({
      interrupt(_count, request, response) {
        sockets.add(request.socket)
        // Without a timeout of the receiver, which the client would respect, nothing else closes an unused connection.
        response.setHeader('Connection', 'keep-alive')
        response.on('finish', () => setImmediate(() => request.socket.setTimeout(0)))
        return false
      },
    })
  })
  afterEach(() => receiver.close())

  async function ready(): Promise<OtlpTransportAdapter> {
    const transport = OtlpTransportAdapter.create({ url: receiver.url })
    await transport.init({ service: 's', environment: 'e' })
    return transport
  }

  /** Sends one event, and waits for its delivery. */
  async function deliver(transport: OtlpTransportAdapter): Promise<void> {
    const handled = transport.handle(anEvent({}))
    await transport.flush()
    await handled
  }

  for (const batches of [1, 3])
    it(`close ends the connection that was used for ${batches === 1 ? 'one batch' : `${batches} batches`}`, async () => {
      const transport = await ready()
      for (let batch = 0; batch < batches; batch++) await deliver(transport)
      expect(sockets.size).to.equal(1)
      const [socket] = sockets as unknown as [Socket]
      expect(socket.destroyed).to.equal(false)
      const closed = once(socket, 'close')
      await transport.shutdown()
      await closed
    })
})
