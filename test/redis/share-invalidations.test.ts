import { createHash } from 'node:crypto'
import { expect } from 'chai'
import { cachedVerifier, shareInvalidations } from '../../src/index.ts'
import type { RedisClient } from '../../src/redis/run-script.ts'
import { expectConfigError } from '../support/config-error.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'
import { verifyInput } from '../support/tokens.ts'

interface InfoClient {
  info(section: string): Promise<unknown>
}

const sha256 = (token: string): string => createHash('sha256').update(token).digest('hex')

/** The verifier of a node, which counts the calls of the wrapped verifier. */
class Node {
  asked = 0
  caughtUp = 0
  readonly verify: ReturnType<typeof shareInvalidations>
  #wake: () => void = () => undefined

  constructor(redis: RedisClient) {
    const asking = async () => {
      this.asked++
      return { valid: true }
    }
    this.verify = shareInvalidations(cachedVerifier(asking), redis, {
      onCaughtUp: () => {
        this.caughtUp++
        this.#wake()
      },
    })
  }

  async ready(times = 1): Promise<this> {
    while (this.caughtUp < times) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return this
  }

  async ask(token: string): Promise<void> {
    await this.verify(verifyInput(token))
  }

  /** Verifies the token until the wrapped verifier is called again. */
  async forgets(token: string): Promise<void> {
    for (const { asked } = this; this.asked === asked; ) {
      await this.ask(token)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

describe('shareInvalidations', () => {
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

      async function client() {
        const made = await connect(redis.port)
        undo.push(() => made.end())
        return made
      }

      async function node(): Promise<Node> {
        const made = new Node(await client())
        undo.push(() => made.verify.close())
        return made.ready()
      }

      it(`an invalidation of one node reaches every node (${name})`, async () => {
        const [one, other] = [await node(), await node()]
        for (const forget of [
          () => one.verify.invalidate('token'),
          () => one.verify.invalidateKey(sha256('token')),
          () => one.verify.clear(),
        ]) {
          for (const each of [one, other, one, other]) await each.ask('token')
          const { asked } = one
          forget()
          await one.ask('token')
          expect(one.asked).to.equal(asked + 1)
          await other.forgets('token')
        }
        expect(one.asked).to.equal(4)
        expect(other.asked).to.equal(4)
      })

      it(`an invalidation does not remove other tokens (${name})`, async () => {
        const [one, other] = [await node(), await node()]
        for (const token of ['kept', 'lost']) await other.ask(token)
        one.verify.invalidate('lost')
        await other.forgets('lost')
        await other.ask('kept')
        expect(other.asked).to.equal(3)
      })

      it(`messages contain only the SHA-256 of a token (${name})`, async () => {
        const received: string[] = []
        const ear = await client()
        const done = new Promise<void>((resolve) => {
          const add = (message: string) => {
            received.push(message)
            if (message.endsWith(' clear')) resolve()
          }
          const channel = 'mcp-gatekit:invalidations'
          ear.on('message', (_channel: string, message: string) => add(message))
          void (name === 'ioredis' ? ear.subscribe(channel) : ear.subscribe(channel, add))
        })
        const one = await node()
        await one.ask('secret-token')
        one.verify.invalidate('secret-token')
        // A token instead of a key, by mistake.
        one.verify.invalidateKey('secret-token')
        one.verify.clear()
        await done
        expect(received.map((message) => message.slice(37))).to.deep.equal([sha256('secret-token'), 'clear'])
      })

      it(`a node clears its cache after an outage, and gets the messages that were sent meanwhile (${name})`, async () => {
        const [one, other] = [await node(), await node()]
        for (const each of [one, other]) await each.ask('token')
        await redis.kill()
        one.verify.invalidate('token')
        // The node keeps working.
        await other.ask('token')
        expect(other.asked).to.equal(1)
        await redis.start()
        await Promise.all([one.ready(2), other.ready(2)])
        await other.ask('token')
        expect(other.asked).to.be.greaterThan(1)
        one.verify.invalidate('token')
        await other.forgets('token')
      })

      it(`a node subscribes once after an outage (${name})`, async () => {
        const one = await node()
        await redis.kill()
        await redis.start()
        await one.ready(2)
        const statistics = String(await ((await client()) as unknown as InfoClient).info('commandstats'))
        expect(/cmdstat_subscribe:calls=(\d+)/.exec(statistics)?.[1]).to.equal('1')
      })
    })
  }

  it('shareInvalidations throws for anything but a cached verifier, and for unknown options', () => {
    const verifier = cachedVerifier(() => undefined)
    const client = { publish() {}, duplicate: () => ({ on() {} }) }
    for (const [make, code, option] of [
      [() => shareInvalidations(undefined as never, client), 'MCP_CONFIG_MISSING_OPTION', 'verifier'],
      [() => shareInvalidations((() => {}) as never, client), 'MCP_CONFIG_INVALID_OPTION', 'verifier'],
      [() => shareInvalidations(verifier, {} as never), 'MCP_CONFIG_INVALID_OPTION', 'shareInvalidations'],
      [
        () => shareInvalidations(verifier, client, { onErrors() {} } as never),
        'MCP_CONFIG_UNKNOWN_OPTION',
        'onErrors',
      ],
      [
        () => shareInvalidations(verifier, client, 5 as never),
        'MCP_CONFIG_INVALID_OPTION',
        'shareInvalidations',
      ],
    ] as const)
      expectConfigError(make, { code, option, message: /./ })
  })
})
