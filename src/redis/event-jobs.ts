import { randomUUID } from 'node:crypto'
import type * as Bull from 'bullmq'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { isInstalled, peerProblem } from '../base/peer-problem.ts'
import type { Delivery, DeliveryOutcome, Subscriber } from '../mcp/events/store.ts'
import { isLikeNodeRedis, type RedisClient } from './run-script.ts'

const QUEUE = 'webhooks'
/** Errors of Redis during an attempt count as attempts of BullMQ, and must not end a delivery. */
const MAX_STARTS = 1_000
const RETRY_MS = 30_000
/** The time after which the messages of a node that was killed are those of another one. An attempt takes half of it. */
const LOCK_MS = 20_000

/** A message to a webhook, as a job, without a secret. */
export type EventJob = Bull.Job<Pick<Delivery, 'position' | 'body'> & Subscriber, void, Delivery['kind']>

/** @throws {KitMcpConfigError} if BullMQ is not installed. A bundle contains all packages, and the import reports others. */
export function checkBull(): void {
  if (isInstalled('jose') && !isInstalled('bullmq')) throw notLoaded({ code: 'MODULE_NOT_FOUND' })
}

function notLoaded(cause: unknown): Error {
  const { unusableOption } = optionChecksOf('redisEventStore')
  const { reason, fix } = peerProblem(cause, 'npm install bullmq@6')
  return unusableOption('redisEventStore', `needs packages (bullmq) that ${reason}`, fix)
}

/** The messages to webhooks, as jobs of BullMQ. The job of an event is named by its subscription, `id.since`, and its position. */
export function eventJobs(client: RedisClient, prefix: string, report: (error: Error) => void) {
  const opening = opened(client, `{${prefix}}`, report)
  opening.catch(() => undefined)
  return {
    async add(kind: Delivery['kind'], data: EventJob['data'], priority = 1): Promise<void> {
      const name = `${data.id}.${data.since}`
      const jobId = `${name}.${kind === 'event' ? data.position : randomUUID()}`
      // A gap that waits tells of what is dropped later, too.
      const once = kind === 'gap' && { deduplication: { id: name, keepLastIfActive: true } }
      const { queue } = await opening
      await queue.add(kind, data, { jobId, priority, ...once })
    },

    /** Removes the job of an event. An attempt that runs may still succeed. */
    async remove(name: string): Promise<void> {
      await (await opening).queue.remove(name).catch(() => undefined)
    },

    /** Runs what is due, as `EventStore.work` does. @param run returns undefined if the message is done */
    work(
      run: (job: EventJob) => Promise<Extract<DeliveryOutcome, { readonly delayMs: number }> | undefined>,
      max: number,
    ): () => Promise<void> {
      const working = opening.then(({ bull, shared }) => {
        const attempt = async (job: EventJob, token?: string): Promise<void> => {
          const outcome = await run(job)
          if (outcome === undefined) return
          if (outcome.outcome === 'failed')
            throw new Error('The attempt has failed', { cause: outcome.delayMs })
          await job.moveToDelayed(Date.now() + outcome.delayMs, token)
          throw new bull.DelayedError()
        }
        const backoffStrategy = (_made: number, _type?: string, error?: Error): number =>
          typeof error?.cause === 'number' ? error.cause : RETRY_MS
        const worker = new bull.Worker(QUEUE, attempt, {
          ...shared,
          concurrency: max,
          maxStalledCount: MAX_STARTS,
          lockDuration: LOCK_MS,
          stalledInterval: LOCK_MS / 2,
          settings: { backoffStrategy },
        })
        return worker.on('error', report)
      })
      working.catch(() => undefined)
      return async () => await (await working).close()
    },

    async close(): Promise<void> {
      const { queue, connection } = (await opening.catch(() => undefined)) ?? {}
      await queue?.close().catch(() => undefined)
      connection?.disconnect()
    },
  }
}

/** Opens the queue, with a connection that its worker shares. */
async function opened(client: RedisClient, prefix: string, report: (error: Error) => void) {
  let bull: typeof Bull
  // Bundlers accept a package that is not installed in this form only.
  try {
    bull = await import('bullmq')
  } catch (cause) {
    const error = notLoaded(cause)
    report(error)
    throw error
  }
  const isNodeRedis = isLikeNodeRedis(client)
  const own = isNodeRedis
    ? client.duplicate()
    : client.duplicate({ maxRetriesPerRequest: null, keyPrefix: '' })
  const connection = isNodeRedis ? bull.createNodeRedisClient(own) : own
  const shared = { connection, prefix }
  const once = { removeOnComplete: true, removeOnFail: true, stackTraceLimit: 0 }
  const queue = new bull.Queue<EventJob['data'], void, Delivery['kind']>(QUEUE, {
    ...shared,
    streams: { events: { maxLen: 100 } },
    defaultJobOptions: { attempts: MAX_STARTS, backoff: { type: 'custom' }, ...once },
  })
  return { bull, connection, shared, queue: queue.on('error', report) }
}
