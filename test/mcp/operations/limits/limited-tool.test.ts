import { once } from 'node:events'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, type McpLimits } from '../../../../src/index.ts'
import { LimitedTool } from '../../../../src/mcp/operations/limits/limited-tool.ts'
import { CALL_MODES, responseIn } from '../../../support/mcp/call-modes.ts'
import type { Served } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { type Signalled, signalled } from '../../../support/mcp/wire.ts'
import { keepingEvents } from '../../../support/telemetry/recording.ts'

const RETRY = 'mcp-gatekit/retry_after_seconds'

/** The handlers and the middleware that ran, in order. */
let ran: string[] = []
/** Reached when a handler of `wait` has begun. */
let begun: Signalled
/** Lets the handlers of `wait` return. */
let released: Signalled
/** The reasons of the signals that have aborted. */
let aborted: unknown[] = []
let notified: Signalled

const routerWith = (limits?: McpLimits) =>
  KitMcpRouter.create()
    .use((call, next) => {
      ran.push(`middleware of ${call.name}`)
      return next()
    })
    .tool('add', { description: 'x', input: z.object({ a: z.coerce.number() }), limits }, ({ a }) => {
      ran.push('add')
      return String(a + 1)
    })
    .tool('other', { description: 'x' }, () => 'other')
    .tool('wait', { description: 'x', limits }, async (_args, { signal }) => {
      signal.addEventListener('abort', () => aborted.push(signal.reason))
      begun.resolve()
      await released.promise
      return 'waited'
    })
    .tool('obey', { description: 'x', limits }, async (_args, { signal }) => {
      if (!signal.aborted) await once(signal, 'abort')
      throw signal.reason
    })
    .tool('chatty', { description: 'x', limits }, async (_args, { signal, progress, log }) => {
      await progress(1)
      if (!signal.aborted) await once(signal, 'abort')
      await Promise.all([progress(2), log('info', 'late')])
      notified.resolve()
      return 'late'
    })
    .tool('text', { description: 'x', input: z.object({ length: z.number() }), limits }, ({ length }) =>
      'é'.repeat(length),
    )
    .tool(
      'structured',
      { description: 'x', output: z.object({ list: z.array(z.string()) }), limits },
      () => ({ list: ['a', 'b', '"'] }),
    )
    .tool('denied', { description: 'x', limits }, () => 'never')

const { telemetry, transport } = keepingEvents()
const events = (name: string) => transport.getEvents().filter((event) => event.name === `kit.mcp.${name}`)
const limitEvents = () =>
  events('limit.reached').map(({ level, attributes }) => [
    level,
    attributes?.['gen_ai.tool.name'],
    attributes?.limit,
    attributes?.['limit.max'],
    attributes?.['limit.actual'],
  ])

