import { EventEmitter } from 'node:events'
import type { ServerEvent } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import type { RedisBroadcastOptions } from '../../src/redis/broadcast.ts'
import { type RedisEventBus, redisEventBus } from '../../src/redis/event-bus.ts'
import type { RedisClient } from '../../src/redis/run-script.ts'
import { expectConfigError } from '../support/config-error.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'

const TOOLS: ServerEvent = { kind: 'tools_list_changed' }
const updated = (uri: string): ServerEvent => ({ kind: 'resource_updated', uri })
const GAP = ['tools_list_changed', 'prompts_list_changed', 'resources_list_changed']

/** The bus of a node, the events of its listeners, and the number of its `onCaughtUp` calls. */
class Node {
  readonly received: string[] = []
  readonly errors: string[] = []
  caughtUp = 0
  readonly bus: RedisEventBus
  #wake: () => void = () => undefined

  constructor(redis: Parameters<typeof redisEventBus>[0], options: RedisBroadcastOptions = {}) {
    this.bus = redisEventBus(redis, {
      onError: ({ message }) => {
        this.errors.push(message)
        this.#wake()
      },
      onCaughtUp: () => {
        this.caughtUp++
        this.#wake()
      },
      ...options,
    })
  }

  listen(): this {
    this.bus.subscribe((event) => {
      this.received.push(event.kind === 'resource_updated' ? event.uri : event.kind)
      this.#wake()
    })
    return this
  }

