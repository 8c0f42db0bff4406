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
  events,
  ...more,
})
/** An event of a client, which has a story. */
const asked = () =>
  event('dev.request', { attributes: { 'url.path': '/mcp', 'http.response.status_code': 401 } })

/** Returns a listener, and the messages that it has received: `{ event, data }`. */
function listening(log: EventLog) {
  const messages: { event: string; data: any }[] = []
  const stop = log.listen((text) => {
    const [, name = '', data = ''] = /^event: (\S+)\ndata: (.*)\n\n$/.exec(text) ?? []
    messages.push({ event: name, data: JSON.parse(data) })
  })
  const take = () => messages.splice(0)
  return { stop, take, names: () => take().map((message) => message.event) }
}

describe('EventLog', () => {
  it('a new listener gets the contents of the page, the events, and the stories', () => {
    const log = new EventLog({ command: 'node server.js', issuer: 'http://127.0.0.1:1' })
    log.add(feed([event('a'), asked(), event('b')], {}))
    log.setServer({ state: 'running', pid: 7 })
    const [hello, contents, events, stories, ...more] = listening(log).take()
    expect(more).to.deep.equal([])
    expect(hello?.event).to.equal('hello')
    expect(contents?.event).to.equal('contents')
    expect(contents?.data).to.include({
      command: 'node server.js',
      issuer: 'http://127.0.0.1:1',
      server: 'running, pid 7',
      'how-many': '3 events',
    })
    expect(events?.event).to.equal('events')
    expect(events?.data.map(({ number, event: { name } }: any) => `${number} ${name}`)).to.deep.equal([
      '1 a',
      '2 dev.request',
      '3 b',
    ])
    expect([stories?.event, stories?.data.length]).to.deep.equal(['stories', 1])
  })

  it('a listener of an empty log gets no events, and the server is starting', () => {
    const messages = listening(new EventLog({ command: 'x' })).take()
    expect(messages.map(({ event: name }) => name)).to.deep.equal(['hello', 'contents', 'stories'])
    expect(messages[1]?.data.server).to.equal('starting')
  })

  it('a listener gets only what a feed has changed, and nothing after it was removed', () => {
    const log = new EventLog({ command: 'x' })
    const { stop, take, names } = listening(log)
    take()
    log.add(feed([event('a')]))
    const [first] = take()
    expect(first?.data).to.have.length(1)
    log.add(feed([event('b'), event('c')]))
    const [second, contents, ...more] = take()
    expect(second?.data.map(({ number }: any) => number)).to.deep.equal([2, 3])
    expect([contents?.event, more]).to.deep.equal(['contents', []])
    expect(Object.keys(contents?.data)).to.have.members(['how-many'])
    log.add(feed([asked()]))
    expect(names()).to.deep.equal(['events', 'stories', 'contents'])
    log.add(feed([]))
    expect(names()).to.deep.equal([])
    log.setServer({ state: 'ended', how: 'x' })
    const [state] = take()
    expect(state?.data).to.include({ server: '<span class="bad">exited: x</span>' })
    expect(state?.data).not.to.have.property('command')
    stop()
    log.add(feed([event('d')]))
    log.setServer({ state: 'running' })
    expect(take()).to.deep.equal([])
  })

  it('the page names the latest sender, and the observer is not a sender', () => {
    const log = new EventLog({ command: 'x' })
    const { take } = listening(log)
    take()
    const add = (sender: object) => {
      log.add(feed([], { sender }))
      return take().at(0)?.data
    }
    expect(add({ service: 'a' })).to.include({ setup: '', service: 'a', title: 'a · mcp-gatekit dev' })
    expect(add(OBSERVER)).to.equal(undefined)
    expect(add({ service: 'b', environment: 'test' })).to.deep.equal({
      service: 'b · test',
      title: 'b · mcp-gatekit dev',
    })
  })

  it('the page shows the warnings, the end, and the last lines of a server as text, and that it runs again', () => {
    const log = new EventLog({ command: 'x' })
    const { take } = listening(log)
    const connect = { url: 'http://a/mcp', commands: [{ client: 'Codex', command: 'codex --url' }] }
    const set = (state: object) => {
      log.setServer(state as never)
      return take().at(-1)?.data
    }
    const { warnings, connect: commands } = set({ state: 'running', warnings: ['<b>'], connect })
    expect(warnings).to.equal('<li>&lt;b&gt;</li>')
    expect(commands).to.contain('<dt>Codex</dt>').and.to.contain('data-copy="codex --url"')
    const ended = set({ state: 'ended', how: 'exit code 1', output: '<b>Error', waits: true, connect })
    expect(ended).to.include({
      warnings: '',
      connect: '',
      connection: '<span class="bad">server down</span>',
      'welcome-title': 'The server is not running',
      ended:
        'The server has exited: exit code 1. The terminal shows its output. It starts again when a file changes.<pre>&lt;b&gt;Error</pre>',
    })
    expect(set({ state: 'running', pid: 8 })).to.include({ ended: '', connection: 'live' })
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
    const [, contents] = listening(log).take()
    expect(contents?.data['how-many']).to.equal('0 events')
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

  it('the latest events with lines and details of 16 million characters are kept', () => {
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
