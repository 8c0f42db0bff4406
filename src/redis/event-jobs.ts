import { randomUUID } from 'node:crypto'
import type * as Bull from 'bullmq'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { isInstalled, peerProblem } from '../base/peer-problem.ts'
import type { Delivery, DeliveryOutcome, Position, Subscriber } from '../mcp/events/store.ts'
import { isLikeNodeRedis } from './run-script.ts'

const QUEUE = 'webhooks'
/** Errors of Redis during an attempt count as attempts of BullMQ, and must not end a delivery. */
const MAX_STARTS = 1_000
const RETRY_MS = 30_000
/** The time after which the messages of a node that was killed are those of another one. An attempt takes half of it. */
const LOCK_MS = 20_000

/** The data of a job, without a secret. */
type JobData = Pick<Delivery, 'position' | 'body'> & Subscriber

/** A message to a webhook that is attempted. */
export interface EventJob extends JobData, Pick<Delivery, 'kind' | 'attempts' | 'postponed' | 'addedAtMs'> {
  /** Identifies it in all its attempts. */
  readonly jobId: string
}

/** @throws {KitMcpConfigError} if BullMQ is not installed. A bundle contains all packages, and the import reports others. */
export function checkBull(): void {
  if (isInstalled('jose') && !isInstalled('bullmq')) throw notLoaded({ code: 'MODULE_NOT_FOUND' })
}

function notLoaded(cause: unknown): Error {
  const { unusableOption } = optionChecksOf('redisEventStore')
  const { reason, fix } = peerProblem(cause, 'npm install bullmq@6')
  return unusableOption('redisEventStore', `needs packages (bullmq) that ${reason}`, fix)
}

async function loadBull(): Promise<typeof Bull> {
  try {
    return await import('bullmq')
  } catch (cause) {
    throw notLoaded(cause)
  }
}

/** The messages to webhooks, as jobs of BullMQ. The job of an event is named by its subscription, `id.since`, and its position. */
export class EventJobs {
  readonly #client: { duplicate(...args: any[]): unknown }
  readonly #prefix: string
  readonly #report: (error: Error) => void
  readonly #bull: Promise<typeof Bull> = loadBull()
  #queue: Promise<Bull.Queue<JobData>> | undefined
  #connection: any

  constructor(
    client: { duplicate(...args: any[]): unknown },
    prefix: string,
    report: (error: Error) => void,
  ) {
    this.#client = client
    this.#prefix = `{${prefix}}`
    this.#report = report
    this.#bull.catch(report)
  }

  async add(
    kind: Delivery['kind'],
    { id, owner, since }: Subscriber,
    body = '',
    position: Position = 0,
    priority = 1,
  ): Promise<void> {
    const name = `${id}.${since}`
    const jobId = kind === 'event' ? `${name}.${position}` : `${name}.${randomUUID()}`
    // A gap that waits tells of what is dropped later, too.
    const once = kind === 'gap' && { deduplication: { id: name, keepLastIfActive: true } }
    const queue = await this.#open()
    await queue.add(kind, { id, owner, since, position, body }, { jobId, priority, ...once })
  }

  /** Removes the job of an event. An attempt that runs may still succeed. */
  async remove(name: string): Promise<void> {
    const queue = await this.#open()
    await queue.remove(name).catch(() => undefined)
  }

  /** Runs what is due, as `EventStore.work` does. @param run returns undefined if the message is done */
  work(
    run: (job: EventJob) => Promise<Extract<DeliveryOutcome, { readonly delayMs: number }> | undefined>,
    max: number,
  ): () => Promise<void> {
    const working = this.#bull.then((bull) => {
      const attempt = async (job: Bull.Job<JobData>, token?: string): Promise<void> => {
        const outcome = await run({
          ...job.data,
          jobId: String(job.id),
          kind: job.name as Delivery['kind'],
          attempts: job.attemptsMade,
          postponed: job.attemptsStarted - job.attemptsMade - 1,
          addedAtMs: job.timestamp,
        })
        if (outcome === undefined) return
        if (outcome.outcome === 'failed')
          throw new Error('The attempt has failed', { cause: outcome.delayMs })
        await job.moveToDelayed(Date.now() + outcome.delayMs, token)
        throw new bull.DelayedError()
      }
      const backoffStrategy = (_made: number, _type?: string, error?: Error): number =>
        typeof error?.cause === 'number' ? error.cause : RETRY_MS
      const worker = new bull.Worker<JobData>(QUEUE, attempt, {
        connection: this.#connected(bull),
        prefix: this.#prefix,
        concurrency: max,
        maxStalledCount: MAX_STARTS,
        lockDuration: LOCK_MS,
        stalledInterval: LOCK_MS / 2,
        settings: { backoffStrategy },
      })
      return worker.on('error', this.#report)
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
      const isNodeRedis = isLikeNodeRedis(this.#client)
      const options = { maxRetriesPerRequest: null, keyPrefix: '' }
      const client = isNodeRedis ? this.#client.duplicate() : this.#client.duplicate(options)
      this.#connection = isNodeRedis ? bull.createNodeRedisClient(client as never) : client
    }
    return this.#connection
  }

  #open(): Promise<Bull.Queue<JobData>> {
    this.#queue ??= this.#bull.then((bull) => {
      const once = { removeOnComplete: true, removeOnFail: true, stackTraceLimit: 0 }
      const queue = new bull.Queue<JobData>(QUEUE, {
        connection: this.#connected(bull),
        prefix: this.#prefix,
        streams: { events: { maxLen: 100 } },
        defaultJobOptions: { attempts: MAX_STARTS, backoff: { type: 'custom' }, ...once },
      })
      return queue.on('error', this.#report)
    })
    return this.#queue
  }
}
