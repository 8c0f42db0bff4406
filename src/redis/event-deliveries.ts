import { randomUUID } from 'node:crypto'
import type * as Bull from 'bullmq'
import type {
  Delivery,
  DeliveryOutcome,
  EventStore,
  LoggedEvent,
  LogState,
  StoredSubscription,
  Subscriber,
} from '../mcp/events/store.ts'
import { optionChecksOf } from '../options/option-checks.ts'
import { peerProblem } from '../peer-problem.ts'
import { valueIn } from '../redis-replies.ts'
import { DONE, type EventKeys, WAIT } from './event-scripts.ts'
import { isLikeNodeRedis } from './run-script.ts'

/** The lifetime of the state of deliveries, and of the identity of a log without readers. */
export const DAY_MS = 86_400_000
const QUEUE = 'webhooks'
/** The maximum number of events that wait for the webhooks of one owner. */
const MAX_WAITING = 1_000
/** Errors of Redis during an attempt count as attempts of BullMQ, and must not end a delivery. */
const MAX_STARTS = 1_000
const RETRY_MS = 30_000
/** The time after which the messages of a node that was killed are those of another one. An attempt takes half of it. */
const LOCK_MS = 20_000

/** The data of a job, without a secret. */
type JobData = Pick<Delivery, 'position' | 'body'> & Subscriber

const JOB = {
  attempts: MAX_STARTS,
  backoff: { type: 'custom' },
  removeOnComplete: true,
  removeOnFail: true,
  stackTraceLimit: 0,
} as const

/** Lets BullMQ repeat an attempt. */
class AttemptFailed extends Error {
  readonly delayMs: number

  constructor(delayMs: number) {
    super('The attempt has failed')
    this.delayMs = delayMs
  }
}

/** The parts of the store that deliveries use. */
interface DeliveryProps {
  readonly client: { duplicate(...args: any[]): unknown }
  readonly prefix: string
  readonly keys: EventKeys
  readonly maxBytes: number
  readonly load: (key: string, id: string) => Promise<StoredSubscription | undefined>
  readonly log: (name: string) => Promise<LogState>
  readonly report: (error: Error) => void
}

/** Describes why BullMQ could not be loaded. */
export function notLoaded(cause: unknown): Error {
  const { reason, fix } = peerProblem(cause, 'npm install bullmq@6')
  return optionChecksOf('redisEventStore').unusableOption(
    'redisEventStore',
    `needs packages (bullmq) that ${reason}`,
    fix,
  )
}

async function loadBull(): Promise<typeof Bull> {
  try {
    return await import('bullmq')
  } catch (cause) {
    throw notLoaded(cause)
  }
}

/** The messages that wait for webhooks, as jobs of BullMQ. A job is named by its subscription, `id.since`, and its position. */
export class EventDeliveries {
  readonly #props: DeliveryProps
  readonly #bull: Promise<typeof Bull> = loadBull()
  #queue: Promise<Bull.Queue> | undefined
  #connection: any

  constructor(props: DeliveryProps) {
    this.#props = props
    this.#bull.catch(props.report)
  }