describe('mcp: the option limits', () => {
  beforeEach(() => {
    ran = []
    aborted = []
    begun = signalled()
    released = signalled()
    notified = signalled()
    transport.clear()
  })

  for (const mode of CALL_MODES) {
    describe(mode.name, () => {
      let served: Served
      afterEach(() => served.close())

      const serve = async (limits?: McpLimits, ofTools?: McpLimits): Promise<void> => {
        const authorize = ({ name }: { name: string }) => name !== 'denied'
        served = await mode.serve({
          router: routerWith(ofTools),
          oauth: oauth(),
          telemetry,
          authorize,
          ...(limits !== undefined && { limits }),
        })
      }
      const resultOf = async (name: string, args: object = {}, token?: string) =>
        responseIn(await mode.send(served, 'tools/call', { name, arguments: args }, token)).result
      const add = (token?: string) => resultOf('add', { a: 1 }, token)

      it(`a call beyond limits.calls gets a result that says when to try again (${mode.name})`, async () => {
        await serve({ calls: { max: 2, perSeconds: 60, by: 'user' } })
        expect((await add()).content[0].text).to.equal('2')
        expect((await resultOf('other')).isError).to.equal(undefined)
        ran = []
        const refused = await add()
        const seconds = refused._meta[RETRY]
        expect(seconds).to.be.oneOf([59, 60])
        const text = `Call limit reached: at most 2 tool calls per 60 seconds for each user. Try again in ${seconds} seconds.`
        expect(refused).to.deep.include({ content: [{ type: 'text', text }], isError: true })
        expect(ran).to.deep.equal([])
        expect(limitEvents()).to.deep.equal([['warn', 'add', 'calls', 2, 3]])
        expect(events('tool.failed')).to.deep.equal([])
        // Another user has a count of their own.
        expect((await add('writer')).isError).to.equal(undefined)
      })

      it(`the limits of a tool count only its calls, in addition to those of the adapter (${mode.name})`, async () => {
        await serve(
          { calls: { max: 3, perSeconds: 60, by: 'user' } },
          { calls: { max: 1, perSeconds: 30, by: 'user' } },
        )
        expect((await add()).isError).to.equal(undefined)
        const own = await add()
        expect(own.content[0].text).to.match(
          /^Call limit reached: at most 1 call of tool add per 30 seconds for each user\. Try again in (29|30) seconds\.$/,
        )
        expect((await resultOf('other')).isError).to.equal(undefined)
        expect((await resultOf('other')).content[0].text).to.include('at most 3 tool calls per 60 seconds')
      })

      it(`calls that are invalid, denied, or of an unknown tool are not counted (${mode.name})`, async () => {
        await serve({ calls: { max: 1, perSeconds: 60, by: 'user' }, concurrency: { max: 1, by: 'user' } })
        expect((await resultOf('add', { a: 'x' })).content[0].text).to.include('Invalid arguments')
        expect((await resultOf('denied')).content[0].text).to.include('not allowed')
        expect(await resultOf('nothing')).to.equal(undefined)
        expect((await add()).isError).to.equal(undefined)
        // A call that is refused does not stay in progress.
        for (let time = 0; time < 2; time++)
          expect((await add()).content[0].text).to.match(/^Call limit reached/)
      })

      it(`a call beyond limits.concurrency is refused until a call has ended (${mode.name})`, async () => {
        await serve({ concurrency: { max: 1, by: 'user' } })
        const first = resultOf('wait')
        await begun.promise
        const refused = await add()
        expect(refused.content[0].text).to.equal(
          'Concurrency limit reached: at most 1 tool call at the same time for each user. Try again in 1 second.',
        )
        expect(refused).to.deep.include({ isError: true, _meta: { ...refused._meta, [RETRY]: 1 } })
        expect(limitEvents()).to.deep.equal([['warn', 'add', 'concurrency', 1, 2]])
        expect((await add('writer')).isError).to.equal(undefined)
        released.resolve()
        expect((await first).content[0].text).to.equal('waited')
        expect((await add()).isError).to.equal(undefined)
      })

      it(`a call beyond limits.timeoutMs gets a result, its signal aborts, and its slot is free (${mode.name})`, async () => {
        await serve({ timeoutMs: 30, concurrency: { max: 1, by: 'user' } })
        const late = await resultOf('wait')
        expect(late.content[0].text).to.equal(
          'Time limit reached: tool wait did not finish within 30 ms. Try again later, or ask for less.',
        )
        expect(late.isError).to.equal(true)
        expect(aborted).to.have.length(1)
        expect(aborted[0]).to.be.instanceOf(DOMException).and.have.property('name', 'TimeoutError')
        const [[level, tool, limit, max, actual]] = limitEvents() as [
          [string, string, string, number, number],
        ]
        expect([level, tool, limit, max]).to.deep.equal(['warn', 'wait', 'timeout', 30])
        expect(actual).to.be.within(25, 5_000)
        expect(events('tool.failed')).to.have.length(1)
        expect((await resultOf('obey')).content[0].text).to.include('Time limit reached: tool obey')
        expect((await add()).isError).to.equal(undefined)
        released.resolve()
      })

      it(`nothing that a handler sends after its timeout reaches the client (${mode.name})`, async () => {
        await serve({}, { timeoutMs: 30 })
        const answer = await mode.send(served, 'tools/call', { name: 'chatty', _meta: { progressToken: 1 } })
        await notified.promise
        expect(answer.text).to.include('Time limit reached').and.include('"progress":1')
        expect(answer.text).not.to.match(/"progress":2|"late"/)
      })

      it(`a result above limits.maxResultBytes is replaced by an error with both sizes (${mode.name})`, async () => {
        const size = (length: number) =>
          Buffer.byteLength(JSON.stringify({ content: [{ type: 'text', text: 'é'.repeat(length) }] }))
        await serve({ maxResultBytes: size(500) }, { maxResultBytes: 10_000_000 })
        expect((await resultOf('text', { length: 500 })).content[0].text).to.equal('é'.repeat(500))
        const refused = await resultOf('text', { length: 501 })
        expect(refused.content[0].text).to.equal(
          `Result limit reached: the result of tool text has ${size(501)} bytes, and at most ${size(500)} bytes are allowed. Ask for less.`,
        )
        expect(refused.isError).to.equal(true)
        expect(limitEvents()).to.deep.equal([['warn', 'text', 'result_size', size(500), size(501)]])
        expect(events('tool.failed')).to.have.length(1)
        expect(events('tool.completed')).to.have.length(1)
      })

      it(`the structured content of a result counts for limits.maxResultBytes (${mode.name})`, async () => {
        await serve({}, { maxResultBytes: 60 })
        const refused = await resultOf('structured')
        expect(refused.content[0].text).to.match(
          /^Result limit reached: the result of tool structured has \d+ bytes/,
        )
        expect(refused.structuredContent).to.equal(undefined)
      })
    })
  }
})

describe('LimitedTool', () => {
  it('a run that throws synchronously ends its limited call at once', async () => {
    let ends = 0
    const tool = new LimitedTool({
      tool: 'x',
      begins: [() => () => ends++],
      timeoutMs: 60_000,
    })
    const thrown = new Error('thrown')
    const call = { context: { signal: new AbortController().signal } } as never
    const run = (): never => {
      throw thrown
    }
    expect(await tool.run(call, run).catch((error: unknown) => error)).to.equal(thrown)
    expect(ends).to.equal(1)
  })

  for (const timeoutMs of [undefined, 60_000])
    for (const when of ['before', 'after'] as const)
      it(`a call that was canceled ${when} it began does not keep the process alive if its handler ignores the signal, with timeoutMs ${timeoutMs}`, async () => {
        const controller = new AbortController()
        const tool = new LimitedTool({
          tool: 'x',
          begins: [() => () => undefined],
          timeoutMs,
        })
        const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length
        // The timer of the test itself begins first.
        await new Promise(setImmediate)
        const before = timers()
        if (when === 'before') controller.abort()
        let finish: (value: object) => void = () => undefined
        const running = tool.run({ context: { signal: controller.signal } } as never, () => {
          return new Promise<object>((resolve) => {
            finish = resolve
          })
        })
        await new Promise(setImmediate)
        if (when === 'after') controller.abort()
        expect(timers()).to.equal(before)
        finish({})
        expect(await running).to.deep.equal({})
      })
})
