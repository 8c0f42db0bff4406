import { once } from 'node:events'
import { inputRequired } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { type Authorize, firstMatch, jwtVerifier, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import type { KitContext } from '../../src/mcp/router/context.ts'
import type { McpLimits } from '../../src/mcp/router/limits.ts'
import { memoryTaskStore } from '../../src/mcp/tasks/memory-task-store.ts'
import type { McpTaskOptions } from '../../src/mcp/tasks/task-options.ts'
import type { TaskStore } from '../../src/mcp/tasks/task-store.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../src/telemetry/index.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { spokenOAuth, token } from '../support/attacks/spoken-tokens.ts'
import { TaskClient, WITH_TASKS } from '../support/mcp/tasks.ts'
import {
  bearer,
  eventsOf,
  type Listening,
  legacy,
  listen,
  modern,
  rpc,
  signalled,
} from '../support/mcp/wire.ts'
import { until } from '../support/until.ts'

const ASK = { type: 'object' as const, properties: { ok: { type: 'boolean' as const } } }
const ANSWER = { action: 'accept', content: { ok: true } }
const NOT_FOUND = { code: -32_602, message: 'Task not found' }

/** Ends the calls that ignore their signal. */
let release = signalled()
let signals: AbortSignal[] = []
let ran: string[] = []
let policy: Authorize = () => true

const router = KitMcpRouter.create()
  .tool('wait', { description: 'x', task: 'optional' }, async (_args, { signal }) => {
    signals.push(signal)
    await Promise.race([release.promise, once(signal, 'abort')])
    return 'waited'
  })
  .tool('deaf', { description: 'x', task: 'optional' }, async () => {
    await release.promise
    ran.push('deaf')
    return 'late'
  })
  .tool('admin', { description: 'x', task: 'optional', scopes: ['mcp:admin'] }, async (_args, { signal }) => {
    signals.push(signal)
    await Promise.race([release.promise, once(signal, 'abort')])
    return 'secret'
  })
  .tool('asks', { description: 'x', task: 'optional' }, (_args, context) => {
    ran.push('asks')
    return context.inputResponses.ok === undefined
      ? context.inputRequired({ ok: inputRequired.elicit({ message: '?', requestedSchema: ASK }) }, 'kept')
      : JSON.stringify(context.inputResponses)
  })
  .tool('public', { description: 'x', task: 'optional', public: true }, () => 'open')
  .tool('big', { description: 'x', task: 'optional', input: z.object({ n: z.number() }) }, ({ n }) =>
    'é'.repeat(n),
  )

describe('attacks: tasks', () => {
  const undo: (() => unknown)[] = []
  let adapter: McpAdapter
  let server: Listening
  const events = InMemoryTransportAdapter.create()

  async function serve(setup: Partial<Parameters<typeof createMcpAdapter>[0]> = {}): Promise<Listening> {
    adapter = createMcpAdapter({
      router,
      oauth: spokenOAuth({ anonymous: true }),
      authorize: (query) => policy(query),
      telemetry,
      ...setup,
    })
    const { tasks } = adapter
    server = await listen(mcpHandler(adapter))
    const { close } = server
    undo.push(async () => {
      release.resolve()
      await tasks.close()
      await close()
    })
    return server
  }

  const telemetry = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })

    .addTransport(events)
    .build()
  const as = (user: string, scopes: readonly string[] = [], client?: string): TaskClient =>
    new TaskClient(server, bearer(token(user, scopes, client)))

  after(() => telemetry.shutdown())
  beforeEach(async () => {
    release = signalled()
    signals = []
    ran = []
    policy = () => true
    events.clear()
    await serve()
  })
  afterEach(async () => {
    for (const one of undo.splice(0).reverse()) await one()
  })

  /** Opens a stream about tasks. */
  async function listening(
    user: string,
    scopes: readonly string[],
    notifications: object,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>> {
    const request = modern(
      'subscriptions/listen',
      { notifications, _meta: { 'io.modelcontextprotocol/clientCapabilities': WITH_TASKS } },
      bearer(token(user, scopes)),
    )
    const response = await fetch(`${server.origin}/mcp`, {
      method: 'POST',
      headers: request.headers as Record<string, string>,
      body: request.body as string,
      signal,
    })
    return response.body as unknown as AsyncIterable<Uint8Array>
  }

  /** Returns the ids that a stream acknowledges. */
  async function watchedBy(
    user: string,
    scopes: readonly string[],
    ids: readonly string[],
  ): Promise<unknown> {
    const aborting = new AbortController()
    const notifications = { taskIds: ids, toolsListChanged: true }
    let text = ''
    for await (const chunk of await listening(user, scopes, notifications, aborting.signal)) {
      text += Buffer.from(chunk).toString()
      if (text.includes('\n\n')) break
    }
    aborting.abort()
    return eventsOf(text)[0].params.notifications.taskIds
  }

  /** Opens a stream about tasks of Ada. `statuses` are those that it has received, and `ended` resolves when it has ended. */
  async function watch(taskIds: readonly string[]) {
    const aborting = new AbortController()
    const stream = await listening('ada', [], { taskIds }, aborting.signal)
    const received: any[] = []
    const ended = (async () => {
      let text = ''
      for await (const chunk of stream) {
        text += Buffer.from(chunk).toString()
        received.splice(
          0,
          received.length,
          ...eventsOf(text).filter(({ method }) => method === 'notifications/tasks'),
        )
      }
      return received.map(({ params }) => params)
    })()
    undo.push(() => aborting.abort())
    ended.catch(() => undefined)
    return { ended, statuses: () => received.map(({ params }) => params.status) }
  }

  /** Serves the tool `limited`, which asks, fails, or waits by its arguments. */
  async function serveLimited(limits: McpLimits, tasks: McpTaskOptions = {}): Promise<void> {
    const input = z.object({ before: z.string().optional(), wait: z.boolean().optional() })
    const beforeTask = ({ before }: z.output<typeof input>, context: KitContext) => {
      ran.push('before')
      if (before === 'throw') throw new Error('x')
      return before === 'ask'
        ? context.inputRequired({ ok: inputRequired.elicit({ message: '?', requestedSchema: ASK }) })
        : undefined
    }
    await serve({
      tasks,
      router: KitMcpRouter.create().tool(
        'limited',
        { description: 'x', task: 'optional', limits, input, beforeTask },
        async ({ wait }, { signal }) => {
          ran.push('handler')
          if (wait === true) await Promise.race([release.promise, once(signal, 'abort')])
          return 'done'
        },
      ),
    })
  }

  const created = (): number =>
    events.getEvents().filter(({ name }) => name === 'kit.mcp.task.created').length
  const reached = (): unknown[] =>
    events
      .getEvents()
      .flatMap(({ name, attributes }) => (name === 'kit.mcp.limit.reached' ? [attributes?.limit] : []))

  const working = async (user: TaskClient, id: string): Promise<void> =>
    expect((await user.get(id)).status).to.equal('working') as never

  const METHODS = ['tasks/get', 'tasks/cancel', 'tasks/update'] as const

  for (const method of METHODS)
    it(`tasks: ${method} of the task of another user: the task does not exist, and goes on`, async () => {
      const id = await as('ada').start('wait')
      expect(await as('eve').error(method, { taskId: id, inputResponses: {} })).to.deep.include(NOT_FOUND)
      await working(as('ada'), id)
    })

  it('tasks: a task of the same subject of another issuer: the task does not exist', async () => {
    const issuers = await Promise.all(
      ['https://a.test', 'https://b.test'].map((issuer) => createTestIssuer({ issuer })),
    )
    const [first, second] = issuers as [(typeof issuers)[0], (typeof issuers)[0]]
    await serve({
      oauth: {
        issuer: first.issuer,
        verifyToken: firstMatch(jwtVerifier(first.verifierOptions), jwtVerifier(second.verifierOptions)),
      },
    })
    const mine = new TaskClient(server, bearer(await first.issueToken({ sub: 'ada' })))
    const other = new TaskClient(server, bearer(await second.issueToken({ sub: 'ada' })))
    const id = await mine.start('wait')
    expect(await other.error('tasks/get', { taskId: id })).to.deep.include(NOT_FOUND)
    await working(mine, id)
  })

  it('tasks: a task of the same user with another client: the task is the user’s', async () => {
    const id = await as('ada', [], 'web').start('wait')
    await working(as('ada', [], 'phone'), id)
  })

  it('tasks: a stream about the task of another user: it is not acknowledged', async () => {
    const id = await as('ada').start('wait')
    expect(await watchedBy('eve', [], [id])).to.deep.equal([])
    expect(await watchedBy('ada', [], [id])).to.deep.equal([id])
  })

  for (const method of METHODS)
    it(`tasks: ${method} without a token where anonymous calls are allowed: 401`, async () => {
      const id = await as('ada').start('wait')
      const answer = await new TaskClient(server).send(method, { taskId: id, inputResponses: {} })
      expect(answer.status).to.equal(401)
    })

  it('tasks: a task of a public tool without a token: the tool runs during the call', async () => {
    expect(await new TaskClient(server).call('public')).to.include({ resultType: 'complete' })
  })

  for (const method of METHODS)
    it(`tasks: ${method} with a token that no longer has the scope of the tool: 403, and the task goes on`, async () => {
      const admin = as('ada', ['mcp:admin'])
      const id = await admin.start('admin')
      const answer = await as('ada').send(method, { taskId: id, inputResponses: {} })
      expect(answer.status).to.equal(403)
      expect(answer.headers.get('www-authenticate')).to.contain('scope="mcp:admin"')
      await working(admin, id)
    })

  it('tasks: a stream with a token that no longer has the scope of the tool: it is not acknowledged', async () => {
    const id = await as('ada', ['mcp:admin']).start('admin')
    expect(await watchedBy('ada', [], [id])).to.deep.equal([])
  })

  it('tasks: a call of a task tool without its scope: 403, and no task', async () => {
    const answer = await as('ada').send('tools/call', { name: 'admin', arguments: {} })
    expect(answer.status).to.equal(403)
    expect(adapter.tasks.running).to.equal(0)
  })

  it('tasks: a call of a task tool that the policy denies: a tool error, and no task', async () => {
    policy = () => false
    expect((await as('ada').call('wait')).isError).to.equal(true)
    expect(adapter.tasks.running).to.equal(0)
  })

  for (const method of METHODS)
    it(`tasks: ${method} after the policy has changed its mind: -32003, and the task goes on`, async () => {
      const id = await as('ada').start('wait')
      policy = ({ name, args }) => (name === 'wait' && args !== undefined ? { deny: 'no more' } : true)
      const error = await as('ada').error(method, { taskId: id, inputResponses: {} })
      expect(error).to.deep.include({ code: -32_003, message: 'no more' })
      policy = () => true
      await working(as('ada'), id)
    })

  for (const method of METHODS)
    it(`tasks: ${method} of a task whose policy now asks for more scopes: 403 with the scopes, and the task goes on`, async () => {
      const id = await as('ada').start('wait')
      policy = ({ args }) => (args === undefined ? true : { deny: 'more', scopes: ['notes:extra'] })
      const answer = await as('ada').send(method, { taskId: id, inputResponses: {} })
      expect(answer.status).to.equal(403)
      expect(answer.headers.get('www-authenticate')).to.contain('notes:extra')
      policy = () => true
      await working(as('ada'), id)
    })

  it('tasks: an open stream, and a policy that denies the tool before the task has its result: the stream ends without the result', async () => {
    const id = await as('ada').start('wait')
    const { ended, statuses } = await watch([id])
    await until(() => statuses().length > 0)
    policy = () => false
    events.clear()
    release.resolve()
    expect((await ended).map(({ status }) => status)).to.deep.equal(['working'])
    expect(events.getEvents().filter(({ name }) => name === 'kit.mcp.policy.denied')).to.have.length(1)
    policy = () => true
    expect((await as('ada').get(id)).result.content[0].text).to.equal('waited')
  })

  it('tasks: an open stream, and a policy that denies the tool before the task asks the user: the stream ends without the question', async () => {
    const held = signalled()
    await serve({
      router: KitMcpRouter.create().tool(
        'later',
        { description: 'x', task: 'optional' },
        async (_args, context) => {
          await held.promise
          return context.inputRequired({
            ok: inputRequired.elicit({ message: 'secret?', requestedSchema: ASK }),
          })
        },
      ),
    })
    const id = await as('ada').start('later')
    const { ended, statuses } = await watch([id])
    await until(() => statuses().length > 0)
    policy = () => false
    held.resolve()
    expect((await ended).map(({ status }) => status)).to.deep.equal(['working'])
  })

  it('tasks: an open stream, and a policy that takes its time for the result: the result is sent once, after the verdict, and other tasks do not wait for it', async () => {
    const decided = signalled<boolean>()
    const ids = [await as('ada').start('wait'), await as('ada').start('deaf')]
    const { ended, statuses } = await watch(ids)
    await until(() => statuses().length === 2)
    policy = ({ name }) => (name === 'wait' ? decided.promise : true)
    release.resolve()
    await until(() => statuses().length === 3)
    expect(statuses().at(-1)).to.equal('completed')
    decided.resolve(true)
    const texts = (await ended).map(({ result }) => result?.content[0].text)
    expect(texts).to.deep.equal([undefined, undefined, 'late', 'waited'])
  })

  it('tasks: an open stream, and a policy that fails when the task has its result: the stream ends without the result', async () => {
    const id = await as('ada').start('wait')
    const { ended, statuses } = await watch([id])
    await until(() => statuses().length > 0)
    policy = () => {
      throw new Error('down')
    }
    release.resolve()
    expect((await ended).map(({ status }) => status)).to.deep.equal(['working'])
  })

  it('tasks: 5 calls of a tool with beforeTask that permits 2 calls: beforeTask and the handler run twice, and the others get the error of the limit, and no task', async () => {
    await serveLimited({ calls: { max: 2, perSeconds: 60, by: 'user' } })
    for (let time = 0; time < 2; time++) await as('ada').start('limited')
    for (let time = 0; time < 3; time++) {
      const refused = await as('ada').call('limited')
      expect(refused.isError).to.equal(true)
      expect(refused.content[0].text).to.contain('Call limit reached')
    }
    await until(() => ran.length === 4)
    expect(ran.sort()).to.deep.equal(['before', 'before', 'handler', 'handler'])
    expect(created()).to.equal(2)
    expect(reached()).to.deep.equal(['calls', 'calls', 'calls'])
    expect((await as('eve').call('limited')).resultType).to.equal('task')
  })

  it('tasks: calls of a tool that runs as a task, and permits one call at a time: a call gets the error of the limit, and no task, until the task has ended or was canceled', async () => {
    await serveLimited({ concurrency: { max: 1, by: 'user' } })
    const refused = async () => (await as('ada').call('limited', { wait: true })).content?.[0].text
    const first = await as('ada').start('limited', { wait: true })
    expect(await refused()).to.contain('Concurrency limit reached')
    await as('ada').cancel(first)
    await until(() => adapter.tasks.running === 0)
    const second = await as('ada').start('limited', { wait: true })
    expect(await refused()).to.contain('Concurrency limit reached')
    release.resolve()
    await as('ada').settled(second)
    await until(() => adapter.tasks.running === 0)
    await as('ada').start('limited')
    expect(created()).to.equal(3)
    expect(ran.filter((step) => step === 'before')).to.have.length(3)
  })

  it('tasks: calls that do not become a task, of a tool that permits one call at a time: each frees its place', async () => {
    await serveLimited({ concurrency: { max: 1, by: 'user' } }, { maxPerOwner: 1 })
    expect((await as('ada').call('limited', { before: 'ask' })).resultType).to.equal('input_required')
    expect((await as('ada').call('limited', { before: 'throw' })).content[0].text).to.contain('Reference')
    const id = await as('ada').start('limited')
    await as('ada').settled(id)
    await until(() => adapter.tasks.running === 0)
    for (let time = 0; time < 2; time++)
      expect((await as('ada').call('limited')).content[0].text).to.contain('which is the maximum')
  })

  it('tasks: tasks/get while the policy fails: -32003', async () => {
    const id = await as('ada').start('wait')
    policy = () => {
      throw new Error('down')
    }
    expect((await as('ada').error('tasks/get', { taskId: id })).code).to.equal(-32_003)
  })

  it('tasks: guessing an id: ids have 192 random bits', async () => {
    const ids = await Promise.all(Array.from({ length: 50 }, () => as('ada').start('wait')))
    expect(new Set(ids).size).to.equal(50)
    for (const id of ids) expect(Buffer.from(id, 'base64url')).to.have.length(24)
  })

  it('tasks: telling the task of another user from one that does not exist: the same response after the same work in the store', async () => {
    const calls: string[] = []
    await serve({ tasks: { store: counting(calls) } })
    const id = await as('ada').start('wait')
    const observed = async (taskId: string) => {
      calls.length = 0
      const { status, text } = await as('eve').send('tasks/get', { taskId })
      return { status, text, calls: [...calls] }
    }
    expect(await observed(id)).to.deep.equal(await observed('x'.repeat(32)))
  })

  it('tasks: an id of 1,024 characters, and ids with the syntax of keys: the task does not exist', async () => {
    const id = await as('ada').start('wait')
    const ids = ['x'.repeat(1_024), `${id}:`, `*`, `}:count:x`, `../${id}`, `${id}\u0000`, '__proto__', '']
    for (const taskId of ids) {
      const encoded = `=?base64?${Buffer.from(taskId).toString('base64')}?=`
      const client = new TaskClient(server, { ...bearer(token('ada')), 'mcp-name': encoded })
      expect(await client.error('tasks/get', { taskId }), taskId).to.deep.include(NOT_FOUND)
    }
  })

  it('tasks: ids that are not strings: -32602', async () => {
    for (const taskId of [undefined, null, 5, true, {}, [], ['x']])
      for (const method of METHODS) {
        const error = await as('ada').error(method, { taskId, inputResponses: {} })
        expect(error).to.include({ code: -32_602, message: 'Invalid params: taskId must be a string' })
      }
  })

  it('tasks: answers that are not an object: -32602, and the task still asks', async () => {
    const id = await as('ada').start('asks')
    await as('ada').settled(id, 'input_required')
    for (const inputResponses of [undefined, null, 5, 'x', []]) {
      const error = await as('ada').error('tasks/update', { taskId: id, inputResponses })
      expect(error).to.include({ code: -32_602 })
    }
    expect((await as('ada').get(id)).status).to.equal('input_required')
  })

  it('tasks: answers to requests that were never made: they are ignored', async () => {
    const id = await as('ada').start('asks')
    const asked = await as('ada').settled(id, 'input_required')
    const answers = JSON.parse(
      '{"__proto__":{"action":"accept"},"constructor":{},"ok":{},"ok#2":{},"ok#1 ":{},"ok#1":5}',
    )
    await as('ada').update(id, answers)
    expect(await as('ada').get(id)).to.deep.equal(asked)
    expect(Object.keys(asked.inputRequests)).to.deep.equal(['ok#1'])
    expect(ran).to.deep.equal(['asks'])
  })

  it('tasks: an answer twice at the same time: the handler runs once more', async () => {
    const id = await as('ada').start('asks')
    await as('ada').settled(id, 'input_required')
    await Promise.all(Array.from({ length: 10 }, () => as('ada').update(id, { 'ok#1': ANSWER })))
    expect((await as('ada').settled(id)).status).to.equal('completed')
    expect(ran).to.deep.equal(['asks', 'asks'])
  })

  it('tasks: an answer after the task has ended: it is ignored', async () => {
    const id = await as('ada').start('asks')
    await as('ada').settled(id, 'input_required')
    await as('ada').cancel(id)
    await as('ada').update(id, { 'ok#1': ANSWER })
    expect((await as('ada').get(id)).status).to.equal('cancelled')
    expect(ran).to.deep.equal(['asks'])
  })

  it('tasks: an answer of more than 1 MiB: -32602', async () => {
    const id = await as('ada').start('asks')
    await as('ada').settled(id, 'input_required')
    const big = { action: 'accept', content: { text: 'x'.repeat(1_100_000) } }
    const error = await as('ada').error('tasks/update', { taskId: id, inputResponses: { 'ok#1': big } })
    expect(error.code).to.equal(-32_602)
  })

  it('tasks: a state of its own in tasks/update: it is ignored', async () => {
    const id = await as('ada').start('asks')
    await as('ada').settled(id, 'input_required')
    await as('ada').result('tasks/update', {
      taskId: id,
      inputResponses: { 'ok#1': ANSWER },
      requestState: '"forged"',
    })
    expect((await as('ada').settled(id)).status).to.equal('completed')
  })

  it('tasks: cancelling a task many times at once: one cancellation', async () => {
    const id = await as('ada').start('wait')
    await Promise.all(Array.from({ length: 10 }, () => as('ada').cancel(id)))
    await telemetry.flush()
    expect(events.getEvents().filter(({ name }) => name === 'kit.mcp.task.cancelled')).to.have.length(1)
  })

  it('tasks: cancelling a task that is complete: the result stays', async () => {
    const { taskId } = await as('ada').run('big', { n: 1 })
    await as('ada').cancel(taskId)
    expect((await as('ada').get(taskId)).result.content[0].text).to.equal('é')
  })

  it('tasks: a handler that ignores its signal: the task is cancelled at once, and the late result is dropped', async () => {
    const id = await as('ada').start('deaf')
    await as('ada').cancel(id)
    expect((await as('ada').get(id)).status).to.equal('cancelled')
    release.resolve()
    while (adapter.tasks.running > 0) await new Promise(setImmediate)
    expect(ran).to.deep.equal(['deaf'])
    expect(await as('ada').get(id)).to.not.have.property('result')
  })

  it('tasks: as many tasks as possible: a tool error after maxPerOwner, and other users are not affected', async () => {
    await serve({ tasks: { maxPerOwner: 5 } })
    const results = await Promise.all(Array.from({ length: 20 }, () => as('eve').call('wait')))
    expect(results.filter(({ resultType }) => resultType === 'task')).to.have.length(5)
    expect(results.find(({ isError }) => isError)?.content[0].text).to.contain('There are 5 tasks')
    await as('ada').start('wait')
  })

  it('tasks: as many tasks as possible, each cancelled at once: cancelled tasks count until they expire', async () => {
    await serve({ tasks: { maxPerOwner: 3 } })
    for (let count = 0; count < 3; count++) await as('eve').cancel(await as('eve').start('wait'))
    expect((await as('eve').call('wait')).isError).to.equal(true)
  })

  it('tasks: as many tasks as possible without OAuth: tasks are counted by address, and found by their id', async () => {
    const open = KitMcpRouter.create().tool(
      'wait',
      { description: 'x', task: 'optional' },
      () => release.promise,
    )
    await serve({ router: open, oauth: undefined, authorize: undefined, tasks: { maxPerOwner: 2 } })
    const client = new TaskClient(server)
    const id = await client.start('wait')
    await client.start('wait')
    expect((await client.call('wait')).isError).to.equal(true)
    await working(client, id)
    expect(await client.error('tasks/get', { taskId: 'guess' })).to.deep.include(NOT_FOUND)
  })

  it('tasks: a result that is larger than maxResultBytes: a tool error with both sizes, never a part of the result', async () => {
    await serve({ tasks: { maxResultBytes: 1_000 } })
    const { result } = await as('ada').run('big', { n: 600 })
    expect(result.isError).to.equal(true)
    expect(result.content[0].text).to.match(/^The result has 12\d\d bytes\. The maximum is 1000 bytes\./)
  })

  it('tasks: a time to live and a task of 2025-11-25 in the parameters of a call: they are ignored', async () => {
    const created = await as('ada').call('wait', {}, { task: { ttl: 1e12 }, ttlMs: 1e12 })
    expect(created).to.include({ ttlMs: 3_600_000 })
    const { message } = await server.send(
      legacy(
        rpc('tools/call', { name: 'big', arguments: { n: 1 }, task: { ttl: 1e12 } }),
        bearer(token('ada')),
      ),
    )
    expect(message.result.content[0].text).to.equal('é')
  })

  it('tasks: a task in a batch: an error, or a call without a task', async () => {
    const id = await as('ada').start('wait')
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': WITH_TASKS,
    }
    const batch = [
      rpc('tasks/get', { taskId: id, _meta }, 1),
      rpc('tools/call', { name: 'big', arguments: { n: 1 }, _meta }, 2),
    ]
    for (const version of ['2025-03-26', '2025-11-25', '2026-07-28']) {
      const headers = { ...bearer(token('ada')), 'mcp-protocol-version': version }
      const { messages } = await server.send(legacy(JSON.stringify(batch), headers))
      for (const message of messages) {
        expect(message.result?.status).to.equal(undefined)
        expect(message.result?.taskId).to.equal(undefined)
      }
    }
  })

  it('tasks: the header of one task and the body of another: 400 and -32020', async () => {
    const [one, two] = [await as('ada').start('wait'), await as('ada').start('wait')]
    const client = new TaskClient(server, { ...bearer(token('ada')), 'mcp-name': one })
    const answer = await client.send('tasks/cancel', { taskId: two })
    expect(answer.status).to.equal(400)
    expect(answer.message.error.code).to.equal(-32_020)
    await working(as('ada'), two)
  })

  it('tasks: reading the id of a task or a token in events, and a token in the store: none has them', async () => {
    const values: string[] = []
    await serve({ tasks: { store: recording(values) } })
    const secret = token('ada', [], 'a-client-with-a-long-name')
    const client = new TaskClient(server, bearer(secret))
    const { taskId } = await client.run('big', { n: 1 })
    await client.cancel(await client.start('wait'))
    await client.error('tasks/get', { taskId: 'unknown-id-of-a-task' })
    await telemetry.flush()
    const texts = JSON.stringify(events.getEvents())
    expect(texts).to.contain('kit.mcp.task.completed')
    for (const one of [taskId, secret, 'unknown-id-of-a-task']) expect(texts).not.to.contain(one)
    expect(values.join()).to.contain('"tool":"big"')
    expect(values.join()).not.to.contain(secret)
  })
})

/** Returns a store that records the calls of its methods. */
function counting(calls: string[]): TaskStore {
  const store = memoryTaskStore()
  return new Proxy(store, {
    get(target, member) {
      const value = Reflect.get(target, member)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        calls.push(String(member))
        return value.apply(target, args)
      }
    },
  })
}

/** Returns a store that records its values. */
function recording(values: string[]): TaskStore {
  const store = memoryTaskStore()
  return {
    add: (key, value, limits) => {
      values.push(value)
      return store.add(key, value, limits)
    },
    get: (key) => store.get(key),
    replace: (key, version, value) => {
      values.push(value)
      return store.replace(key, version, value)
    },
    beat: (node, ttlMs) => store.beat(node, ttlMs),
    isAlive: (node) => store.isAlive(node),
  }
}
