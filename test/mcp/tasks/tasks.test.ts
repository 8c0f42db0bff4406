import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import {
  isCreateTaskResultV2,
  isDetailedTaskV2,
  isTaskStatusNotificationV2,
} from '@modelcontextprotocol/ext-tasks/core/v2'
import { inputRequired, ProtocolError } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { type KitContext, KitMcpRouter, KitToolError, mcpHandler } from '../../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../../src/mcp/adapter.ts'
import { memoryTaskStore } from '../../../src/mcp/tasks/memory-task-store.ts'
import { spokenOAuth, token } from '../../support/attacks/spoken-tokens.ts'
import { ENTRY_POINTS } from '../../support/mcp/entry-points.ts'
import { TASKS, TaskClient } from '../../support/mcp/tasks.ts'
import {
  bearer,
  eventsOf,
  initialization,
  type Listening,
  legacy,
  listen,
  modern,
  rpc,
  signalled,
} from '../../support/mcp/wire.ts'

const ASK = { type: 'object' as const, properties: { ok: { type: 'boolean' as const } } }
const ask = (message = 'ok?') => inputRequired.elicit({ message, requestedSchema: ASK })
const OK = z.object({ ok: z.boolean() })
const ACCEPTED = { action: 'accept', content: { ok: true } }

/** The contexts of the calls of `wait`. */
let contexts: KitContext[] = []
/** Ends the calls of `wait`. */
let release = signalled()

const router = KitMcpRouter.create()
  .tool('plain', { description: 'x' }, () => 'plain')
  .tool(
    'add',
    { description: 'x', task: 'optional', input: z.object({ a: z.number() }) },
    ({ a }) => `${a + 1}`,
  )
  .tool('required', { description: 'x', task: 'required' }, () => 'done')
  .tool(
    'wait',
    { description: 'x', task: 'optional', ttlMs: 60_000, pollIntervalMs: 50 },
    async (_args, context) => {
      contexts.push(context)
      await Promise.race([release.promise, once(context.signal, 'abort')])
      return 'waited'
    },
  )
  .tool('fails', { description: 'x', task: 'optional' }, () => {
    throw new KitToolError('no such file')
  })
  .tool('throws', { description: 'x', task: 'optional' }, () => {
    throw new Error('a secret')
  })
  .tool('protocol', { description: 'x', task: 'optional' }, () => {
    throw new ProtocolError(-32_001, 'bad', { why: 'because' })
  })
  .tool('structured', { description: 'x', task: 'optional', output: z.object({ n: z.number() }) }, () => ({
    n: 1,
  }))
  .tool('asks', { description: 'x', task: 'optional' }, (_args, context) => {
    const { first, second } = context.inputResponses
    if (first === undefined || second === undefined)
      return context.inputRequired({ first: ask(), second: ask() }, { asked: 2 })
    return JSON.stringify({ first, second, state: context.state })
  })
  .tool('rounds', { description: 'x', task: 'optional' }, (_args, context) => {
    const round = (context.state as number | undefined) ?? 0
    if (round < 3) return context.inputRequired({ again: ask(`round ${round}`) }, round + 1)
    return `after ${round}`
  })
  .tool('silent', { description: 'x', task: 'optional' }, (_args, context) => {
    const round = (context.state as number | undefined) ?? 0
    return round < 5 ? context.inputRequired({}, round + 1) : `after ${round}`
  })
  .tool('endless', { description: 'x', task: 'optional' }, (_args, context) => context.inputRequired({}, 1))
  .tool('samples', { description: 'x', task: 'optional' }, (_args, context) =>
    context.inputRequired({ roots: inputRequired.listRoots() }),
  )
  .tool(
    'before',
    {
      description: 'x',
      task: 'required',
      beforeTask: (_args, context) =>
        context.accepted('sure', OK) === undefined
          ? context.inputRequired({ sure: ask() }, 'kept')
          : undefined,
    },
    (_args, context) => JSON.stringify([context.accepted('sure', OK), context.state]),
  )
  .tool('before-fails', { description: 'x', task: 'required', beforeTask: () => 5 as never }, () => 'never')
  .tool('numbers', { description: 'x', task: 'optional' }, async (_args, context) => {
    await context.progress(1, 4)
    await Promise.race([release.promise, once(context.signal, 'abort')])
    return 'done'
  })
  .tool('count', { description: 'x', task: 'optional' }, async (_args, context) => {
    await context.progress(2)
    await Promise.race([release.promise, once(context.signal, 'abort')])
    return 'done'
  })
  .tool('progress', { description: 'x', task: 'optional' }, async (_args, context) => {
    await context.progress(1, 4)
    await context.progress(2, 4, 'half')
    await context.log('info', 'is not sent')
    await Promise.race([release.promise, once(context.signal, 'abort')])
    return 'done'
  })

