import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { RedisServer } from '../redis.ts'
import type { WebhookReceiver } from './webhooks.ts'

const PROGRAM = fileURLToPath(new URL('../../full/events-program.js', import.meta.url))

/** A process that serves events with a store in Redis. */
export interface EventNode {
  readonly child: ChildProcess
  readonly port: number
  /** The numbers of the events whose `emit` has resolved. */
  readonly emitted: Set<number>
  emit(id: number): void
}

/** The nodes of a test. */
export class EventNodes {
  readonly #children = new Set<ChildProcess>()

  /** Starts nodes that may send to a receiver on loopback. */
  async start(count: number, redis: RedisServer, receiver: WebhookReceiver): Promise<readonly EventNode[]> {
    return await Promise.all(Array.from({ length: count }, () => this.#startOne(redis, receiver)))
  }

  /** Ends a node with SIGKILL. */
  async kill({ child }: Pick<EventNode, 'child'>): Promise<void> {
    this.#children.delete(child)
    if (child.exitCode !== null || child.signalCode !== null) return
    const closed = once(child, 'close')
    child.kill('SIGKILL')
    await closed
  }

  async close(): Promise<void> {
    await Promise.all([...this.#children].map((child) => this.kill({ child })))
  }

  async #startOne(redis: RedisServer, receiver: WebhookReceiver): Promise<EventNode> {
    const child = spawn(process.execPath, [PROGRAM, String(redis.port), String(receiver.network.ca)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    child.stdin.on('error', () => undefined)
    this.#children.add(child)
    const lines = createInterface({ input: child.stdout })
    const [line] = await once(lines, 'line')
    const emitted = new Set<number>()
    lines.on('line', (id) => emitted.add(Number(id)))
    return { child, port: Number(line), emitted, emit: (id) => void child.stdin.write(`${id}\n`) }
  }
}
