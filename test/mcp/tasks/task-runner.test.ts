import { EventEmitter, once } from 'node:events'
import { expect } from 'chai'
import { memoryTaskStore, type TaskStore } from '../../../src/index.ts'
import type { TaskRecord } from '../../../src/mcp/tasks/task-record.ts'
import { TaskRunner } from '../../../src/mcp/tasks/task-runner.ts'
import type { ObservedTask, RequestTelemetry } from '../../../src/mcp/wire/exchange.ts'
import { countTimers } from '../../support/count-timers.ts'

const KEY = { owner: 'owner', id: 'id' }

/** A task that another node runs. */
const RECORD: TaskRecord = {
  status: 'working',
  createdAt: 0,
  updatedAt: 0,
  ttlMs: 60_000,
  pollIntervalMs: 1_000,
  tool: 'wait',
  args: {},
  node: 'another',
  round: 1,
}

describe('TaskRunner.close', () => {
  for (const timeoutMs of [0, 60_000])
    it(`a runner without runs that is closed with ${timeoutMs} ms leaves no timer`, async () => {
      const runner = new TaskRunner({ store: memoryTaskStore(), maxResultBytes: 1_000 }, 5)
      // Mocha starts the timer of the test after its first turn.
      await new Promise((resolve) => setImmediate(resolve))
      const timers = countTimers()
      try {
        await runner.close({ timeoutMs })
        expect(timers.live.size).to.equal(0)
      } finally {
        timers.stop()
      }
    })
})

describe('TaskRunner with a task of a node that does not report', () => {
  let runner: TaskRunner
  let nodes: EventEmitter
  /** The number of questions whether the node is alive. */
  let asked: number
  /** The responses of the store to the questions whether the node is alive. The last one is repeated. */
  let alive: (boolean | Error)[]
  let ended: string[]
  let telemetry: RequestTelemetry

  beforeEach(async () => {
    nodes = new EventEmitter()
    asked = 0
    ended = []
    telemetry = {
      recordTask: (event: string, { errorType }: ObservedTask) => void ended.push(`${event} ${errorType}`),
    } as RequestTelemetry
    const memory = memoryTaskStore()
    const store: TaskStore = {
      add: (...args) => memory.add(...args),
      get: (key) => memory.get(key),
      replace: (...args) => memory.replace(...args),
      beat: async () => undefined,
      async isAlive(node) {
        expect(node).to.equal('another')
        const reply = alive.length > 1 ? alive.shift() : alive[0]
        asked++
        setImmediate(() => nodes.emit('asked'))
        if (reply instanceof Error) throw reply
        return reply === true
      },
    }
    runner = new TaskRunner({ store, maxResultBytes: 1_000 }, 5)
    const now = Date.now()
    await runner.stored.add(KEY, { ...RECORD, createdAt: now, updatedAt: now }, 'owner', 10)
  })
  afterEach(() => runner.close())

  const statusOf = async () => (await runner.stored.load(KEY, telemetry))?.status
  /** Reads the task, and resolves when the runner has asked for its node again after the grace period. */
  async function readAndCheck(): Promise<void> {
    const before = asked
    expect(await statusOf()).to.equal('working')
    while (asked < before + 2) await once(nodes, 'asked')
    // The grace period ends in the microtasks after the response.
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Resolves when the task is failed. */
  const failed = () =>
    new Promise<void>((resolve) => {
      runner.watch([KEY], (_id, record) => record?.status === 'failed' && resolve())
    })

  it('a task whose node does not report after the grace period is failed once, however often it is read', async () => {
    alive = [false]
    expect(await Promise.all([statusOf(), statusOf(), statusOf()])).to.deep.equal(Array(3).fill('working'))
    await failed()
    await new Promise((resolve) => setImmediate(resolve))
    // The three reads, the watcher, and the check have asked.
    expect(asked).to.equal(5)
    expect(await runner.stored.load(KEY)).to.deep.include({
      status: 'failed',
      error: { code: -32_603, message: 'The server that ran the task has stopped.' },
    })
    expect(ended).to.deep.equal(['task.failed node_lost'])
  })

  it('a task whose node reports again in the grace period, as after an outage of the store, is still working', async () => {
    alive = [false, true]
    await readAndCheck()
    expect(await statusOf()).to.equal('working')
    expect(ended).to.deep.equal([])
  })

  it('a task is not failed while the store is unavailable, and gets a new grace period afterwards', async () => {
    alive = [false, new Error('the store is away'), false, true]
    await readAndCheck()
    await readAndCheck()
    expect(await statusOf()).to.equal('working')
    expect(ended).to.deep.equal([])
    alive = [false]
    await failed()
    expect(await statusOf()).to.equal('failed')
  })

  it('a runner that is closed does not fail tasks of other nodes', async () => {
    alive = [false]
    expect(await statusOf()).to.equal('working')
    await runner.close()
    expect(await statusOf()).to.equal('working')
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(await statusOf()).to.equal('working')
  })
})
