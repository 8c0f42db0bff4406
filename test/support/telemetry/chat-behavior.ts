import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { inspect } from 'node:util'
import { expect } from 'chai'
import {
  KitTelemetry,
  type KitTelemetryError,
  type TelemetryLevel,
  type TelemetryTransport,
} from '../../../src/telemetry/index.ts'
import { anEvent, type Target } from '../chat-services.ts'
import { freePort } from '../free-port.ts'
import { expectCode, RecordingLogger } from './recording.ts'

/** In every secret of the tests. */
export const SECRET = 'S3cr3t'

export interface Chat {
  readonly start: () => Promise<Target>
  readonly create: (target: Target) => TelemetryTransport
  /** The code that creates the adapter in another process: `Adapter.create({ … })`. */
  readonly source: (target: Target) => string
  readonly paceMs: number
  readonly minLevel: TelemetryLevel
  /** Returns the visible text of a message. */
  readonly shown: (message: any) => string
  /** 429 with the waiting time in the way of the service's own. */
  readonly putOff: (seconds: number) => {
    status: 429
    headers?: Record<string, string>
    body: object | string
  }
}

/** Statuses after which nothing more is sent. */
const FINAL = [401, 403, 404, 410]

/** Tests the behavior that all chats share. */
export function behavesAsChat(chat: Chat): void {
  let target: Target
  beforeEach(async () => {
    target = await chat.start()
  })

  const levels = ['debug', 'info', 'warn', 'error', 'fatal'] as const

  it('leaves out what is below its default level, as delivered', async () => {
    const transport = chat.create(target)
    for (const level of levels.slice(0, levels.indexOf(chat.minLevel)))
      expect(transport.handle(anEvent({ level }))).to.equal(undefined)
    await transport.handle(anEvent({ level: chat.minLevel }))
    expect(target.requests).to.have.length(1)
  })

  it('tells of a single event at once, all there is', async () => {
    const started = performance.now()
    await chat.create(target).handle(
      anEvent({
        level: 'fatal',
        version: '1.2.3',
        actor: { type: 'user', id: 'u1' },
        scope: { type: 'org', id: 'o1' },
        attributes: { amount: 12.5, reason: 'no card', nested: { a: [1] } },
        error: {
          name: 'TypeError',
          message: 'declined',
          code: 'ECARD',
          stack: 'TypeError: declined\n    at pay',
        },
        source: { causer: 'cron', file: 'src/pay.ts', line: 42 },
      }),
    )
    expect(performance.now() - started).to.be.lessThan(3_000)
    const shown = chat.shown(target.taken[0])
    for (const part of [
      'FATAL',
      'billing.invoice.failed',
      'TypeError: declined (ECARD)\n    at pay',
      'amount: 12.5\nreason: no card\nnested: {"a":[1]}',
      'billing · test · 1.2.3 · user:u1 · org:o1 · cron · src/pay.ts:42 · ses_0',
    ])
      expect(shown).to.include(part)
    expect(shown).not.to.match(/ more/)
  })

  it('makes one message of a burst, the most severe in full, and the ledger closes', async () => {
    const logger = new RecordingLogger()
    const manager = KitTelemetry.create().withLogger(logger).addTransport(chat.create(target)).build()
    for (let index = 0; index < 499; index++)
      manager.emit('job.run.failed', { level: 'error', attributes: { index } })
    manager.emit('job.stuck', { level: 'fatal' })
    await manager.flush()
    const [stats] = manager.stats().transports
    expect(stats).to.deep.include({ accepted: 500, delivered: 500, failed: 0, dropped: 0, pending: 0 })
    expect(target.taken).to.have.length(1)
    const shown = chat.shown(target.taken[0])
    expect(shown).to.match(/FATAL\*? `?job\.stuck`? and 499 more/)
    expect(shown).to.include('499 × ERROR job.run.failed')
    await manager.shutdown()
    expect(logger.errors).to.deep.equal([])
  })

  describe('leaves the service alone as long as it should', () => {
    // All at the same time, since each waits for seconds.
    it('in its pace, at 429, and after a message that has failed', () =>
      Promise.all([keepsPace(), obeysOwnWait(), obeysRetryAfter(), goesOn()]))

    async function keepsPace(): Promise<void> {
      const target = await chat.start()
      const transport = chat.create(target)
      await transport.handle(anEvent({ name: 'first' }))
      const meanwhile = ['second', 'third', 'fourth'].map((name) => transport.handle(anEvent({ name })))
      await transport.flush?.()
      expect(target.taken, 'the flush waits for the messages').to.have.length(2)
      await Promise.all(meanwhile)
      expect(target.taken).to.have.length(2)
      expect(chat.shown(target.taken[1])).to.match(/second`? and 2 more/)
      expectGap(target, chat.paceMs / 1000)
    }

    async function obeysOwnWait(): Promise<void> {
      const target = await chat.start()
      const seconds = chat.paceMs / 1000 + 0.3
      target.answers.push(chat.putOff(seconds))
      const transport = chat.create(target)
      await Promise.all([transport.handle(anEvent()), transport.handle(anEvent())])
      const [first, second, ...more] = target.requests
      expect(more).to.deep.equal([])
      expect(second?.body).to.equal(first?.body)
      expectGap(target, seconds)
    }

    async function obeysRetryAfter(): Promise<void> {
      const target = await chat.start()
      const seconds = Math.ceil(chat.paceMs / 1000 + 0.1)
      target.answers.push({ status: 429, headers: { 'retry-after': String(seconds) } })
      await chat.create(target).handle(anEvent())
      expectGap(target, seconds)
    }

    async function goesOn(): Promise<void> {
      const target = await chat.start()
      target.answers.push({ status: 500 })
      const transport = chat.create(target)
      await failure(transport.handle(anEvent({ name: 'lost' })))
      await transport.handle(anEvent({ name: 'reported' }))
      expect(chat.shown(target.taken[0])).to.include('reported')
      expectGap(target, chat.paceMs / 1000)
    }
  })

  it('gives up at once when the service asks for longer than ten minutes, and leaves it alone', async () => {
    target.answers.push({ status: 429, headers: { 'retry-after': '3600' } })
    const transport = chat.create(target)
    for (const _ of [1, 2]) {
      const error = await failure(transport.handle(anEvent()))
      expect(error.message).to.match(/pause of another (?:3600|3599) s; 1 event is lost$/)
    }
    expect(target.requests).to.have.length(1)
  })

  for (const status of FINAL) {
    it(`stops for good at ${status}`, async () => {
      target.answers.push({ status, body: SECRET, headers: { 'x-echo': SECRET } })
      const transport = chat.create(target)
      const handled = [transport.handle(anEvent()), transport.handle(anEvent())]
      await target.received(1)
      const waiting = transport.handle(anEvent())
      for (const one of [...handled, waiting, transport.handle(anEvent())]) {
        const error = await failure(one)
        expect(error.message).to.include(` responded with ${status} (check `)
        expect(inspect(error, { depth: 9, showHidden: true })).not.to.include(SECRET)
      }
      await transport.flush?.()
      await transport.shutdown?.()
      expect(target.requests).to.have.length(1)
    })
  }

  for (const answer of [
    { status: 400, body: SECRET },
    { status: 500, body: SECRET },
    { status: 503, body: SECRET },
    { status: 302, headers: { location: `/${SECRET}` } },
    'broken',
  ] as const) {
    it(`sends nothing twice after ${inspect(answer)}`, async () => {
      target.answers.push(answer)
      const transport = chat.create(target)
      const error = await failure(transport.handle(anEvent()))
      expect(inspect(error, { depth: 9, showHidden: true })).not.to.include(SECRET)
      expect(target.requests).to.have.length(1)
    })
  }

  it('shows no secret, in errors of the network neither', async () => {
    const transport = chat.create(target)
    expect(inspect(transport, { depth: 9, showHidden: true })).not.to.include(SECRET)
    const gone = chat.create(
      Object.assign(Object.create(target) as Target, { origin: `http://127.0.0.1:${await freePort()}` }),
    )
    const error = await failure(gone.handle(anEvent()))
    expect(inspect(error, { depth: 9, showHidden: true })).not.to.match(new RegExp(`${SECRET}|127\\.0`))
    expect(error.message).to.match(/could not be reached \(ECONNREFUSED\)/)
  })

  it('shutdown sends what is buffered, and what comes later fails', async () => {
    const transport = chat.create(target)
    const handled = transport.handle(anEvent())
    await Promise.all([transport.shutdown?.(), transport.shutdown?.()])
    await handled
    expect(target.taken).to.have.length(1)
    expect((await failure(transport.handle(anEvent()))).message).to.include('shut down')
  })

  it('holds no process', async () => {
    const index = new URL('../../../src/telemetry/index.js', import.meta.url)
    const program = `
      import * as telemetry from ${JSON.stringify(index.href)}
      const transport = telemetry.${chat.source(target)}
      await transport.handle(${JSON.stringify(anEvent())})
      transport.handle(${JSON.stringify(anEvent())})
      process.on('exit', () => process.stdout.write(String(performance.now() - ended)))
      const ended = performance.now()`
    // Top-level await does not keep the process alive.
    const held = `const hold = setInterval(() => {}, 1000)\n${program}\nclearInterval(hold)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', held], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    await once(child, 'close')
    expect(Number(output)).to.be.lessThan(10_000)
    expect(target.requests).to.have.length(1)
  })
}

/** The second request must come this long after the first, and soon then. */
export function expectGap(target: Target, seconds: number): void {
  const [first, second] = target.requests.map(({ arrivedMs }) => arrivedMs)
  expect((second ?? 0) - (first ?? 0)).to.be.within(seconds * 1000, seconds * 1000 + 3_000)
}

/** Returns the reason why an event was not delivered. */
export async function failure(handled: Promise<void> | void): Promise<KitTelemetryError> {
  const reason = await Promise.resolve(handled).then(
    () => expect.fail('The event was delivered'),
    (error: unknown) => error,
  )
  return expectCode('TELEMETRY_TRANSPORT_FAILED', () => {
    throw reason
  })
}
