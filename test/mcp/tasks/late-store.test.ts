import { expect } from 'chai'
import { KitMcpRouter, mcpHandler, memoryTaskStore, type TaskStore } from '../../../src/index.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { TaskClient } from '../../support/mcp/tasks.ts'
import { listen } from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

describe('mcp/tasks: a store that answers late', () => {
  it('an answer that the store takes late still continues its task, although its client got an error', async function () {
    this.timeout(60_000)
    const memory = memoryTaskStore()
    let release: (() => void) | undefined
    const store: TaskStore = {
      add: (...args) => memory.add(...args),
      get: (key) => memory.get(key),
      async replace(...args) {
        const replaced = await memory.replace(...args)
        if (JSON.parse(args[2]).round === 2 && release === undefined)
          await new Promise<void>((resolve) => {
            release = resolve
          })
        return replaced
      },
      beat: async () => undefined,
      isAlive: async () => true,
    }
    const router = KitMcpRouter.create().tool(
      'asks',
      { description: 'x', task: 'required' },
      (_args, context) =>
        context.inputResponses.name === undefined
          ? context.inputRequired({ name: { method: 'elicitation/create', params: {} } as never })
          : 'done',
    )
    const adapter = createMcpAdapter({ router, tasks: { store } })
    const server = await listen(mcpHandler(adapter))
    const user = new TaskClient(server)
    const id = await user.start('asks')
    await user.settled(id, 'input_required')
    const inputResponses = { 'name#1': { action: 'accept', content: {} } }
    expect(await user.error('tasks/update', { taskId: id, inputResponses })).to.include({ code: -32_603 })
    release?.()
    await until(async () => {
      const { message } = await user.send('tasks/get', { taskId: id })
      return message.result?.status === 'completed'
    }, 10)
    await adapter.tasks.close()
    await server.close()
  })
})
