import { once } from 'node:events'
import { gunzipSync } from 'node:zlib'
import { expect } from 'chai'
import {
  HttpTransportAdapter,
  type HttpTransportOptions,
  KitTelemetry,
} from '../../../../src/telemetry/index.ts'
import { listen } from '../../../support/listen.ts'
import { RecordingLogger } from '../../../support/telemetry/recording.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

interface Received {
  readonly type: string | undefined
  readonly encoding: string | undefined
  readonly body: Buffer
}

/** Sends events, and returns the requests and the statistics. */
async function send(options: Partial<HttpTransportOptions>, inputs: Wrong[] = [{}], statuses: number[] = []) {
  const received: Received[] = []
  const { origin } = await listen(async (req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk) => chunks.push(chunk))
    await once(req, 'end')
    received.push({
      type: req.headers['content-type'],
      encoding: req.headers['content-encoding'],
      body: Buffer.concat(chunks),
    })
    res.writeHead(statuses.shift() ?? 200).end()
  })
  const manager = KitTelemetry.create()
    .withSampling({ infoRate: 1 })
    .withLogger(new RecordingLogger())
    .addTransport(HttpTransportAdapter.create({ url: origin, ...options }))
    .build()
  for (const [index, input] of inputs.entries()) manager.emit(`e${index}`, input)
  await manager.flush({ timeoutMs: 5_000 })
  const [stats] = manager.stats().transports
  await manager.shutdown()
  return { received, stats }
}

const namesOf = (json: string): string[] => [JSON.parse(json)].flat().map(({ name }) => name)

describe('HttpTransportAdapter, the body of a request', () => {
  const batch = { maxSize: 10, maxDelayMs: 0 }
  const bodies: readonly (readonly [
    what: string,
    options: Partial<HttpTransportOptions>,
    type: string,
    bodies: (text: string) => Wrong,
    expected: Wrong,
  ])[] = [
    [
      'json is one envelope',
      { serialize: 'json' },
      'application/json',
      (text) => JSON.parse(text).name,
      ['e0', 'e1'],
    ],
    ['json with batch is an array', { batch }, 'application/json', namesOf, [['e0', 'e1']]],
    [
      'ndjson is one line',
      { serialize: 'ndjson' },
      'application/x-ndjson',
      (text) => text.endsWith('}\n') && namesOf(text),
      [['e0'], ['e1']],
    ],
    [
      'ndjson with batch is a line for each',
      { serialize: 'ndjson', batch },
      'application/x-ndjson',
      (text) => text.trimEnd().split('\n').flatMap(namesOf),
      [['e0', 'e1']],
    ],
    [
      'a function decides about body and type',
      {
        serialize: (envelopes) => ({
          body: envelopes.map(({ name }) => name).join('+'),
          contentType: 'text/plain',
        }),
        batch,
      },
      'text/plain',
      (text) => text,
      ['e0+e1'],
    ],
    [
      'a function may return bytes',
      {
        serialize: () => ({ body: new Uint8Array([104, 105]), contentType: 'application/octet-stream' }),
        batch,
      },
      'application/octet-stream',
      (text) => text,
      ['hi'],
    ],
    [
      'a header of the application wins',
      { headers: { 'Content-Type': 'a/b' }, batch, serialize: 'ndjson' },
      'a/b',
      () => 0,
      [0],
    ],
  ]
  for (const [what, options, type, read, expected] of bodies) {
    it(`HttpTransportAdapter: ${what}`, async () => {
      const { received, stats } = await send(options, [{}, {}])
      expect(stats?.delivered).to.equal(2)
      expect(received.map((request) => request.type)).to.deep.equal(received.map(() => type))
      expect(received.map(({ body }) => read(String(body)))).to.deep.equal(expected)
    })
  }

  const sizes: readonly (readonly [what: string, body: string | Uint8Array, isCompressed: boolean])[] = [
    ['a body of 1,023 bytes', 'x'.repeat(1023), false],
    ['a body of 1,024 bytes', 'x'.repeat(1024), true],
    ['1,024 bytes in fewer characters', 'é'.repeat(512), true],
    ['bytes', new Uint8Array(5000), true],
  ]
  for (const [what, body, isCompressed] of sizes) {
    it(`HttpTransportAdapter with gzip and ${what}`, async () => {
      const serialize = () => ({ body, contentType: 'text/plain' })
      const { received } = await send({ gzip: true, serialize, retries: 1 }, [{}], [503])
      expect(received).to.have.length(2)
      for (const request of received) {
        expect(request.encoding).to.equal(isCompressed ? 'gzip' : undefined)
        expect(isCompressed ? gunzipSync(request.body) : request.body).to.deep.equal(
          Buffer.from(body as string),
        )
      }
    })
  }

  it('HttpTransportAdapter without gzip sends a large body as it is', async () => {
    const { received } = await send({}, [{ attributes: { text: 'x'.repeat(4000) } }])
    expect([received[0]?.encoding, namesOf(String(received[0]?.body))]).to.deep.equal([undefined, ['e0']])
  })

  const wrong: readonly (readonly [what: string, serialize: Wrong])[] = [
    [
      'throws',
      () => {
        throw new Error('secret-of-event')
      },
    ],
    ['returns nothing', () => undefined],
    ['returns a body that is an object', () => ({ body: {}, contentType: 'text/plain' })],
    ['returns no media type', () => ({ body: 'x' })],
    ['returns a media type that is not a header value', () => ({ body: 'x', contentType: 'a\nb' })],
    [
      'is asynchronous',
      async () => {
        throw new Error('secret-of-event')
      },
    ],
  ]
  for (const [what, serialize] of wrong) {
    it(`HttpTransportAdapter counts an event as failed if serialize ${what}`, async () => {
      const { received, stats } = await send({ serialize, retries: 3 })
      expect([stats?.failed, received.length]).to.deep.equal([1, 0])
      expect(stats?.lastError?.message).to.include('could not be serialized').and.not.to.include('secret')
    })
  }
})
