import { expect } from 'chai'
import type { ConsoleEvent } from '../../../cli/dev/events/event.ts'
import { OBSERVER } from '../../../cli/dev/events/event.ts'
import { EventLog } from '../../../cli/dev/events/event-log.ts'

const event = (name: string, more: Partial<ConsoleEvent> = {}): ConsoleEvent => ({
  name,
  time: '2026-11-20T12:00:00.000Z',
  level: 'info',
  sessionId: 's',
  ...more,
})
const feed = (events: readonly ConsoleEvent[], more: object = {}) => ({
  sender: { pid: 1 },
  stats: undefined,
  events,
  ...more,
})
/** An event of a client, which has a story. */
const asked = () =>
  event('dev.request', { attributes: { 'url.path': '/mcp', 'http.response.status_code': 401 } })

/** Returns a listener, and the messages that it has received: `{ id, event, data }`. */
function listening(log: EventLog, lastId?: string) {
  const messages: { id: string | undefined; event: string; data: any }[] = []
  const stop = log.listen((text) => {
    const [, id, name = '', data = ''] = /^(?:id: (\S+)\n)?event: (\S+)\ndata: (.*)\n\n$/.exec(text) ?? []
    messages.push({ id, event: name, data: JSON.parse(data) })
  }, lastId)
  const take = () => messages.splice(0)
  return { stop, take, names: () => take().map((message) => message.event) }
}

