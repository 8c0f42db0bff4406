import { inspect } from 'node:util'
import { expect } from 'chai'
import {
  HttpTransportAdapter,
  KitTelemetry,
  OtlpTransportAdapter,
  type TelemetryTransport,
} from '../../../src/telemetry/index.ts'
import { listen } from '../../support/listen.ts'
import { startOtlpReceiver } from '../../support/otlp-receiver.ts'
import { expectCode, RecordingLogger } from '../../support/telemetry/recording.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

const SECRET = 'sk-live-4f9d8a7b6c5e'

/** Sends one event with each of the transports that take a function, to a target that responds with some statuses. */
const TARGETS: Readonly<
  Record<
    string,
    (
      headers: Wrong,
      statuses: number[],
    ) => Promise<{ transport: TelemetryTransport; received: Wrong[]; close(): Promise<void> }>
  >
> = {
  async HttpTransportAdapter(headers, statuses) {
    const received: Wrong[] = []
    const { origin } = await listen((req, res) => {
      received.push(req.headers)
      req.resume().on('end', () => res.writeHead(statuses.shift() ?? 200).end())
    })
    const transport = HttpTransportAdapter.create({ url: origin, retries: 2, headers })
    return { transport, received, close: async () => {} }
  },
  async OtlpTransportAdapter(headers, statuses) {
    const receiver = await startOtlpReceiver({
      answer: () => {
        const status = statuses.shift()
        const last = receiver.requests.at(-1)
        return status === undefined
          ? undefined
          : {
              status,
              body: JSON.stringify({ message: `bad token ${last?.headers.authorization ?? SECRET}` }),
            }
      },
    })
    const transport = OtlpTransportAdapter.create({ url: receiver.url, headers, retryBudgetMs: 3_000 })
    return {
      transport,
      get received() {
        return receiver.requests.map((request) => request.headers)
      },
      close: () => receiver.close(),
    }
  },
}

for (const [name, start] of Object.entries(TARGETS)) {
  describe(`headers of ${name} as a function`, () => {
    async function send(headers: Wrong, statuses: number[] = []) {
      const logger = new RecordingLogger()
      const target = await start(headers, statuses)
      const manager = KitTelemetry.create()
        .withSampling({ infoRate: 1 })
        .withLogger(logger)
        .addTransport(target.transport)
        .build()
      manager.emit('a')
      await manager.flush({ timeoutMs: 10_000 })
      const [stats] = manager.stats().transports
      await manager.shutdown({ timeoutMs: 1_000 })
      await target.close()
      return {
        stats,
        received: target.received,
        reports: inspect([logger, stats], { depth: 9, showHidden: true }),
      }
    }

    it(`${name} calls the function before each attempt`, async () => {
      let calls = 0
      const { stats, received } = await send(
        async () => ({ authorization: `Bearer token-${++calls}` }),
        [503],
      )
      expect(stats?.delivered).to.equal(1)
      expect(received.map((headers) => headers.authorization)).to.deep.equal([
        'Bearer token-1',
        'Bearer token-2',
      ])
    })

    it(`${name} accepts Headers and a Map from a synchronous function`, async () => {
      let calls = 0
      const given = () => (calls++ === 0 ? new Headers({ 'x-key': 'one' }) : new Map([['x-key', 'two']]))
      const { received } = await send(given, [503])
      expect(received.map((headers) => headers['x-key'])).to.deep.equal(['one', 'two'])
    })

    it(`${name} sends after an attempt whose function has failed`, async () => {
      let calls = 0
      const { stats, received } = await send(() => {
        if (calls++ === 0) throw new Error(SECRET)
        return { 'x-key': 'one' }
      })
      expect([stats?.delivered, received.length, calls]).to.deep.equal([1, 1, 2])
    })

    const failing: readonly (readonly [what: string, headers: Wrong, reason: RegExp])[] = [
      [
        'throws',
        () => {
          throw new Error(SECRET)
        },
        /the function headers threw an error[;,. ]/,
      ],
      [
        'rejects with a code',
        async () => {
          throw Object.assign(new Error(SECRET), { code: 'ENOTFOUND' })
        },
        /threw an error \(ENOTFOUND\)/,
      ],
      ['returns nothing', () => undefined, /did not return an object of valid header names and values/],
      [
        'returns a header value with a line break',
        () => ({ authorization: `${SECRET}\nx: y` }),
        /did not return an object of valid/,
      ],
      [
        'returns a header name with a secret',
        () => ({ [`bearer ${SECRET}`]: 'x' }),
        /did not return an object of valid/,
      ],
    ]
    for (const [what, headers, reason] of failing) {
      it(`${name} fails, without a secret in its errors, if the function ${what}`, async () => {
        const { stats, received, reports } = await send(headers)
        expect([stats?.failed, received.length]).to.deep.equal([1, 0])
        expect(stats?.lastError?.message).to.match(reason)
        expect(reports).not.to.include(SECRET)
      })
    }

    it(`${name} removes the secrets of the function from the reason of a target`, async () => {
      const { stats, reports } = await send(() => ({ authorization: `Bearer ${SECRET}` }), [400])
      expect(stats?.failed).to.equal(1)
      expect(reports).not.to.include(SECRET)
    })

    it(`${name} rejects headers that are neither values nor a function`, () => {
      const create =
        name === 'HttpTransportAdapter' ? HttpTransportAdapter.create : OtlpTransportAdapter.create
      expect(
        expectCode('TELEMETRY_CONFIGURATION_INVALID', () =>
          create({ url: 'http://127.0.0.1:1', headers: SECRET as Wrong }),
        ).message,
      )
        .to.include('must be an object of strings')
        .and.not.to.include(SECRET)
    })
  })
}

it('a function that returns headers has 5 seconds for an attempt', async () => {
  const headers = () => new Promise<never>(() => {})
  const url = 'http://127.0.0.1:1'
  const manager = KitTelemetry.create()
    .withSampling({ infoRate: 1 })
    .withLogger(false)
    .addTransport(HttpTransportAdapter.create({ url, headers }))
    .addTransport(OtlpTransportAdapter.create({ url, headers, retryBudgetMs: 0 }))
    .build()
  manager.emit('a')
  await manager.flush({ timeoutMs: 15_000 })
  for (const { failed, lastError } of manager.stats().transports) {
    expect(failed).to.equal(1)
    expect(lastError?.message).to.include('the function headers did not return within 5000 ms')
  }
  await manager.shutdown({ timeoutMs: 100 })
})
