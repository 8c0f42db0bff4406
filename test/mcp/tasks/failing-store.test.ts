import { mock } from 'node:test'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpHandler, memoryTaskStore } from '../../../src/index.ts'
import type { TaskKey, TaskStore } from '../../../src/mcp/tasks/task-store.ts'
import { TaskClient } from '../../support/mcp/tasks.ts'
import { listen, signalled } from '../../support/mcp/wire.ts'

const BEAT_MS = 5_000

describe('mcp/tasks: a store that fails', () => {
  const unhandled: unknown[] = []
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason)
  beforeEach(() => {
    unhandled.length = 0
    process.on('unhandledRejection', onUnhandled)
    mock.timers.enable({ apis: ['setInterval'] })
  })
  afterEach(() => {
    mock.timers.reset()
    process.off('unhandledRejection', onUnhandled)
  })

  /** Lets the rejections of finished work be reported. */
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

  it('a store that throws while a task runs and ends, and announces nonsense, does not end the process or the task', async () => {
    const memory = memoryTaskStore()
    let isBroken = false
    let announce: ((key: TaskKey) => void) | undefined
    const store: TaskStore = {
      add: (key, value, limits) => memory.add(key, value, limits),
      get: (key) => memory.get(key),
      replace: (key, version, value) => memory.replace(key, version, value),
      isAlive: (node) => memory.isAlive(node),
      beat: async () => undefined,
      subscribe: (listener) => {
        announce = listener
        return () => {
          throw new Error('store')
        }
      },
    }
    for (const name of ['get', 'replace', 'beat'] as const) {
      const original = store[name] as (...args: unknown[]) => Promise<any>
      store[name] = (...args: unknown[]) => {
        if (isBroken) throw new Error('store')
        return original(...args)
      }
    }
    const release = signalled()
    const router = KitMcpRouter.create().tool('wait', { description: 'x', task: 'required' }, async () => {
      await release.promise
      return 'done'
    })
    const adapter = createMcpAdapter({ router, tasks: { store } })
    const server = await listen(mcpHandler(adapter))
    const client = new TaskClient(server)
    const id = await client.start('wait')
    isBroken = true
    mock.timers.tick(BEAT_MS)
    announce?.(undefined as never)
    await settled()
    expect(unhandled).to.deep.equal([])
    release.resolve()
    await settled()
    isBroken = false
    expect(await client.settled(id)).to.include({ status: 'completed' })
    await adapter.tasks.close()
    await server.close()
  })
})