  async until(condition: (node: Node) => boolean): Promise<void> {
    while (!condition(this)) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

describe('mcp: redisEventBus', () => {
  let redis: RedisServer
  before(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
  })
  after(() => redis?.stop())

  for (const { name, connect } of REDIS_CLIENTS) {
    describe(`on ${name}`, () => {
      const undo: (() => unknown)[] = []
      afterEach(async () => {
        for (const one of undo.splice(0).reverse()) await one()
      })

      async function client(): Promise<RedisClient> {
        const made = await connect(redis.port)
        undo.push(() => made.end())
        return made
      }

      /** Starts a node and waits for its subscription. */
      async function node(given?: Parameters<typeof redisEventBus>[0], options?: RedisBroadcastOptions) {
        const made = new Node(given ?? (await client()), options)
        undo.push(() => made.bus.close())
        await made.until(({ caughtUp }) => caughtUp === 1)
        return made.listen()
      }

      it(`an event reaches the listeners of its node at once, and those of other nodes, each once (${name})`, async () => {
        const [one, other] = [await node(), await node()]
        one.bus.publish(updated('notes://1'))
        expect(one.received).to.deep.equal(['notes://1'])
        other.bus.publish(TOOLS)
        expect(other.received).to.include('tools_list_changed')
        await one.until(({ received }) => received.length === 2)
        await other.until(({ received }) => received.length === 2)
        // All earlier messages have arrived before this one.
        one.bus.publish(updated('last'))
        await other.until(({ received }) => received.includes('last'))
        expect(one.received).to.deep.equal(['notes://1', 'tools_list_changed', 'last'])
        expect(other.received).to.have.members(['notes://1', 'tools_list_changed', 'last'])
      })

      it(`a burst of one event is published at most twice, the last time after all of it (${name})`, async () => {
        const [one, other] = [await node(), await node()]
        for (let count = 0; count < 1_000; count++) one.bus.publish(TOOLS)
        one.bus.publish(updated('last'))
        await other.until(({ received }) => received.includes('last') && received.length === 3)
        expect(one.received).to.have.length(1_001)
        expect(other.received.filter((kind) => kind === 'tools_list_changed')).to.have.length(2)
      })

      it(`an event does not reach another channel (${name})`, async () => {
        const [one, apart] = [await node(), await node(undefined, { channel: 'apart' })]
        const other = await node()
        apart.bus.publish(updated('apart'))
        one.bus.publish(updated('here'))
        await other.until(({ received }) => received.length > 0)
        expect(other.received).to.deep.equal(['here'])
        expect(apart.received).to.deep.equal(['apart'])
      })

      it(`a node without Redis keeps working, reports it once, and catches up afterwards (${name})`, async () => {
        const [one, other] = [await node(), await node()]
        await redis.kill()
        try {
          await one.until(({ errors }) => errors.length > 0)
          await other.until(({ errors }) => errors.length > 0)
          for (let count = 0; count < 5; count++) one.bus.publish(updated('missed'))
          expect(one.received).to.deep.equal(new Array(5).fill('missed'))
        } finally {
          await redis.start()
        }
        await one.until(({ caughtUp }) => caughtUp === 2)
        await other.until(({ caughtUp }) => caughtUp === 2)
        expect(one.errors).to.have.length(1)
        expect(one.errors[0]).to.match(/^Redis channel mcp-gatekit:events: /)
        expect(one.received.slice(5)).to.deep.equal(GAP)
        other.bus.publish(updated('again'))
        await one.until(({ received }) => received.includes('again'))
        one.bus.publish(updated('at last'))
        await other.until(({ received }) => received.includes('at last'))
        expect(other.received).to.include.members(GAP)
      })

      it(`a message that cannot be read is ignored (${name})`, async () => {
        const raw = await client()
        const one = await node()
        const texts = ['', 'x', 'x {', 'x null', 'x 5', 'x {"kind":"other"}', 'x {"kind":"resource_updated"}']
        for (const text of [...texts, 'x {"kind":"tools_list_changed","params":5}'])
          await raw.publish('mcp-gatekit:events', text)
        await raw.publish('mcp-gatekit:events', 'x {"kind":"tools_list_changed"}')
        await one.until(({ received }) => received.length > 0)
        expect(one.received).to.deep.equal(['tools_list_changed'])
        expect(one.errors).to.deep.equal(['Redis channel mcp-gatekit:events: a message could not be read'])
      })

      for (const [fail, angry] of [
        [
          'throw',
          () => {
            throw new Error('angry')
          },
        ],
        ['reject', () => Promise.reject(new Error('angry'))],
      ] as const) {
        it(`listeners that throw and callbacks that ${fail} do not stop the bus (${name})`, async () => {
          let calls = 0
          const counted = () => {
            calls++
            return angry()
          }
          const one = redisEventBus(await client(), { onError: counted, onCaughtUp: counted })
          undo.push(() => one.close())
          one.subscribe(() => {
            throw new Error('angry')
          })
          const other = await node()
          const received = new Promise((resolve) => one.subscribe((event) => resolve(event)))
          other.bus.publish(TOOLS)
          one.publish(updated('there'))
          await other.until((node) => node.received.includes('there'))
          await received
          expect(calls).to.be.greaterThan(0)
        })
      }
    })
  }

  it('an error of the subscriber after close() does not end the process', async () => {
    const client = (): EventEmitter =>
      Object.assign(new EventEmitter(), {
        status: 'ready',
        publish: async () => 0,
        subscribe: async () => undefined,
        disconnect: () => undefined,
        duplicate: () => subscriber,
      })
    const subscriber = client()
    const errors: Error[] = []
    const bus = redisEventBus(client() as never, { onError: (error: Error) => errors.push(error) })
    expect(subscriber.listenerCount('error')).to.equal(1)
    await bus.close()
    subscriber.emit('error', new Error('late'))
    expect(errors).to.deep.equal([])
  })

  it('a message that Redis rejects is sent again', async () => {
    let refusing = true
    const sent: string[] = []
    const publisher = {
      publish: async (_channel: string, message: string) => {
        if (refusing) throw new Error('NOPERM')
        sent.push(message.slice(message.indexOf(' ') + 1))
      },
      duplicate: () => subscriber,
    }
    const [ioredis] = REDIS_CLIENTS
    const subscriber = await ioredis?.connect(redis.port)
    if (subscriber === undefined) return
    const node = new Node(publisher)
    try {
      for (let count = 0; count < 1_500; count++) node.bus.publish(updated(`notes://${count}`))
      await node.until(({ errors }) => errors.length > 0)
      expect(node.errors).to.deep.equal(['Redis channel mcp-gatekit:events: could not publish: NOPERM'])
      refusing = false
      await new Promise<void>((resolve) => {
        const timer = setInterval(() => {
          if (sent.length < 1_001) return
          clearInterval(timer)
          resolve()
        }, 20)
      })
      // Beyond a thousand messages, a gap is announced.
      expect(sent.filter((text) => text === '')).to.have.length.within(1, 2)
      expect(sent.filter((text) => text !== '')).to.have.length(1_000)
    } finally {
      await node.bus.close()
      subscriber.end()
    }
  })

  it('redisEventBus throws for anything but clients, and for unknown options', () => {
    const client = { publish() {}, duplicate: () => ({ on() {} }) }
    for (const wrong of [
      ...[undefined, null, {}, 'redis://localhost', { publisher: client, subscriber: client }],
      ...Object.keys(client).map((method) => ({ ...client, [method]: undefined })),
    ])
      expectConfigError(() => redisEventBus(wrong as never), {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'redisEventBus',
        message: /ioredis/,
      })
    for (const [options, option, message] of [
      [{ chanel: 'x' }, 'chanel', /Did you mean 'channel'/],
      [{ channel: '' }, 'channel', /non-empty/],
      [{ onError: 5 }, 'onError', /function/],
      [{ onCaughtUp: 5 }, 'onCaughtUp', /function/],
      [5, 'redisEventBus', /options/],
      [null, 'redisEventBus', /options/],
    ] as const)
      expectConfigError(() => redisEventBus(client, options as never), {
        code: option === 'chanel' ? 'MCP_CONFIG_UNKNOWN_OPTION' : 'MCP_CONFIG_INVALID_OPTION',
        option,
        message,
      })
  })
})