  /** Adds the deliveries of an event, as `EventStore.deliver` does. */
  async deliver(
    { position, body }: Pick<LoggedEvent, 'position' | 'body'>,
    subscribers: readonly Subscriber[],
  ): Promise<readonly string[]> {
    const queue = await this.#open()
    const dropped = subscribers.map(async ({ id, owner, since }) => {
      const name = `${id}.${since}`
      const values = [owner, name, position, Buffer.byteLength(body), MAX_WAITING, this.#props.maxBytes]
      const [count, ...oldest] = (await this.#props.keys.run(WAIT, [...values, 2 * DAY_MS])) as unknown[]
      const data: JobData = { id, owner, since, position, body }
      // The owner with fewer events that wait comes first.
      const opts = { ...JOB, jobId: `${name}.${position}`, priority: Number(count) }
      if (opts.priority > 0) await queue.add('event', data, opts)
      return await Promise.all(oldest.map((member) => this.#drop(queue, owner, valueIn(member) ?? '')))
    })
    return (await Promise.all(dropped)).flat()
  }

  /** Removes the job of an event that no longer waits, and returns the id of its subscription. */
  async #drop(queue: Bull.Queue, owner: string, member: string): Promise<string> {
    const [name = '', position] = member.split(' ')
    const [id = '', since] = name.split('.')
    // An attempt that runs may still succeed.
    await queue.remove(`${name}.${position}`).catch(() => undefined)
    await this.#addGap({ id, owner, since: Number(since) })
    return id
  }

  /** Adds a message of another kind. */
  async add(kind: Delivery['kind'], subscriber: Subscriber, body: string): Promise<void> {
    const data: JobData = { ...subscriber, position: 0, body }
    const opts = { ...JOB, jobId: `${subscriber.id}.${randomUUID()}`, priority: 1 }
    await (await this.#open()).add(kind, data, opts)
  }

  async #addGap(subscriber: Subscriber): Promise<void> {
    const key = `gap:${subscriber.id}.${subscriber.since}`
    if ((await this.#props.keys.command('SET', key, 1, 'NX', 'PX', DAY_MS)) !== null)
      await this.add('gap', subscriber, '')
  }

  /** Attempts what is due, as `EventStore.work` does. */
  work(attempt: Parameters<EventStore['work']>[0], max: number): () => Promise<void> {
    const working = this.#bull.then((bull) => {
      const worker = new bull.Worker<JobData>(
        QUEUE,
        (job, token) => this.#attempt(bull, job, token, attempt),
        {
          connection: this.#connected(bull),
          prefix: this.#props.prefix,
          concurrency: max,
          maxStalledCount: MAX_STARTS,
          lockDuration: LOCK_MS,
          stalledInterval: LOCK_MS / 2,
          settings: {
            backoffStrategy: (_made, _type, error) =>
              error instanceof AttemptFailed ? error.delayMs : RETRY_MS,
          },
        },
      )
      worker.on('error', this.#props.report)
      return worker
    })
    working.catch(() => undefined)
    return async () => await (await working).close()
  }

  async close(): Promise<void> {
    const queue = await this.#queue?.catch(() => undefined)
    await queue?.close().catch(() => undefined)
    this.#connection?.disconnect()
  }

  #connected(bull: typeof Bull): any {
    if (this.#connection === undefined) {
      const isNodeRedis = isLikeNodeRedis(this.#props.client)
      const options = { maxRetriesPerRequest: null, keyPrefix: '' }
      const client = isNodeRedis ? this.#props.client.duplicate() : this.#props.client.duplicate(options)
      this.#connection = isNodeRedis ? bull.createNodeRedisClient(client as never) : client
    }
    return this.#connection
  }

  #open(): Promise<Bull.Queue> {
    this.#queue ??= this.#bull.then((bull) => {
      const queue = new bull.Queue(QUEUE, {
        connection: this.#connected(bull),
        prefix: this.#props.prefix,
        streams: { events: { maxLen: 100 } },
      })
      queue.on('error', this.#props.report)
      return queue
    })
    return this.#queue
  }

  async #attempt(
    bull: typeof Bull,
    job: Bull.Job<JobData>,
    token: string | undefined,
    attempt: Parameters<EventStore['work']>[0],
  ): Promise<void> {
    const kind = job.name as Delivery['kind']
    const { id, owner, since, position, body } = job.data
    const subscription = await this.#props.load(kind === 'terminated' ? `ended:${id}` : `sub:${id}`, id)
    let outcome: DeliveryOutcome = { outcome: 'abandoned' }
    const isLive = subscription?.since === since
    if (isLive) {
      if (kind === 'gap') await this.#props.keys.command('DEL', `gap:${id}.${since}`)
      outcome = await attempt({
        id: String(job.id),
        kind,
        subscription: subscription as Delivery['subscription'],
        log: await this.#props.log(subscription.name),
        position,
        body,
        attempts: job.attemptsMade,
        postponed: job.attemptsStarted - job.attemptsMade - 1,
        addedAtMs: job.timestamp,
      })
      const { status } = outcome
      if (status !== undefined)
        await this.#props.keys.command('SET', `status:${id}`, JSON.stringify(status), 'PX', DAY_MS)
    }
    if (outcome.outcome === 'postponed') {
      await job.moveToDelayed(Date.now() + outcome.delayMs, token)
      throw new bull.DelayedError()
    }
    if (outcome.outcome === 'failed') throw new AttemptFailed(outcome.delayMs)
    if (kind !== 'event') return
    await this.#props.keys.run(DONE, [owner, `${id}.${since}`, position, Buffer.byteLength(body)])
    if (outcome.outcome === 'abandoned' && isLive) await this.#addGap({ id, owner, since })
  }
}
