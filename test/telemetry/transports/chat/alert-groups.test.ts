import { expect } from 'chai'
import fc from 'fast-check'
import {
  KitTelemetry,
  LoggerTransportAdapter,
  TeamChatTransportAdapter,
} from '../../../../src/telemetry/index.ts'
import { type Alert, AlertGroups } from '../../../../src/telemetry/transports/chat/digest.ts'
import { anEvent, startSlack } from '../../../support/chat-services.ts'
import { type FakeTime, fakeTime } from '../../../support/fake-time.ts'
import { until } from '../../../support/until.ts'

const WINDOW_MS = 300_000

describe('AlertGroups', () => {
  let clock: FakeTime
  let sent: Alert[]
  let groups: AlertGroups
  beforeEach(() => {
    clock = fakeTime()
    sent = []
    groups = new AlertGroups(WINDOW_MS, async (alert) => void sent.push(alert))
  })
  afterEach(() => {
    groups.close()
    clock.restore()
  })

  const add = (name: string, times = 1) => {
    for (let time = 0; time < times; time++) void groups.add(anEvent({ name }))
  }
  const outline = () =>
    sent.map(({ envelope, count, withinMs }) => [envelope.name, count, withinMs !== undefined])

  it('the first event is sent at once, and the number of the following ones at the end of each window', () => {
    add('a', 38)
    add('b')
    expect(outline()).to.deep.equal([
      ['a', 1, false],
      ['b', 1, false],
    ])
    clock.advance(WINDOW_MS)
    expect(outline().slice(2)).to.deep.equal([['a', 37, true]])
    expect(sent[2]?.withinMs).to.be.within(WINDOW_MS - 20, WINDOW_MS + 20)
    add('a', 2)
    add('b')
    clock.advance(WINDOW_MS)
    expect(outline().slice(3)).to.deep.equal([
      ['b', 1, false],
      ['a', 2, true],
    ])
    clock.advance(WINDOW_MS)
    add('a')
    expect(outline().at(-1)).to.deep.equal(['a', 1, false])
  })

  it('events of another level or kind of error are another group', () => {
    const error = { name: 'TypeError', message: 'x' }
    for (const event of [anEvent(), anEvent({ level: 'fatal' }), anEvent({ error }), anEvent({ error })])
      void groups.add(event)
    expect(sent).to.have.length(3)
  })

  it('1,000 waiting events of a group are sent before the window ends', () => {
    add('a', 2_500)
    expect(outline()).to.deep.equal([
      ['a', 1, false],
      ['a', 1_000, true],
      ['a', 1_000, true],
    ])
  })

  it('there are at most 1,000 groups, and events beyond them are sent one by one', () => {
    for (let name = 0; name < 1_500; name++) add(`event.${name}`, 2)
    expect(sent).to.have.length(1_000 + 2 * 500)
  })

  it('without a window, every event is sent', () => {
    const all = new AlertGroups(0, async (alert) => void sent.push(alert))
    for (let time = 0; time < 3; time++) void all.add(anEvent())
    expect(sent.map(({ count }) => count)).to.deep.equal([1, 1, 1])
  })

  it('the promises of counted events settle with their message', async () => {
    const failing = new AlertGroups(WINDOW_MS, async ({ count }) => {
      if (count > 1) throw new Error('the chat is down')
    })
    const promises = Array.from({ length: 3 }, () => failing.add(anEvent()))
    failing.release()
    const outcomes = await Promise.allSettled(promises)
    expect(outcomes.map(({ status }) => status)).to.deep.equal(['fulfilled', 'rejected', 'rejected'])
    failing.close()
  })

  it('whatever occurs when, the numbers of all messages add up to the number of events, and every promise settles', async () => {
    const step = fc.oneof(
      fc.record({ add: fc.constantFrom('a', 'b', 'c'), times: fc.integer({ min: 1, max: 1_200 }) }),
      fc.record({ wait: fc.integer({ min: 1, max: 2 * WINDOW_MS }) }),
      fc.constant('release' as const),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
        sent = []
        const own = new AlertGroups(WINDOW_MS, async (alert) => void sent.push(alert))
        const promises: Promise<void>[] = []
        for (const one of steps) {
          if (one === 'release') own.release()
          else if ('wait' in one) clock.advance(one.wait)
          else for (let time = 0; time < one.times; time++) promises.push(own.add(anEvent({ name: one.add })))
        }
        own.close()
        await Promise.all(promises)
        expect(sent.reduce((sum, { count }) => sum + count, 0)).to.equal(promises.length)
      }),
      { numRuns: 30 },
    )
  })
})

describe('groups of alerts over the wire', () => {
  it('Slack gets the first event, and at the flush one message with the number of the others', async () => {
    const target = await startSlack()
    const manager = KitTelemetry.create()
      .addTransport(
        TeamChatTransportAdapter.create({ webhookUrl: `${target.origin}/services/x`, groupMs: WINDOW_MS }),
      )
      .build()
    await manager.flush()
    manager.emit('invoice.failed', { level: 'error' })
    await until(() => manager.stats().transports[0]?.delivered === 1)
    for (let time = 0; time < 37; time++) manager.emit('invoice.failed', { level: 'error' })
    expect(manager.stats().transports[0]).to.include({ pending: 37 })
    await manager.flush()
    expect(target.taken).to.have.length(2)
    expect(target.taken[1].text).to.match(/invoice\.failed \(37 more in \d+ seconds?\)/)
    expect(manager.stats().transports[0]).to.include({ accepted: 38, delivered: 38, pending: 0 })
    await manager.shutdown()
  })
})

describe('skipped events', () => {
  it('events below minLevel are counted as delivered and as skipped, and are not passed to the transport', async () => {
    const lines: unknown[] = []
    const write = (line: unknown) => void lines.push(line)
    const logger = { debug: write, info: write, warn: write, error: write }
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1, debugRate: 1 })
      .addTransport(LoggerTransportAdapter.create({ logger, minLevel: 'warn' }))
      .addTransport(LoggerTransportAdapter.create({ logger }))
      .build()
    for (const level of ['debug', 'info', 'warn', 'error'] as const) manager.emit('a.b', { level })
    await manager.flush()
    const [some, all] = manager.stats().transports
    expect(some).to.include({ accepted: 4, delivered: 4, skipped: 2, failed: 0, dropped: 0, pending: 0 })
    expect(all).to.include({ accepted: 4, delivered: 4 })
    expect(all).not.to.have.property('skipped')
    expect(lines).to.have.length(6)
  })
})
