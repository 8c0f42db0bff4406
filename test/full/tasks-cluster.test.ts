import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { TaskClient } from '../support/mcp/tasks.ts'
import { send } from '../support/mcp/wire.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

const PROGRAM = fileURLToPath(new URL('./tasks-program.js', import.meta.url))

/** The time after which a task of a killed node must be failed: twice the heartbeat. */
const LIMIT_MS = 20_000

interface Node {
  readonly child: ChildProcess
  readonly client: TaskClient
}

describe('tasks on two nodes with Redis', function () {
  this.timeout(120_000)

  let redis: RedisServer
  const children: ChildProcess[] = []

  before(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
  })
  afterEach(async () => {
    for (const child of children.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const closed = once(child, 'close')
      child.kill('SIGKILL')
      await closed
    }
  })
  after(() => redis?.stop())

  async function startNode(): Promise<Node> {
    const child = spawn(process.execPath, [PROGRAM, String(redis.port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    const [line] = await once(createInterface({ input: child.stdout }), 'line')
    const port = Number(line)
    return { child, client: new TaskClient({ send: (request) => send(port, request) }) }
  }

  it('a task of a node that is killed is failed on the other node within 20 s', async () => {
    const [one, two] = [await startNode(), await startNode()]
    const id = await one.client.start('wait')
    const complete = await one.client.run('quick')
    expect((await two.client.get(id)).status).to.equal('working')
    one.child.kill('SIGKILL')
    await once(one.child, 'close')
    const killedAt = performance.now()
    let task: any
    await until(async () => {
      task = await two.client.get(id)
      return task.status !== 'working' || performance.now() - killedAt > LIMIT_MS
    }, 250)
    expect(task.status).to.equal('failed')
    expect(task.error.message).to.equal('The server that ran the task has stopped.')
    expect((await two.client.get(complete.taskId)).status).to.equal('completed')
  })

  it('a task of a node that lives for longer than the limit is still working', async () => {
    const [one, two] = [await startNode(), await startNode()]
    const id = await one.client.start('wait')
    const startedAt = performance.now()
    await until(async () => {
      expect((await two.client.get(id)).status).to.equal('working')
      return performance.now() - startedAt > LIMIT_MS + 5_000
    }, 1_000)
    await two.client.cancel(id)
    expect((await one.client.get(id)).status).to.equal('cancelled')
  })

  for (const seconds of [4, 17])
    it(`a task of a node is still working after Redis was away for ${seconds} s`, async () => {
      const [one, two] = [await startNode(), await startNode()]
      const id = await one.client.start('wait')
      await redis.kill()
      await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
      await redis.start()
      const backAt = performance.now()
      let responses = 0
      await until(async () => {
        const { message } = await two.client.send('tasks/get', { taskId: id })
        if (message.result !== undefined) {
          responses++
          expect(message.result.status).to.equal('working')
        }
        // The grace period has ended.
        return performance.now() - backAt > 10_000
      }, 100)
      expect(responses).to.be.greaterThan(10)
      await two.client.cancel(id)
      expect((await one.client.get(id)).status).to.equal('cancelled')
    })
})