describe('mcp/tasks: tasks', () => {
  let adapter: McpAdapter
  let server: Listening
  let client: TaskClient

  beforeEach(async () => {
    contexts = []
    release = signalled()
    adapter = createMcpAdapter({ router })
    server = await listen(mcpHandler(adapter))
    client = new TaskClient(server)
  })
  afterEach(async () => {
    release.resolve()
    await adapter.tasks.close()
    await server.close()
  })

  for (const entry of ENTRY_POINTS) {
    it(`a tool with the option task runs as a task, served by ${entry.name}`, async () => {
      const oauth = spokenOAuth()
      const served = await entry.serve({ router, oauth })
      const user = new TaskClient(served, { ...bearer(token('ada')), origin: served.origin })
      expect((await user.run('add', { a: 1 })).result).to.deep.equal({
        resultType: 'complete',
        content: [{ type: 'text', text: '2' }],
      })
      await served.close()
    })
  }

  it('a task has the members of the extension when it is created, while it works, and when it is complete', async () => {
    const created = await client.call('wait')
    expect(isCreateTaskResultV2(created)).to.equal(true)
    expect(created).to.include({ resultType: 'task', status: 'working', ttlMs: 60_000, pollIntervalMs: 50 })
    expect(created.taskId).to.match(/^[\w-]{32}$/)
    const working = await client.get(created.taskId)
    expect(isDetailedTaskV2(working)).to.equal(true)
    expect(working).to.include({ resultType: 'complete', status: 'working', taskId: created.taskId })
    release.resolve()
    const completed = await client.settled(created.taskId)
    expect(isDetailedTaskV2(completed)).to.equal(true)
    expect(completed.result).to.deep.equal({
      resultType: 'complete',
      content: [{ type: 'text', text: 'waited' }],
    })
    expect(Date.parse(completed.lastUpdatedAt)).to.be.at.least(Date.parse(completed.createdAt))
  })

  const CALLS = [
    ['a tool without the option task', 'plain', {}, 'complete'],
    ['a tool with invalid arguments', 'add', { a: 'x' }, 'complete'],
    ['a tool with the option task', 'add', { a: 1 }, 'task'],
  ] as const
  for (const [what, name, args, resultType] of CALLS) {
    it(`a call of ${what} returns a result of type ${resultType}`, async () => {
      expect((await client.call(name, args)).resultType).to.equal(resultType)
    })
  }

  it('a client that does not support tasks waits for the result of an optional task', async () => {
    const { message } = await server.send(modern('tools/call', { name: 'add', arguments: { a: 1 } }))
    expect(message.result).to.include({ resultType: 'complete' })
    expect(message.result.content[0].text).to.equal('2')
  })

  it('a client that does not support tasks gets -32021 for a required task', async () => {
    const answer = await server.send(modern('tools/call', { name: 'required' }))
    expect(answer.status).to.equal(400)
    expect(answer.message.error.code).to.equal(-32_021)
    expect(answer.message.error.data).to.deep.equal({ requiredCapabilities: { extensions: { [TASKS]: {} } } })
  })

  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    it(`a client that does not support tasks gets -32021 for ${method}`, async () => {
      const without = new TaskClient(server, {}, {})
      const params = { taskId: await client.start('wait'), inputResponses: {} }
      expect((await without.error(method, params)).code).to.equal(-32_021)
    })

    it(`${method} does not exist in a 2025 revision`, async () => {
      const { message } = await server.send(legacy(rpc(method, { taskId: await client.start('wait') })))
      expect(message.error.code).to.equal(-32_601)
    })

    it(`${method} does not exist on a server without tasks`, async () => {
      const plain = KitMcpRouter.create().tool('plain', { description: 'x' }, () => 'plain')
      const other = await listen(mcpHandler(createMcpAdapter({ router: plain })))
      const params = { taskId: 'x', inputResponses: {} }
      expect((await new TaskClient(other).error(method, params)).code).to.equal(-32_601)
      await other.close()
    })

    it(`${method} of an unknown task gets -32602`, async () => {
      const error = await client.error(method, { taskId: 'unknown', inputResponses: {} })
      expect(error).to.include({ code: -32_602, message: 'Task not found' })
    })
  }

  it('a client of a 2025 revision runs an optional task during the call', async () => {
    const { message } = await server.send(legacy(rpc('tools/call', { name: 'add', arguments: { a: 1 } })))
    expect(message.result.content[0].text).to.equal('2')
  })

  it('server/discover names the extension, and initialize of a 2025 revision does not', async () => {
    const discovered = await client.result('server/discover')
    expect(discovered.capabilities.extensions).to.deep.equal({ [TASKS]: {} })
    const { message } = await server.send(legacy(initialization()))
    expect(message.result.capabilities).not.to.have.property('extensions')
  })

  it('server/discover of a server without tasks does not name the extension', async () => {
    const plain = KitMcpRouter.create().tool('plain', { description: 'x' }, () => 'plain')
    const other = await listen(mcpHandler(createMcpAdapter({ router: plain })))
    expect((await new TaskClient(other).result('server/discover')).capabilities).not.to.have.property(
      'extensions',
    )
    await other.close()
  })

  const ENDS = [
    ['a KitToolError', 'fails', 'completed', 'no such file'],
    ['another error', 'throws', 'completed', 'The tool failed. Reference: '],
  ] as const
  for (const [what, name, status, text] of ENDS) {
    it(`a task whose handler throws ${what} is ${status} with isError`, async () => {
      const task = await client.run(name)
      expect(task.status).to.equal(status)
      expect(task.result.isError).to.equal(true)
      expect(task.result.content[0].text).to.contain(text)
      expect(JSON.stringify(task)).not.to.contain('a secret')
    })
  }

  it('a task whose handler throws a ProtocolError is failed with that error', async () => {
    const task = await client.run('protocol')
    expect(task).to.include({ status: 'failed', statusMessage: 'bad' })
    expect(task.error).to.deep.equal({ code: -32_001, message: 'bad', data: { why: 'because' } })
    expect(task).not.to.have.property('result')
    expect(isDetailedTaskV2(task)).to.equal(true)
  })

  it('the result of a task has the structured content of the output schema', async () => {
    expect((await client.run('structured')).result.structuredContent).to.deep.equal({ n: 1 })
  })

  it('tasks/cancel aborts the signal of the handler, and the task is cancelled', async () => {
    const id = await client.start('wait')
    const aborted = once(contexts[0]?.signal as AbortSignal, 'abort')
    expect(await client.cancel(id)).to.deep.equal({ resultType: 'complete' })
    await aborted
    const task = await client.get(id)
    expect(task.status).to.equal('cancelled')
    expect(isDetailedTaskV2(task)).to.equal(true)
    expect(await client.cancel(id)).to.deep.equal({ resultType: 'complete' })
  })

  it('the signal of a task does not abort when the call that started it has ended', async () => {
    const id = await client.start('wait')
    await client.get(id)
    expect(contexts[0]?.signal.aborted).to.equal(false)
    release.resolve()
    expect((await client.settled(id)).status).to.equal('completed')
  })

  it('a task asks for input, keeps the other requests when one is answered, and goes on after the last', async () => {
    const id = await client.start('asks')
    const asked = await client.settled(id, 'input_required')
    expect(isDetailedTaskV2(asked)).to.equal(true)
    const [first, second] = Object.keys(asked.inputRequests)
    expect([first, second]).to.deep.equal(['first#1', 'second#1'])
    expect(asked.inputRequests['first#1'].method).to.equal('elicitation/create')
    expect(await client.update(id, { 'first#1': ACCEPTED })).to.deep.equal({ resultType: 'complete' })
    const half = await client.get(id)
    expect(half.status).to.equal('input_required')
    expect(Object.keys(half.inputRequests)).to.deep.equal(['second#1'])
    await client.update(id, { 'second#1': { action: 'decline' } })
    const { text } = (await client.settled(id)).result.content[0]
    expect(JSON.parse(text)).to.deep.equal({
      first: ACCEPTED,
      second: { action: 'decline' },
      state: { asked: 2 },
    })
  })

  it('a task asks in several rounds, with new keys in each round and the state of the previous one', async () => {
    const id = await client.start('rounds')
    for (const round of [0, 1, 2]) {
      const { inputRequests } = await client.settled(id, 'input_required')
      const key = `again#${round + 1}`
      expect(inputRequests[key].params.message).to.equal(`round ${round}`)
      await client.update(id, { [key]: ACCEPTED })
    }
    expect((await client.settled(id)).result.content[0].text).to.equal('after 3')
  })

  it('a handler of a task that only keeps a state is called again', async () => {
    expect((await client.run('silent')).result.content[0].text).to.equal('after 5')
  })

  it('a handler of a task that only keeps a state for ever fails', async () => {
    expect(await client.run('endless')).to.include({ status: 'failed' })
  })

  it('a task that asks for input which the client does not support fails with -32021', async () => {
    const task = await client.run('samples')
    expect(task.error).to.deep.include({ code: -32_021, data: { requiredCapabilities: { roots: {} } } })
  })

  it('a tool with beforeTask asks during the call, and the task receives the answers', async () => {
    const asked = await client.call('before')
    expect(asked.resultType).to.equal('input_required')
    expect(asked).not.to.have.property('taskId')
    const { requestState } = asked
    const created = await client.call('before', {}, { inputResponses: { sure: ACCEPTED }, requestState })
    expect(created).to.include({ resultType: 'task' })
    expect(created).not.to.have.property('requestState')
    const { result } = await client.settled(created.taskId)
    expect(result.content[0].text).to.equal('[{"ok":true},"kept"]')
  })

  it('a tool whose beforeTask returns something else gets a tool error', async () => {
    const result = await client.call('before-fails')
    expect(result.isError).to.equal(true)
    expect(result.content[0].text).to.contain('The tool failed. Reference: ')
  })

  it('a state of beforeTask that was changed is rejected', async () => {
    const { code } = await client.error('tools/call', {
      name: 'before',
      arguments: {},
      inputResponses: { sure: ACCEPTED },
      requestState: 'forged',
    })
    expect(code).to.equal(-32_602)
  })

  for (const [tool, what, statusMessage] of [
    ['progress', 'with a message', 'half'],
    ['numbers', 'with a total', '1/4'],
    ['count', 'without a total', '2'],
  ] as const)
    it(`progress of a task ${what} becomes its status message`, async () => {
      const id = await client.start(tool)
      let task = await client.get(id)
      while (task.statusMessage === undefined) {
        await delay(20)
        task = await client.get(id)
      }
      expect(task).to.include({ status: 'working', statusMessage })
      release.resolve()
      expect(await client.settled(id)).not.to.have.property('statusMessage')
    })

  it('a task is not found after its time to live, and its handler is aborted', async () => {
    const short = KitMcpRouter.create().tool(
      'short',
      { description: 'x', task: 'required', ttlMs: 60 },
      async (_args, { signal }) => {
        contexts.push({ signal } as KitContext)
        await once(signal, 'abort')
        return 'late'
      },
    )
    const other = await listen(mcpHandler(createMcpAdapter({ router: short })))
    const user = new TaskClient(other)
    const id = await user.start('short')
    await once(contexts[0]?.signal as AbortSignal, 'abort')
    expect(contexts[0]?.signal.reason.name).to.equal('TimeoutError')
    expect((await user.error('tasks/get', { taskId: id })).code).to.equal(-32_602)
    await other.close()
  })

  it('a router without tasks has adapter.tasks, which never run', async () => {
    const { tasks } = createMcpAdapter({ router: KitMcpRouter.create() })
    expect(tasks.running).to.equal(0)
    await tasks.close()
  })

  it('adapter.tasks.close waits for a task that ends in time', async () => {
    const id = await client.start('wait')
    expect(adapter.tasks.running).to.equal(1)
    const closed = adapter.tasks.close({ timeoutMs: 10_000 })
    release.resolve()
    await closed
    expect(adapter.tasks.running).to.equal(0)
    expect((await client.get(id)).status).to.equal('completed')
  })

  it('adapter.tasks.close marks a task as failed that does not end in time, and aborts it', async () => {
    const id = await client.start('wait')
    await adapter.tasks.close({ timeoutMs: 20 })
    expect(contexts[0]?.signal.aborted).to.equal(true)
    const { status, error } = await client.get(id)
    expect(status).to.equal('failed')
    expect(error).to.deep.equal({
      code: -32_603,
      message: 'The server was shut down before the task was completed.',
    })
  })

  it('after adapter.tasks.close, an optional task runs during the call, and a required one gets a tool error', async () => {
    await adapter.tasks.close()
    expect(await client.call('add', { a: 1 })).to.include({ resultType: 'complete' })
    expect((await client.call('required')).isError).to.equal(true)
  })

  describe('notifications', () => {
    /** Opens a stream, and returns its events so far and its end. */
    async function listening(params: object, capabilities: object = { extensions: { [TASKS]: {} } }) {
      const { headers, body } = modern('subscriptions/listen', {
        ...params,
        _meta: { 'io.modelcontextprotocol/clientCapabilities': capabilities },
      })
      const aborting = new AbortController()
      const response = await fetch(`${server.origin}/mcp`, {
        method: 'POST',
        headers: headers as Record<string, string>,
        body: body as string,
        signal: aborting.signal,
      })
      let text = ''
      const ended = (async () => {
        for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>)
          text += Buffer.from(chunk).toString()
      })().catch(() => undefined)
      return {
        status: response.status,
        ended,
        abort: () => aborting.abort(),
        events: () => (text.startsWith('{') ? [JSON.parse(text)] : eventsOf(text)),
        async until(condition: (events: any[]) => boolean): Promise<any[]> {
          while (!condition(eventsOf(text))) await delay(5)
          return eventsOf(text)
        },
      }
    }

    for (const [what, id, repeated] of [
      ['a number', 7, 7],
      ['an object', { a: 1 }, null],
    ] as const)
      it(`a client that does not support tasks gets -32021 with the id ${repeated} for an id that is ${what}`, async () => {
        const { headers = {}, body } = modern('subscriptions/listen', { notifications: { taskIds: ['x'] } })
        const message = { ...JSON.parse(body as string), id }
        const answer = await server.send({ headers, body: JSON.stringify(message) })
        expect(answer.message.error.code).to.equal(-32_021)
        expect(answer.message.id).to.equal(repeated)
      })

    it('a stream acknowledges its tasks, reports each change, and ends after the last one', async () => {
      const id = await client.start('wait')
      const stream = await listening({ notifications: { taskIds: [id, 'unknown', 5] } })
      await stream.until((events) => events.length >= 2)
      release.resolve()
      await stream.ended
      const [acknowledged, working, completed, end] = stream.events()
      expect(acknowledged.params.notifications).to.deep.equal({ taskIds: [id] })
      for (const one of [working, completed]) expect(isTaskStatusNotificationV2(one)).to.equal(true)
      expect(working.params.status).to.equal('working')
      expect(completed.params).to.deep.include({ taskId: id, status: 'completed' })
      expect(completed.params.result.content[0].text).to.equal('waited')
      expect(completed.params._meta).to.deep.equal({ 'io.modelcontextprotocol/subscriptionId': 1 })
      expect(end).to.deep.include({ id: 1 })
    })

    it('a stream reports that a task asks for input', async () => {
      const id = await client.start('asks')
      const stream = await listening({ notifications: { taskIds: [id] } })
      const events = await stream.until((all) => all.some((one) => one.params?.status === 'input_required'))
      expect(Object.keys(events.at(-1).params.inputRequests)).to.deep.equal(['first#1', 'second#1'])
      await client.cancel(id)
      await stream.ended
      expect(stream.events().at(-2).params.status).to.equal('cancelled')
    })

    it('a stream about tasks and lists reports both, and stays open after the tasks', async () => {
      const id = await client.start('wait')
      const stream = await listening({ notifications: { taskIds: [id], toolsListChanged: true } })
      await stream.until((events) => events.length >= 2)
      expect(stream.events()[0].params.notifications).to.deep.equal({ toolsListChanged: true, taskIds: [id] })
      await client.cancel(id)
      await stream.until((events) => events.some((one) => one.params?.status === 'cancelled'))
      adapter.notify.toolsChanged()
      await stream.until((events) =>
        events.some(({ method }) => method === 'notifications/tools/list_changed'),
      )
      stream.abort()
    })

    it('a stream about unknown tasks is acknowledged without tasks, and ends', async () => {
      const stream = await listening({ notifications: { taskIds: ['unknown'] } })
      await stream.ended
      expect(stream.events()[0].params.notifications).to.deep.equal({ taskIds: [] })
    })

    it('a client that does not support tasks gets -32021 for a stream about tasks', async () => {
      const stream = await listening({ notifications: { taskIds: ['x'] } }, {})
      await stream.ended
      expect(stream.status).to.equal(400)
      expect(stream.events()[0].error.code).to.equal(-32_021)
    })

    it('a stream without tasks is served as before', async () => {
      const stream = await listening({ notifications: { toolsListChanged: true } })
      await stream.until((events) => events.length === 1)
      expect(stream.events()[0].params.notifications).to.deep.equal({ toolsListChanged: true })
      stream.abort()
    })
  })

  for (const limits of [
    { maxBytes: 4_000, maxBytesPerOwner: 100_000 },
    { maxBytes: 100_000, maxBytesPerOwner: 4_000 },
  ])
    it(`memoryTaskStore with ${JSON.stringify(limits)} rejects tasks and results for which it has no room`, async () => {
      const store = memoryTaskStore(limits)
      const big = KitMcpRouter.create()
        .tool('big', { description: 'x', task: 'required' }, () => 'x'.repeat(5_000))
        .tool('wait', { description: 'x', task: 'required' }, (_args, { signal }) => once(signal, 'abort'))
      const small = createMcpAdapter({ router: big, tasks: { store } })
      const other = await listen(mcpHandler(small))
      const user = new TaskClient(other)
      const task = await user.run('big')
      expect(task.error).to.include({ message: 'The server has no room for the result of the task.' })
      const results = await Promise.all(Array.from({ length: 8 }, () => user.call('wait')))
      const rejected = results.filter(({ isError }) => isError === true)
      expect(rejected.length).to.be.greaterThan(1)
      expect(rejected[0].content[0].text).to.contain('no room for another task')
      await small.tasks.close()
      await other.close()
    })
})
