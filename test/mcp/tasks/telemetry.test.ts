import { expect } from 'chai'
import { KitMcpRouter, KitToolError, mcpHandler } from '../../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../../src/mcp/adapter.ts'
import { spokenOAuth, token } from '../../support/attacks/spoken-tokens.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { TaskClient } from '../../support/mcp/tasks.ts'
import { bearer, type Listening, listen, signalled } from '../../support/mcp/wire.ts'
import { keepingEvents } from '../../support/telemetry/recording.ts'
import { until } from '../../support/until.ts'

let release = signalled()

const { telemetry, transport } = keepingEvents()

const router = KitMcpRouter.create()
  .tool('ok', { description: 'x', task: 'required' }, async (_args, { session }) => {
    session?.emit('app.worked', {} as never)
    await release.promise
    return 'ok'
  })
  .tool('fails', { description: 'x', task: 'required' }, () => {
    throw new KitToolError('no')
  })
  .tool('silent', { description: 'x', task: 'required' }, (_args, context) => context.inputRequired({}, 1))

describe('mcp/tasks: telemetry', () => {
  const otel = new Otel()
  let adapter: McpAdapter
  let server: Listening
  let client: TaskClient

  beforeEach(async () => {
    release = signalled()
    transport.clear()
    otel.register()
    adapter = createMcpAdapter({ router, telemetry, oauth: spokenOAuth() })
    server = await listen(mcpHandler(adapter))
    client = new TaskClient(server, bearer(token('ada')))
    // The first request loads the API.
    await client.result('server/discover')
    otel.clear()
  })
  afterEach(async () => {
    release.resolve()
    await adapter.tasks.close()
    await server.close()
    Otel.unregister()
  })
  after(() => telemetry.shutdown())

  /** Returns the events about tasks. */
  const taskEvents = () => transport.getEvents().filter(({ name }) => name.startsWith('kit.mcp.task.'))
  const ended = () => until(() => adapter.tasks.running === 0)

  const ENDS = [
    ['completed', 'ok', 'info', undefined],
    ['completed', 'fails', 'info', 'tool_error'],
    ['failed', 'silent', 'error', '-32603'],
  ] as const
  for (const [status, tool, level, errorType] of ENDS) {
    it(`the task of the tool ${tool} emits created and ${status}, with its user and a hash of its id`, async () => {
      release.resolve()
      const { taskId } = await client.run(tool)
      await ended()
      const [created, last, more] = taskEvents()
      expect(more).to.equal(undefined)
      expect(created).to.deep.include({ name: 'kit.mcp.task.created', level: 'info' })
      expect(last).to.deep.include({ name: `kit.mcp.task.${status}`, level })
      expect(last?.actor).to.deep.include({ id: 'ada' })
      const { 'kit.mcp.task.reference': reference, duration_ms, ...attributes } = last?.attributes ?? {}
      expect(reference).to.match(/^[\w-]{16}$/)
      expect(created?.attributes?.['kit.mcp.task.reference']).to.equal(reference)
      expect(taskId).not.to.contain(reference)
      expect(duration_ms).to.be.a('number')
      expect(attributes).to.deep.equal({
        'gen_ai.tool.name': tool,
        'mcp.protocol.version': '2026-07-28',
        'mcp.client.name': 'test',
        'mcp.client.version': '1',
        ...(errorType !== undefined && { 'error.type': errorType }),
      })
    })
  }

  it('a cancelled task emits cancelled once', async () => {
    const id = await client.start('ok')
    await client.cancel(id)
    release.resolve()
    await ended()
    expect(taskEvents().map(({ name }) => name)).to.deep.equal([
      'kit.mcp.task.created',
      'kit.mcp.task.cancelled',
    ])
  })

  it('the events of a handler in a task belong to one session of the task, with the user', async () => {
    release.resolve()
    await client.run('ok')
    await ended()
    const events = transport.getEvents()
    const worked = events.find(({ name }) => name === 'app.worked')
    const completed = events.find(({ name }) => name === 'kit.mcp.tool.completed')
    expect(worked?.actor).to.deep.include({ id: 'ada' })
    expect(completed?.sessionId).to.equal(worked?.sessionId)
  })

  it('the span of a task is the root of a trace, and is linked to the span of the call', async () => {
    release.resolve()
    await client.run('ok')
    await ended()
    const span = otel.spans.find(({ name }) => name === 'task ok')
    const call = otel.spans.find(({ name }) => name === 'tools/call ok')
    expect(span?.parentSpanContext).to.equal(undefined)
    expect(span?.links.map((link) => link.context.spanId)).to.deep.equal([call?.spanContext().spanId])
    expect(span?.spanContext().traceId).not.to.equal(call?.spanContext().traceId)
  })

  it('the span of a task that has failed has its error', async () => {
    await client.run('silent')
    await ended()
    const span = otel.spans.find(({ name }) => name === 'task silent')
    expect(span?.attributes).to.include({ 'error.type': '-32603', 'gen_ai.tool.name': 'silent' })
    expect(span?.status.code).to.equal(2)
  })
})
