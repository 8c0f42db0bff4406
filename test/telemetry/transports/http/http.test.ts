import { AsyncLocalStorage } from 'node:async_hooks'
import { spawn } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { inspect } from 'node:util'
import { expect } from 'chai'
import fc from 'fast-check'
import { VERSION } from '../../../../src/base/version.ts'
import {
  HttpTransportAdapter,
  type HttpTransportOptions,
  KitTelemetry,
} from '../../../../src/telemetry/index.ts'
import { anEvent, startCollector, type Target, type TargetAnswer } from '../../../support/chat-services.ts'
import { freePort } from '../../../support/free-port.ts'
import { failure } from '../../../support/telemetry/chat-behavior.ts'
import { RecordingLogger } from '../../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

describe('HttpTransportAdapter', () => {
  let target: Target
  beforeEach(async () => {
    target = await startCollector()
  })

  const create = (options: Partial<HttpTransportOptions> = {}) =>
    HttpTransportAdapter.create({ url: `${target.origin}/events?source=kit`, ...options })

  const gaps = () =>
    target.requests
      .slice(1)
      .map(({ arrivedMs }, index) => arrivedMs - (target.requests[index]?.arrivedMs ?? 0))

  describe('what is sent', () => {
    it('HttpTransportAdapter sends the envelope', async () => {
      const event = anEvent({ attributes: { 'a b': [1, null, { c: 'ü\ud800' }] }, version: '1' })
      await create().handle(event)
      const [request] = target.requests
      expect(request).to.include({ method: 'POST', path: '/events?source=kit' })
      expect(request?.json).to.deep.equal(event)
      expect(request?.headers).to.include({
        'content-type': 'application/json',
        'user-agent': `mcp-gatekit/${VERSION}`,
      })
    })

    it('HttpTransportAdapter sends the headers of the caller, which replace a default in any case', async () => {
      const headers = { 'CONTENT-Type': 'application/vnd.kit+json', 'User-AGENT': 'mine', 'X-Key': 'é' }
      await create({ headers }).handle(anEvent())
      expect(target.requests[0]?.headers).to.include({
        'content-type': 'application/vnd.kit+json',
        'user-agent': 'mine',
        'x-key': 'é',
      })
    })

    it('HttpTransportAdapter sends events in order, one request at a time, also if one is sent again', async () => {
      target.answers.push({ status: 200 }, { status: 500 }, 'broken')
      const transport = create({ retries: 2 })
      const settled: string[] = []
      const names = Array.from({ length: 40 }, (_, index) => `event.${index}`)
      await Promise.all(
        names.map((name) => transport.handle(anEvent({ name })).then(() => settled.push(name))),
      )
      expect(target.requests.map(({ json }) => json.name)).to.deep.equal([
        'event.0',
        'event.1',
        'event.1',
        ...names.slice(1),
      ])
      expect(settled).to.deep.equal(names)
    })

    it('requests of HttpTransportAdapter do not have the async context of the events', async () => {
      const storage = new AsyncLocalStorage<string>()
      const seen: unknown[] = []
      const note = () => seen.push(storage.getStore())
      subscribe('undici:request:create', note)
      const transport = create()
      await storage.run('a request', () => transport.handle(anEvent()))
      unsubscribe('undici:request:create', note)
      expect(seen).to.deep.equal([undefined])
    })

    it('an envelope with any values arrives unchanged through HttpTransportAdapter', async () => {
      const transport = create({ batch: { maxSize: 7, maxDelayMs: 1 } })
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { minLength: 1 }),
          async (all) => {
            const before = target.requests.length
            const events = all.map((attributes) => anEvent({ attributes }))
            await Promise.all(events.map((event) => transport.handle(event)))
            const arrived = target.requests.slice(before).flatMap(({ json }) => json)
            expect(arrived).to.deep.equal(JSON.parse(JSON.stringify(events)))
          },
        ),
      )
    })
  })

  describe('with batch', () => {
    it('HttpTransportAdapter with batch sends full arrays at once, and others after maxDelayMs', async () => {
      const transport = create({ batch: { maxSize: 3, maxDelayMs: 800 } })
      const started = performance.now()
      await Promise.all(['a', 'b', 'c', 'd'].map((name) => transport.handle(anEvent({ name }))))
      expect(target.requests.map(({ json }) => json.map(({ name }: Wrong) => name))).to.deep.equal([
        ['a', 'b', 'c'],
        ['d'],
      ])
      const [first, second] = target.requests.map(({ arrivedMs }) => arrivedMs - started)
      expect(first).to.be.lessThan(700)
      expect(second).to.be.within(790, 10_000)
    })

    it('HttpTransportAdapter with batch sends at once on flush and on shutdown', async () => {
      const transport = create({ batch: { maxSize: 100, maxDelayMs: 60_000 } })
      const first = transport.handle(anEvent())
      await transport.flush()
      await first
      const second = [transport.handle(anEvent()), transport.handle(anEvent())]
      await Promise.all([transport.shutdown(), transport.shutdown()])
      await Promise.all(second)
      expect(target.requests.map(({ json }) => json.length)).to.deep.equal([1, 2])
      expect((await failure(transport.handle(anEvent()))).message).to.include('it is shut down')
    })

    it('the statistics of a manager add up if batches fail', async () => {
      target.answers.push({ status: 200 }, { status: 400 }, { status: 200 })
      const logger = new RecordingLogger()
      const manager = KitTelemetry.create()
        .withLogger(logger)
        .addTransport(create({ batch: { maxSize: 100, maxDelayMs: 1000 } }))
        .build()
      for (let index = 0; index < 450; index++) manager.emit('job.failed', { level: 'error' })
      await manager.shutdown()
      const [stats] = manager.stats().transports
      expect(stats).to.deep.include({ accepted: 450, delivered: 350, failed: 100, dropped: 0, pending: 0 })
      expect(stats?.lastError?.message).to.equal(
        'transport "http": the target responded with 400; 100 events are lost',
      )
      expect(target.requests).to.have.length(5)
      expect(logger.codes).to.deep.equal(['TELEMETRY_TRANSPORT_FAILED'])
    })
  })

  describe('trouble', () => {
    const { random } = Math
    beforeEach(() => {
      Math.random = () => 0.05
    })
    afterEach(() => {
      Math.random = random
    })

    const passing: TargetAnswer[] = [
      { status: 408 },
      { status: 429 },
      { status: 500 },
      { status: 502 },
      { status: 503 },
      { status: 504 },
      'broken',
      'hung',
    ]
    for (const answer of passing) {
      const timeout = answer === 'hung' ? 1_000 : 10_000
      it(`HttpTransportAdapter sends an event again after ${inspect(answer)}, as often as retries allows`, async () => {
        target.answers.push(answer, answer)
        await create({ retries: 2, timeout }).handle(anEvent())
        expect(target.requests).to.have.length(3)
      })

      it(`HttpTransportAdapter without retries loses only the event whose response is ${inspect(answer)}`, async () => {
        target.answers.push(answer)
        const transport = create({ timeout })
        const error = await failure(transport.handle(anEvent()))
        expect(error.details).to.deep.equal({
          events: 1,
          attempts: 1,
          ...(typeof answer === 'string' ? {} : { status: answer.status }),
        })
        await transport.handle(anEvent())
        expect(target.requests).to.have.length(2)
      })
    }

    const CREDENTIALS = ' (check the credentials in headers)'
    const REDIRECTS = ' (redirects are not followed; set url to the final URL)'
    const PATH = ' (check the path of url)'
    for (const [status, advice] of [
      [300, REDIRECTS],
      [301, REDIRECTS],
      [307, REDIRECTS],
      [399, REDIRECTS],
      [400, ''],
      [401, CREDENTIALS],
      [403, CREDENTIALS],
      [404, PATH],
      [405, PATH],
      [410, ''],
      [413, ' (the body is too large; lower batch.maxSize)'],
      [422, ''],
      [499, ''],
    ] as const) {
      it(`HttpTransportAdapter does not send an event again after ${status}`, async () => {
        target.answers.push({ status, headers: { location: '/elsewhere', 'retry-after': '1' } })
        const transport = create({ retries: 3 })
        const error = await failure(transport.handle(anEvent()))
        expect(error.message).to.include(`the target responded with ${status}${advice}`)
        if (advice === '') expect(error.message).to.not.include(`${status} (`)
        await transport.handle(anEvent())
        expect(target.requests).to.have.length(2)
        expect(gaps()[0]).to.be.lessThan(500)
      })
    }

    it('HttpTransportAdapter waits a random time before each attempt, up to twice as long each time', async () => {
      for (const [chosen, waits] of [
        [0, [0, 0, 0]],
        [0.999, [250, 500, 1000]],
      ] as const) {
        Math.random = () => chosen
        target.requests.length = 0
        target.answers.push(...Array(4).fill({ status: 503 }))
        const error = await failure(create({ retries: 3 }).handle(anEvent()))
        expect(error.message).to.equal(
          'transport "http": the target responded with 503 in the last of 4 attempts; 1 event is lost',
        )
        for (const [index, wait] of waits.entries())
          expect(gaps()[index]).to.be.within(wait * 0.999, wait + 2_000)
      }
    })

    for (const [what, retryAfter] of [
      ['seconds', () => '1'],
      ['a date', () => new Date(Math.ceil(Date.now() / 1000) * 1000 + 1000).toUTCString()],
    ] as const) {
      it(`HttpTransportAdapter obeys Retry-After in ${what}, also for other events`, async () => {
        target.answers.push({ status: 429, headers: { 'retry-after': retryAfter() } })
        const transport = create()
        await failure(transport.handle(anEvent()))
        target.answers.push({ status: 503, headers: { 'retry-after': retryAfter() } })
        await create({ retries: 1 }).handle(anEvent())
        await transport.handle(anEvent())
        expect(target.requests).to.have.length(4)
        const [refused, secondRefused, repeated, next] = target.requests.map(({ arrivedMs }) => arrivedMs)
        expect((repeated ?? 0) - (secondRefused ?? 0)).to.be.within(950, 5_000)
        expect((next ?? 0) - (refused ?? 0)).to.be.greaterThanOrEqual(950)
      })
    }

    for (const skewHours of [3, -3]) {
      it(`a date in Retry-After is compared with the clock of the target, which differs by ${skewHours} hours`, async () => {
        const theirNow = Math.ceil(Date.now() / 1000) * 1000 + skewHours * 3_600_000
        target.answers.push({
          status: 503,
          headers: {
            date: new Date(theirNow).toUTCString(),
            'retry-after': new Date(theirNow + 1000).toUTCString(),
          },
        })
        await create({ retries: 1 }).handle(anEvent())
        expect(gaps()[0]).to.be.within(950, 5_000)
      })
    }

    it('an event that would have to wait longer than ten minutes fails at once', async () => {
      target.answers.push({ status: 503, headers: { 'retry-after': '9'.repeat(400) } })
      const transport = create({ retries: 5 })
      expect((await failure(transport.handle(anEvent()))).message).to.match(
        /responded with 503, and .* another \d+ s;/,
      )
      expect((await failure(transport.handle(anEvent()))).message).to.match(/pause of another \d{13} s;/)
      expect(target.requests).to.have.length(1)
    })

    it('an invalid Retry-After is ignored', async () => {
      for (const value of ['soon', '-1', '1e9', 'Monday']) {
        target.answers.push({ status: 429, headers: { 'retry-after': value } })
        const started = performance.now()
        await create({ retries: 1 }).handle(anEvent())
        expect(performance.now() - started).to.be.lessThan(3_000)
      }
    })

    it('an endless response body is not read to its end', async () => {
      target.answers.push({ status: 200, body: 'x'.repeat(2 ** 24) })
      const transport = create()
      await transport.handle(anEvent())
      await transport.handle(anEvent())
      expect(target.requests).to.have.length(2)
    })

    it('each attempt of HttpTransportAdapter has a timeout', async () => {
      target.answers.push('hung', 'hung', 'hung')
      const started = performance.now()
      const error = await failure(create({ timeout: 80 }).handle(anEvent()))
      expect(error.message).to.equal(
        'transport "http": the target did not respond within 80 ms; 1 event is lost',
      )
      expect(performance.now() - started).to.be.within(75, 5_000)
    })

    it('errors of HttpTransportAdapter do not contain secrets', async () => {
      const headers = { authorization: 'Bearer S3cr3t-1' }
      const url = `${target.origin}/S3cr3t-2?key=S3cr3t-3`
      const gone = `http://127.0.0.1:${await freePort()}/S3cr3t-2`
      const answers: TargetAnswer[] = [
        { status: 401, body: 'Bearer S3cr3t-1', headers: { 'x-echo': 'S3cr3t-1' } },
        { status: 302, headers: { location: '/S3cr3t-2' } },
        { status: 500, body: 'S3cr3t-3' },
        'broken',
        'hung',
      ]
      target.answers.push(...answers)
      const transport = HttpTransportAdapter.create({ url, headers, timeout: 100 })
      const errors = [await failure(HttpTransportAdapter.create({ url: gone, headers }).handle(anEvent()))]
      for (const _ of answers) errors.push(await failure(transport.handle(anEvent())))
      for (const shown of [transport, ...errors])
        expect(inspect(shown, { depth: 9, showHidden: true })).not.to.include('S3cr3t')
      expect(errors[0]?.message).to.include('could not be reached (ECONNREFUSED)')
    })

    it('a rejection of HttpTransportAdapter that is ignored is not an error of the process', async () => {
      const unhandled: unknown[] = []
      const note = (reason: unknown) => unhandled.push(reason)
      process.on('unhandledRejection', note)
      target.answers.push({ status: 400 })
      const transport = create()
      void transport.handle(anEvent())
      await transport.shutdown()
      void transport.handle(anEvent())
      await new Promise((resolve) => setImmediate(resolve))
      process.off('unhandledRejection', note)
      expect(unhandled).to.deep.equal([])
    })
  })

  it('HttpTransportAdapter does not keep the process alive, neither by a connection nor by a wait', async () => {
    const index = new URL('../../../../src/telemetry/index.js', import.meta.url)
    target.answers.push({ status: 200 }, { status: 429, headers: { 'retry-after': '30' } })
    const program = `
      import { HttpTransportAdapter } from ${JSON.stringify(index.href)}
      const transport = HttpTransportAdapter.create({ url: '${target.origin}', retries: 3 })
      const event = ${JSON.stringify(anEvent())}
      await transport.handle(event)
      transport.handle(event)
      const batching = HttpTransportAdapter.create({ url: '${target.origin}', batch: { maxSize: 9, maxDelayMs: 30000 } })
      batching.handle(event)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' })
    const started = performance.now()
    const [code] = await once(child, 'close')
    expect(code).to.equal(0)
    expect(performance.now() - started).to.be.lessThan(25_000)
    expect(target.requests).to.have.length(2)
  })

  describe('options', () => {
    it('HttpTransportAdapter has defaults for options that are undefined', async () => {
      await create({ headers: undefined, timeout: undefined, retries: undefined, batch: undefined }).handle(
        anEvent(),
      )
      expect(target.requests).to.have.length(1)
    })
  })
})
