import type { JSONRPCNotification } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { EventOutlet } from '../../../../src/mcp/sdk/streams/event-outlet.ts'

const MIB = 1024 * 1024
const log = (level: string): JSONRPCNotification => ({
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { level, data: 'x' },
})

/** Returns `true` if a promise has settled. */
async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  const later = new Promise((resolve) => setImmediate(resolve, 'later'))
  return (await Promise.race([promise, later])) !== 'later'
}

const sending = (outlet: EventOutlet) => async (message: JSONRPCNotification) =>
  outlet.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)

describe('mcp: EventOutlet', () => {
  it('an outlet has room until 64 KiB wait, and again after they are read', async () => {
    const outlet = new EventOutlet()
    expect(outlet.hasRoom).to.equal(true)
    outlet.write('x'.repeat(65_536))
    const room = outlet.room()
    expect(outlet.room()).to.equal(room)
    expect(await hasSettled(room)).to.equal(false)
    await outlet.body.getReader().read()
    await room
    expect(outlet.unsentBytes).to.equal(0)
  })

  it('room() resolves when the client disconnects', async () => {
    let ends = 0
    const outlet = new EventOutlet({ onEnd: () => ends++ })
    outlet.write('x'.repeat(MIB))
    const room = outlet.room()
    await outlet.body.cancel()
    await room
    outlet.write('unread')
    outlet.end()
    expect([ends, outlet.isFull]).to.deep.equal([1, false])
  })

  it('an empty outlet admits a message of any size, and a waiting one none beyond 1 MiB', async () => {
    const outlet = new EventOutlet()
    const progress: JSONRPCNotification = { jsonrpc: '2.0', method: 'notifications/progress' }
    const changed: JSONRPCNotification = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' }
    const send = sending(outlet)
    expect(outlet.admits(progress, 2 * MIB, send)).to.equal(true)
    outlet.write('x'.repeat(MIB - 10))
    expect(outlet.admits(progress, 10, send)).to.equal(true)
    expect(outlet.admits(progress, 11, send)).to.equal(false)
    expect(outlet.admits(changed, 11, send)).to.equal(true)
    expect(outlet.settle()).to.equal(undefined)
  })

  it('dropped log messages are counted in one notice of their highest level', async () => {
    const outlet = new EventOutlet()
    outlet.write('x'.repeat(MIB))
    for (const level of ['info', 'critical', 'debug']) await outlet.notify(log(level), sending(outlet))
    const reader = outlet.body.getReader()
    await reader.read()
    const notice = Buffer.from((await reader.read()).value ?? []).toString()
    expect(JSON.parse(notice.slice(notice.indexOf('{'))).params).to.deep.equal({
      level: 'critical',
      data: '3 log messages were dropped because the client did not read fast enough.',
    })
  })

  for (const level of ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']) {
    it(`a dropped log message of level ${level} is counted in a notice of that level`, async () => {
      const outlet = new EventOutlet()
      outlet.write('x'.repeat(MIB))
      const sent: JSONRPCNotification[] = []
      await outlet.notify(log(level), async (message) => void sent.push(message))
      await outlet.settle()
      expect(sent.map(({ params }) => params?.level)).to.deep.equal([level])
    })
  }

  it('a relayed stream is canceled when the client disconnects', async () => {
    let cancelled = false
    const source = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Buffer.from('id: 1\n\n')),
      cancel: () => {
        cancelled = true
      },
    })
    const reader = new EventOutlet().relay(source).getReader()
    expect(Buffer.from((await reader.read()).value ?? []).toString()).to.equal('id: 1\n\n')
    await reader.cancel()
    expect(cancelled).to.equal(true)
  })

  it('an outlet fails when its source fails', async () => {
    const source = new ReadableStream<Uint8Array>({
      start: (controller) => controller.error(new Error('broken')),
    })
    const reader = new EventOutlet().relay(source).getReader()
    let failure: unknown
    await reader.read().catch((error: unknown) => {
      failure = error
    })
    expect(failure).to.have.property('message', 'broken')
  })

  it('an outlet with endsWhenFull ends when 1 MiB waits', async () => {
    let hasEnded = false
    const outlet = new EventOutlet({
      endsWhenFull: true,
      onEnd: () => {
        hasEnded = true
      },
    })
    outlet.write('x'.repeat(MIB - 1))
    expect(hasEnded).to.equal(false)
    outlet.write('xx')
    expect(hasEnded).to.equal(true)
    expect((await new Response(outlet.body).text()).length).to.equal(MIB + 1)
  })

  it('an outlet does not wait for an event that its source drops', async () => {
    const outlet = new EventOutlet()
    const room = outlet.notify(
      { ...log('info'), params: { level: 'info', data: 'x'.repeat(100_000) } },
      async () => undefined,
    )
    await room
    expect(outlet.unsentBytes).to.equal(0)
  })
})
