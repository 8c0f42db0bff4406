import { expect } from 'chai'
import { memoryEventStore } from '../../../src/mcp/events/memory-event-store.ts'
import type { SubscriptionRecord } from '../../../src/mcp/events/store.ts'

const LIMITS = { ttlMs: 60_000, max: 10 }
const URL_OF_HOOK = 'https://example.com/hook'

const record = (id: string, owner: string): SubscriptionRecord => ({
  id,
  owner,
  name: 'paid',
  args: '{}',
  auth: { clientId: 'c', scopes: [] },
  webhook: { url: URL_OF_HOOK, secrets: [] },
})

/** The memory of a record is 512 bytes, and 2 for each character of its JSON. */
const bytesOf = (text: string): number => 512 + 2 * text.length
const BYTES = bytesOf(JSON.stringify(record('a', 'ada')))

describe('memoryEventStore()', () => {
  for (const [limit, options] of [
    ['maxBytes', { maxBytesPerOwner: 1_000_000 }],
    ['maxBytesPerOwner', { maxBytes: 1_000_000 }],
  ] as const) {
    for (const [what, add, bytes] of [
      [
        'a second subscription',
        async (store) => (await store.subscribe(record('b', 'ada'), LIMITS)).outcome === 'added',
        2 * BYTES,
      ],
      [
        'a delivery',
        async (store) => {
          const event = { eventId: 'e', name: 'paid', body: '{"a":1}', channels: [''], deliveries: ['a'] }
          return (await store.append(event)).dropped.length === 0
        },
        BYTES + bytesOf('{"a":1}'),
      ],
      [
        'a verified URL',
        async (store) => {
          await store.setVerified('ada', URL_OF_HOOK, 60_000)
          return await store.isVerified('ada', URL_OF_HOOK)
        },
        BYTES + bytesOf(URL_OF_HOOK),
      ],
    ] as const satisfies readonly (readonly [
      string,
      (store: ReturnType<typeof memoryEventStore>) => Promise<boolean>,
      number,
    ])[]) {
      it(`${what} fits into ${limit} of exactly its size, and not into one byte less`, async () => {
        for (const [max, fits] of [
          [bytes, true],
          [bytes - 1, false],
        ] as const) {
          const store = memoryEventStore({ ...options, [limit]: max })
          expect((await store.subscribe(record('a', 'ada'), LIMITS)).outcome).to.equal('added')
          expect(await add(store)).to.equal(fits)
        }
      })
    }

    it(`the memory of a subscription that has ended is free for others within ${limit}`, async () => {
      const store = memoryEventStore({ ...options, [limit]: BYTES })
      for (const id of ['a', 'b', 'c']) {
        expect((await store.subscribe(record(id, 'ada'), LIMITS)).outcome).to.equal('added')
        expect((await store.subscribe(record('x', 'ada'), LIMITS)).outcome).to.equal('owner-full')
        await store.end(id)
      }
    })
  }
})