describe('EventLog', () => {
  it('a new listener gets the facts, the state, the events, the stories, and the statistics', () => {
    const log = new EventLog({ command: 'node server.js', issuer: 'http://127.0.0.1:1' })
    log.add(feed([event('a'), asked(), event('b')], { stats: { emitted: 3 } }))
    log.setServer({ state: 'running', pid: 7 })
    const [hello, server, events, stories, statistics, ...more] = listening(log).take()
    expect(more).to.deep.equal([])
    const run = hello?.data.run as string
    expect(run).to.match(/^[\da-f]{8}$/)
    expect([hello?.event, hello?.data]).to.deep.equal([
      'hello',
      { command: 'node server.js', issuer: 'http://127.0.0.1:1', run },
    ])
    expect([server?.event, server?.data]).to.deep.equal(['server', { state: 'running', pid: 7 }])
    expect([events?.event, events?.id]).to.deep.equal(['events', `${run}-3`])
    expect(events?.data.map(({ number, event: { name } }: any) => `${number} ${name}`)).to.deep.equal([
      '1 a',
      '2 dev.request',
      '3 b',
    ])
    expect([stories?.event, stories?.data.length]).to.deep.equal(['stories', 1])
    expect(statistics?.event).to.equal('statistics')
    expect(statistics?.data).to.deep.include({ sender: { pid: 1 }, stats: { emitted: 3 } })
    expect(statistics?.data.counts.events).to.equal(3)
  })

  it('a listener of an empty log gets no events, and the server is starting', () => {
    const messages = listening(new EventLog({ command: 'x' })).take()
    expect(messages.map(({ event: name }) => name)).to.deep.equal([
      'hello',
      'server',
      'stories',
      'statistics',
    ])
    expect(messages[1]?.data).to.deep.equal({ state: 'starting' })
  })

  it('a listener gets only what a feed has changed, and nothing after it was removed', () => {
    const log = new EventLog({ command: 'x' })
    const { stop, take, names } = listening(log)
    take()
    log.add(feed([event('a')]))
    const [first] = take()
    expect(first?.data).to.have.length(1)
    log.add(feed([event('b'), event('c')]))
    const [second, statistics, ...more] = take()
    expect(second?.data.map(({ number }: any) => number)).to.deep.equal([2, 3])
    expect([statistics?.event, more]).to.deep.equal(['statistics', []])
    log.add(feed([asked()]))
    expect(names()).to.deep.equal(['events', 'stories', 'statistics'])
    log.add(feed([]))
    expect(names()).to.deep.equal(['statistics'])
    log.setServer({ state: 'ended', how: 'x' })
    expect(take()).to.deep.equal([{ id: undefined, event: 'server', data: { state: 'ended', how: 'x' } }])
    stop()
    log.add(feed([event('d')]))
    log.setServer({ state: 'running' })
    expect(take()).to.deep.equal([])
  })

  it('a listener that comes back gets the events after the last one, and all events of another run', () => {
    const log = new EventLog({ command: 'x' })
    log.add(feed(['a', 'b', 'c'].map((name) => event(name))))
    const eventsOf = (lastId?: string) =>
      listening(log, lastId)
        .take()
        .find((one) => one.event === 'events')
    const [run = ''] = String(eventsOf()?.id).split('-')
    expect(eventsOf(`${run}-1`)?.data.map(({ number }: any) => number)).to.deep.equal([2, 3])
    expect(eventsOf(`${run}-3`)).to.equal(undefined)
    expect(eventsOf('other-3')?.data).to.have.length(3)
  })

  it('the statistics have the latest sender and its statistics, and the observer is not a sender', () => {
    const log = new EventLog({ command: 'x' })
    const { take } = listening(log)
    const statistics = () => {
      const { sender, stats } = take().findLast((one) => one.event === 'statistics')?.data ?? {}
      return { sender, stats }
    }
    log.add(feed([], { sender: { pid: 1 }, stats: { emitted: 1 } }))
    expect(statistics()).to.deep.equal({ sender: { pid: 1 }, stats: { emitted: 1 } })
    log.add(feed([], { sender: OBSERVER }))
    expect(statistics()).to.deep.equal({ sender: { pid: 1 }, stats: { emitted: 1 } })
    log.add(feed([], { sender: { pid: 2 }, stats: { emitted: 5 } }))
    expect(statistics()).to.deep.equal({ sender: { pid: 2 }, stats: { emitted: 5 } })
  })

  it('the event of a server that listens is not shown', () => {
    const heard: string[] = []
    const log = new EventLog({ command: 'x' }, ({ name }) => heard.push(name))
    log.add(feed([event('dev.listening'), event('a')]))
    expect(heard).to.deep.equal(['dev.listening'])
    const shown = listening(log)
      .take()
      .find((one) => one.event === 'events')
    expect(shown?.data.map((row: any) => row.event.name)).to.deep.equal(['a'])
    expect(() => new EventLog({ command: 'x' }).add(feed([event('dev.listening')]))).to.not.throw()
  })

  it('events that are shown only in stories are not counted', () => {
    const log = new EventLog({ command: 'x' })
    const covered = event('dev.request', {
      attributes: { 'url.path': '/mcp', 'http.response.status_code': 200, covered: true },
    })
    log.add(feed([covered]))
    expect(listening(log).take().at(-1)?.data.counts.events).to.equal(0)
  })

  for (const [count, first] of [
    [2_000, 1],
    [2_001, 2],
    [2_500, 501],
  ] as const)
    it(`of ${count} events, those from number ${first} are kept`, () => {
      const log = new EventLog({ command: 'x' })
      for (let number = 0; number < count; number += 500)
        log.add(feed(Array.from({ length: Math.min(500, count - number) }, () => event('a'))))
      const { data } = listening(log)
        .take()
        .find((one) => one.event === 'events') ?? { data: [] }
      expect([data.length, data[0].number]).to.deep.equal([2_000, first])
    })

  it('the latest events of 8 million characters are kept', () => {
    const log = new EventLog({ command: 'x' })
    const large = () => event('a', { attributes: { text: 'x'.repeat(999_000) } })
    for (let count = 0; count < 12; count++) log.add(feed([large()]))
    const { data } = listening(log)
      .take()
      .find((one) => one.event === 'events') ?? { data: [] }
    expect(data.map(({ number }: any) => number)).to.deep.equal([5, 6, 7, 8, 9, 10, 11, 12])
    log.add(feed([event('b')]))
    const later = listening(log)
      .take()
      .find((one) => one.event === 'events')?.data
    expect(later.map(({ number }: any) => number)).to.deep.equal([5, 6, 7, 8, 9, 10, 11, 12, 13])
  })
})
