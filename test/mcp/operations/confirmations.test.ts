import { createHash } from 'node:crypto'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { inputRequired, McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpHandler, redisReplayStore } from '../../../src/index.ts'
import type { McpAdapterOptions } from '../../../src/mcp/options.ts'
import type { DpopReplayStore } from '../../../src/oauth/dpop/replay-store.ts'
import { expectConfigError } from '../../support/config-error.ts'
import { CLIENT_KINDS } from '../../support/mcp/clients.ts'
import { onNode, type Served, type Setup, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { TaskClient, WITH_TASKS } from '../../support/mcp/tasks.ts'
import { bearer, call, LEGACY, legacy, modern, rpc } from '../../support/mcp/wire.ts'
import { redisMissing, startRedis } from '../../support/redis.ts'
import { skipIf } from '../../support/skip.ts'
import { keepingEvents } from '../../support/telemetry/recording.ts'

const CANNOT_ASK = 'This tool needs a confirmation by the user, and this client cannot ask for one.'
const DECLINED = 'The user has not confirmed this call.'
const USED = 'The confirmation was used already. Call the tool again to ask the user.'
const OTHER_ARGUMENTS = 'The user has confirmed other arguments. Call the tool again to ask the user.'
const UNAVAILABLE = 'The confirmation cannot be checked at the moment. Try again later.'
const NOT_CREATED = 'This tool needs a confirmation by the user, and the question could not be created.'

/** The calls of handlers, as they ran. */
let ran: unknown[] = []
/** Returns the question of the tool `any`. */
let question: () => unknown = () => 'Sure?'

const IDS = z.object({ ids: z.array(z.string()), note: z.string().default('none') })
const NAME = z.object({ name: z.string() })
const nameForm = { type: 'object' as const, properties: { name: { type: 'string' as const } } }

const router = KitMcpRouter.create()
  .tool(
    'delete',
    {
      description: 'Deletes notes',
      input: IDS,
      confirm: ({ args, auth, name }) =>
        args.ids.length === 0
          ? undefined
          : `${auth?.clientId ?? 'You'}: ${name} ${args.ids.join()} (${args.note})?`,
    },
    ({ ids, note }, { state, inputResponses }) => {
      ran.push({ ids, note, state, inputResponses })
      return `deleted ${ids.length}`
    },
  )
  .tool('other', { description: 'x', input: IDS, confirm: () => 'Other?' }, () => ran.push('other'))
  .tool('free', { description: 'x', input: IDS }, (_args, { state, inputRequired }) =>
    state === undefined
      ? inputRequired({}, { id: 'x'.repeat(43), expiresAt: 9e9, hash: HASH_OF_A, isOpen: false })
      : 'free',
  )
  .tool('any', { description: 'x', confirm: (() => question()) as never }, () => ran.push('any'))
  .tool(
    'rounds',
    { description: 'Asks for a name after the confirmation', confirm: () => 'Go on?' },
    (_args, { state, accepted, inputRequired: ask, inputResponses }) => {
      ran.push({ state, inputResponses })
      const given = accepted('name', NAME)
      if (given !== undefined) return `${given.name} ${JSON.stringify(state)}`
      const requests = { name: inputRequired.elicit({ message: 'Name?', requestedSchema: nameForm }) }
      return ask(requests, state === undefined ? undefined : { n: 1 })
    },
  )
  .tool(
    'changing',
    { description: 'x', confirm: (() => question()) as never },
    (_args, { accepted, inputRequired: ask }) => {
      if (accepted('name', NAME) !== undefined) return 'named'
      return ask({ name: inputRequired.elicit({ message: 'Name?', requestedSchema: nameForm }) }, 1)
    },
  )
  .tool(
    'job',
    {
      description: 'x',
      task: 'optional',
      confirm: () => 'Start?',
      beforeTask: (_args, { accepted, inputRequired: ask }) => {
        ran.push('before')
        return accepted('name', NAME)
          ? undefined
          : ask({ name: inputRequired.elicit({ message: 'Name?', requestedSchema: nameForm }) })
      },
    },
    (_args, { accepted }) => {
      ran.push('job')
      return `done by ${accepted('name', NAME)?.name}`
    },
  )

const { telemetry, transport: events } = keepingEvents()

const setup: Setup = { router, oauth: oauth(), telemetry }

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const HASH_OF_A = sha256('{"ids":["a"]}')

const ABLE = { elicitation: {} }
const ACCEPT = { confirm: { action: 'accept', content: {} } }

interface RoundOptions {
  readonly token?: string
  readonly name?: string
  readonly args?: unknown
  readonly capabilities?: object
  readonly params?: object
}

/** A round of a call of 2026-07-28. */
const round = ({
  token = 'reader',
  name = 'delete',
  args = { ids: ['a'] },
  capabilities = ABLE,
  params,
}: RoundOptions) =>
  modern(
    'tools/call',
    {
      name,
      arguments: args,
      _meta: { 'io.modelcontextprotocol/clientCapabilities': capabilities },
      ...params,
    },
    bearer(token),
  )

const textOf = (message: any): string => message.result.content[0].text

describe('confirm', () => {
  let served: Served
  const serve = (options: Partial<Setup> = {}): Served =>
    web(createMcpAdapter({ ...setup, ...options }).server)
  beforeEach(() => {
    ran = []
    question = () => 'Sure?'
    events.clear()
    served = serve()
  })

  const send = async (options: RoundOptions, to = served) => (await to.send(round(options))).message

  /** Asks, and returns the state of the question. */
  async function asked(options: RoundOptions = {}, to = served): Promise<string> {
    const { result } = await send(options, to)
    expect(result.resultType, JSON.stringify(result)).to.equal('input_required')
    return result.requestState
  }

  /** Answers a question. */
  const answer = async (
    requestState: string,
    options: RoundOptions = {},
    inputResponses: object = ACCEPT,
    to = served,
  ) => await send({ ...options, params: { requestState, inputResponses } }, to)

  function expectRefused(message: any, text: string): void {
    expect(message.result, JSON.stringify(message)).to.deep.include({
      isError: true,
      content: [{ type: 'text', text }],
    })
    expect(ran).to.deep.equal([])
  }

  /** Returns the names, reasons, and hashes of the events of confirmations. */
  async function recorded(): Promise<unknown[]> {
    await telemetry.flush()
    return events
      .getEvents()
      .filter(({ name }) => name.startsWith('kit.mcp.confirm.'))
      .map(({ name, level, attributes, error }) => [
        name.slice('kit.mcp.confirm.'.length),
        level,
        attributes?.['kit.mcp.confirm.hash'],
        ...(attributes?.['kit.mcp.confirm.reason'] === undefined
          ? []
          : [attributes['kit.mcp.confirm.reason']]),
        ...(error === undefined ? [] : [error.message]),
      ])
  }

  describe('a client of 2026-07-28', () => {
    it('is asked with an empty form, and the tool runs after a yes', async () => {
      const { result } = await send({})
      expect(result.inputRequests).to.deep.equal({
        confirm: {
          method: 'elicitation/create',
          params: {
            mode: 'form',
            message: ': delete a (none)?',
            requestedSchema: { type: 'object', properties: {} },
          },
        },
      })
      expect(ran).to.deep.equal([])
      const message = await answer(result.requestState)
      expect(textOf(message)).to.equal('deleted 1')
      expect(ran).to.deep.equal([{ ids: ['a'], note: 'none', state: undefined, inputResponses: {} }])
      expect(await recorded()).to.deep.equal([
        ['asked', 'info', HASH_OF_A],
        ['accepted', 'info', HASH_OF_A],
      ])
    })

    it('is not asked if confirm returns undefined, even if it cannot ask', async () => {
      const { result } = await send({ args: { ids: [] }, capabilities: {} })
      expect(result.content[0].text).to.equal('deleted 0')
      expect(await recorded()).to.deep.equal([])
    })

    for (const [what, inputResponses] of [
      ['declines', { confirm: { action: 'decline' } }],
      ['cancels', { confirm: { action: 'cancel' } }],
      ['answers with another action', { confirm: { action: 'ACCEPT' } }],
      ['answers with a list', { confirm: [{ action: 'accept' }] }],
      ['answers with text', { confirm: 'accept' }],
      ['answers another question', { sure: { action: 'accept', content: {} } }],
      ['does not answer', {}],
    ] as const)
      it(`that ${what} gets a result with isError and no second question, and has used the question up`, async () => {
        const requestState = await asked()
        expectRefused(await answer(requestState, {}, inputResponses), DECLINED)
        expectRefused(await answer(requestState), USED)
        expect((await recorded()).slice(1)).to.deep.equal([
          ['declined', 'info', HASH_OF_A],
          ['refused', 'warn', HASH_OF_A, 'used'],
        ])
      })

    for (const capabilities of [{}, { elicitation: { url: {} } }, { sampling: {} }, { elicitation: true }])
      it(`with the capabilities ${JSON.stringify(capabilities)} cannot ask`, async () => {
        const { message } = await served.send(round({ capabilities }))
        if (message.error !== undefined) expect(message.error.code).to.equal(-32_602)
        else expectRefused(message, CANNOT_ASK)
      })

    for (const elicitation of [{}, { form: {} }, { form: {}, url: {} }])
      it(`with the capability ${JSON.stringify(elicitation)} can ask`, async () => {
        await asked({ capabilities: { elicitation } })
      })

    it('that answers without having been asked is asked', async () => {
      const { result } = await send({ params: { inputResponses: ACCEPT } })
      expect(result.resultType).to.equal('input_required')
      expect(ran).to.deep.equal([])
    })

    it('that repeats an answer is refused, also if it sends both at the same time', async () => {
      const requestState = await asked()
      const answers = await Promise.all([1, 2, 3, 4].map(() => answer(requestState)))
      expect(answers.map(textOf).sort()).to.deep.equal([USED, USED, USED, 'deleted 1'])
      expect(ran).to.have.length(1)
    })

    for (const args of [
      { ids: ['a', 'b'] },
      { ids: ['b'] },
      { ids: ['a'], note: 'none' },
      { ids: ['a'], unknown: 1 },
      { ids: [] },
    ])
      it(`that answers for ${JSON.stringify(args)} instead is refused`, async () => {
        expectRefused(await answer(await asked(), { args }), OTHER_ARGUMENTS)
        expect((await recorded()).slice(1)).to.deep.equal([
          ['refused', 'warn', sha256(JSON.stringify(args)), 'arguments'],
        ])
      })

    it('may send equal arguments in another order', async () => {
      const requestState = await asked({
        args: { ids: ['a'], note: 'é"\u2028', extra: { b: [1, { d: null, c: 1e3 }], a: 2 } },
      })
      const same = { extra: { a: 2, b: [1, { c: 1000, d: null }] }, note: 'é"\u2028', ids: ['a'] }
      expect(textOf(await answer(requestState, { args: same }))).to.equal('deleted 1')
      const canonical = '{"extra":{"a":2,"b":[1,{"c":1000,"d":null}]},"ids":["a"],"note":"é\\"\u2028"}'
      expect((await recorded())[1]).to.deep.equal(['accepted', 'info', sha256(canonical)])
    })

    for (const [what, options] of [
      ['another user', { token: 'writer' }],
      ['another tool', { name: 'other' }],
      ['a tool without confirm', { name: 'free' }],
    ] as const)
      it(`cannot use the question of a user for ${what}`, async () => {
        const requestState = await asked()
        expect((await answer(requestState, options)).error.code).to.equal(-32_602)
        expect(ran).to.deep.equal([])
        if (what !== 'a tool without confirm')
          expect((await recorded()).at(-1)).to.deep.equal(['refused', 'warn', HASH_OF_A, 'state'])
        // The question is still good for its user.
        expect(textOf(await answer(requestState))).to.equal('deleted 1')
      })

    it('cannot use a question of another client of the same user', async () => {
      const verifyToken = ({ bearerToken = '' }) => ({
        valid: true as const,
        user: { id: 'u1' },
        clientId: bearerToken,
        scopes: ['mcp:read'],
      })
      served = serve({ oauth: oauth({ verifyToken }) })
      const requestState = await asked({ token: 'one' })
      expect((await answer(requestState, { token: 'two' })).error.code).to.equal(-32_602)
      expect(textOf(await answer(requestState, { token: 'one' }))).to.equal('deleted 1')
    })

    it('cannot use the state of a tool without confirm as a confirmation', async () => {
      const { result } = await send({ name: 'free' })
      for (const name of ['delete', 'other', 'free'])
        expect((await answer(result.requestState, { name })).error?.code).to.equal(
          name === 'free' ? undefined : -32_602,
        )
      expect(ran).to.deep.equal([])
    })

    it('cannot use the state of the same tool of another adapter without confirm as a confirmation', async () => {
      const requestStateSecret = 'a secret of thirty-two characters'
      const forging = KitMcpRouter.create().tool(
        'delete',
        { description: 'x', input: IDS },
        (_args, context) =>
          context.inputRequired({}, { id: 'x'.repeat(43), expiresAt: 9e9, hash: HASH_OF_A, isOpen: false }),
      )
      const { requestState } = (await send({}, serve({ router: forging, requestStateSecret }))).result
      served = serve({ requestStateSecret })
      expect((await answer(requestState)).error.code).to.equal(-32_602)
      expect(ran).to.deep.equal([])
    })

    it('cannot change the state', async () => {
      const requestState = await asked()
      for (const changed of ['x', '', `${requestState}.x`, `${requestState.slice(0, -6)}AAAAAA`])
        expect((await answer(changed)).error.code).to.equal(-32_602)
      expect(ran).to.deep.equal([])
    })

    it('has ten minutes to answer', async () => {
      /** Asks in the past. */
      const askedBefore = async (seconds: number): Promise<string> => {
        const { now } = Date
        try {
          Date.now = () => now() - seconds * 1_000
          return await asked()
        } finally {
          Date.now = now
        }
      }
      expect((await answer(await askedBefore(602))).error.code).to.equal(-32_602)
      expect(ran).to.deep.equal([])
      expect(textOf(await answer(await askedBefore(590)))).to.equal('deleted 1')
    })

    it('is asked again for the next call', async () => {
      await answer(await asked())
      await answer(await asked())
      expect(ran).to.have.length(2)
    })
  })

  it('a number that is not finite is refused before the question, and -0 counts as 0', async () => {
    for (const number of ['1e400', '-1e400']) {
      const request = round({ name: 'any', args: { n: [{ m: 'N' }] } })
      const { message } = await served.send({
        ...request,
        body: String(request.body).replace('"N"', number),
      })
      expect(message.error).to.deep.equal({
        code: -32_602,
        message: 'Invalid params: the arguments must not have numbers that are not finite',
        data: { reason: 'number_not_finite' },
      })
    }
    expect(ran).to.deep.equal([])
    const state = await asked({ name: 'any', args: { n: 0 } })
    const request = round({
      name: 'any',
      args: { n: 'N' },
      params: { requestState: state, inputResponses: ACCEPT },
    })
    const { message } = await served.send({ ...request, body: String(request.body).replace('"N"', '-0') })
    expect(message.result.isError, JSON.stringify(message)).to.equal(undefined)
  })

  describe('the question', () => {
    it('has neither control characters nor those that change the direction of text', async () => {
      const hidden = Array.from({ length: 0x2070 }, (_, code) => String.fromCharCode(code)).filter((one) =>
        /[\p{Cc}\p{Zl}\p{Zp}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/u.test(one),
      )
      question = () => `Delete${hidden.join('')} 3 notes, “é”👩‍🚀?`
      const { result } = await send({ name: 'any', args: {} })
      expect(result.inputRequests.confirm.params.message).to.equal('Delete 3 notes, “é”👩‍🚀?')
    })

    it('may be a promise, and have 1,024 characters', async () => {
      question = async () => 'x'.repeat(1_024)
      const { result } = await send({ name: 'any', args: {} })
      expect(result.inputRequests.confirm.params.message).to.equal('x'.repeat(1_024))
    })

    for (const [what, returned] of [
      ['too long', () => 'x'.repeat(1_025)],
      ['empty', () => ''],
      ['spaces', () => ' \u202e\n'],
      ['invisible', () => '\u200b\u3164\u2800\u{e0041}\u00ad\u{1d159}'],
      ['null', () => null],
      ['true', () => true],
      ['false', () => false],
      ['an object', () => ({ message: 'x' })],
      ['a number', () => 5],
      ['a promise of true', async () => true],
    ] as const)
      it(`is refused if it is ${what}, and telemetry gets the reason`, async () => {
        question = returned
        expectRefused(await send({ name: 'any', args: {} }), NOT_CREATED)
        expect(await recorded()).to.deep.equal([
          [
            'refused',
            'warn',
            sha256('{}'),
            'failed',
            'confirm must return a question of 1 to 1024 characters, or undefined to ask nothing',
          ],
        ])
      })

    for (const [what, thrown] of [
      [
        'throws',
        () => {
          throw new Error('a secret cause')
        },
      ],
      [
        'rejects',
        async () => {
          throw new Error('a secret cause')
        },
      ],
    ] as const)
      it(`is refused if confirm ${what}, and the client does not get the cause`, async () => {
        question = thrown
        const message = await send({ name: 'any', args: {} })
        expectRefused(message, NOT_CREATED)
        expect(JSON.stringify(message)).not.to.contain('secret')
        expect((await recorded())[0]).to.include.members(['failed', 'a secret cause'])
      })

    it('is refused if confirm does not settle in time', async () => {
      served = serve({ authorizeTimeoutMs: 20 })
      question = () => new Promise(() => undefined)
      expectRefused(await send({ name: 'any', args: {} }), NOT_CREATED)
    })
  })

  describe('the order', () => {
    it('arguments and the policy come before the question, in both rounds', async () => {
      let isAllowed = true
      served = serve({ authorize: () => (isAllowed ? true : { deny: 'No.' }) })
      expect(textOf(await send({ args: { ids: 5 } }))).to.match(/^Invalid arguments/)
      const requestState = await asked()
      isAllowed = false
      expectRefused(await answer(requestState), 'No.')
      expectRefused(await send({}), 'No.')
      // A denied answer has not used the question up.
      isAllowed = true
      expect(textOf(await answer(requestState))).to.equal('deleted 1')
    })

    it('limits count the answer, and neither the question nor a no', async () => {
      served = serve({ limits: { calls: { max: 1, perSeconds: 60, by: 'user' } } })
      for (let time = 0; time < 3; time++)
        expectRefused(await answer(await asked(), {}, { confirm: { action: 'decline' } }), DECLINED)
      expect(textOf(await answer(await asked()))).to.equal('deleted 1')
      expect(textOf(await answer(await asked()))).to.match(/^Call limit reached/)
    })

    it('middleware runs only after a yes', async () => {
      const steps: string[] = []
      const wrapped = router.use(async (_call, next) => {
        steps.push('middleware')
        return await next()
      })
      served = serve({ router: wrapped })
      const requestState = await asked()
      expect(steps).to.deep.equal([])
      await answer(requestState)
      expect(steps).to.deep.equal(['middleware'])
    })
  })

  describe('a handler of several rounds', () => {
    const named = { name: { action: 'accept', content: { name: 'Ada' } } }

    it('is confirmed once, and later rounds have its own state and answers', async () => {
      const second = await answer(await asked({ name: 'rounds', args: {} }), { name: 'rounds', args: {} })
      expect(second.result.inputRequests).to.have.all.keys('name')
      const last = await answer(second.result.requestState, { name: 'rounds', args: {} }, named)
      expect(textOf(last)).to.equal('Ada undefined')
      expect(ran).to.deep.equal([
        { state: undefined, inputResponses: {} },
        { state: undefined, inputResponses: named },
      ])
      expect((await recorded()).map(([event]: any) => event)).to.deep.equal(['asked', 'accepted'])
    })

    it('is asked in a later round if there is a need for a confirmation by then', async () => {
      question = () => undefined
      const again = (requestState: string, inputResponses: object) =>
        send({ name: 'changing', args: {}, params: { requestState, inputResponses } })
      const first = await send({ name: 'changing', args: {} })
      expect(first.result.inputRequests).to.have.all.keys('name')
      const { requestState } = first.result
      expect(textOf(await again(requestState, named))).to.equal('named')
      question = () => 'Sure?'
      const second = await again(requestState, named)
      expect(second.result.inputRequests).to.have.all.keys('confirm')
      expect((await again(second.result.requestState, ACCEPT)).result.inputRequests).to.have.all.keys('name')
    })

    it('cannot be repeated from a later round, nor with other arguments', async () => {
      const second = await answer(await asked({ name: 'rounds', args: {} }), { name: 'rounds', args: {} })
      const { requestState } = second.result
      ran = []
      expectRefused(await answer(requestState, { name: 'rounds', args: { a: 1 } }, named), OTHER_ARGUMENTS)
      expectRefused(await answer(requestState, { name: 'rounds', args: {} }, named), USED)
    })
  })

  describe('a task', () => {
    it('is created after the confirmation, which comes before beforeTask and is not asked again in its run', async () => {
      const client = new TaskClient(served, bearer('reader'), WITH_TASKS)
      const first = await client.call('job')
      expect(first.inputRequests).to.have.all.keys('confirm')
      expect(ran).to.deep.equal([])
      const { requestState } = first
      const second = await client.call('job', {}, { requestState, inputResponses: ACCEPT })
      expect(second.inputRequests).to.have.all.keys('name')
      const named = { name: { action: 'accept', content: { name: 'Ada' } } }
      const created = await client.call(
        'job',
        {},
        { requestState: second.requestState, inputResponses: named },
      )
      expect(created.resultType).to.equal('task')
      const { result } = await client.settled(created.taskId)
      expect(result.content[0].text).to.equal('done by Ada')
      expect(ran).to.deep.equal(['before', 'before', 'job'])
    })

    it('is not created after a no, or by a client that cannot ask', async () => {
      const client = new TaskClient(served, bearer('reader'), WITH_TASKS)
      const { requestState } = await client.call('job')
      const no = await client.call(
        'job',
        {},
        { requestState, inputResponses: { confirm: { action: 'decline' } } },
      )
      expect(no).to.deep.include({ isError: true, content: [{ type: 'text', text: DECLINED }] })
      const unable = new TaskClient(served, bearer('reader'), { extensions: WITH_TASKS.extensions })
      expect(await unable.call('job')).to.deep.include({
        isError: true,
        content: [{ type: 'text', text: CANNOT_ASK }],
      })
      expect(ran).to.deep.equal([])
    })
  })

  describe('confirmations.store', () => {
    const requestStateSecret = 'a secret of thirty-two characters'
    const nodes = (store: DpopReplayStore | undefined) =>
      [1, 2].map(() => serve({ requestStateSecret, ...(store && { confirmations: { store } }) })) as [
        Served,
        Served,
      ]

    it('an answer is good for one call on several nodes that share a store', async () => {
      const used = new Set<string>()
      const uses: unknown[][] = []
      const [one, two] = nodes({
        use: async (...given) => {
          uses.push(given)
          return !used.has(given[0]) && used.add(given[0]) !== undefined
        },
      })
      const requestState = await asked({}, one)
      const answers = await Promise.all([one, two].map((node) => answer(requestState, {}, ACCEPT, node)))
      expect(answers.map(textOf).sort()).to.deep.equal([USED, 'deleted 1'])
      const [[key, expiresAt]] = uses as [[string, number]]
      expect(key).to.match(/^[\w-]{43}$/)
      expect(expiresAt - Date.now() / 1000).to.be.within(590, 600)
    })

    for (const [what, use] of [
      [
        'throws',
        () => {
          throw new Error('redis://:secret@host is away')
        },
      ],
      [
        'rejects',
        async () => {
          throw new Error('redis://:secret@host is away')
        },
      ],
      ['does not answer', () => new Promise<boolean>(() => undefined)],
    ] as const)
      it(`answers are refused while the store ${what}, and the client does not get the cause`, async () => {
        served = serve({ confirmations: { store: { use } }, authorizeTimeoutMs: 50 })
        const message = await answer(await asked())
        expectRefused(message, UNAVAILABLE)
        expect(JSON.stringify(message)).not.to.contain('secret')
        expect((await recorded()).at(-1)).to.include.members(['refused', 'unavailable'])
      })

    for (const returned of [1, 'OK', {}, undefined, null])
      it(`an answer is refused if the store returns ${JSON.stringify(returned)}`, async () => {
        served = serve({ confirmations: { store: { use: () => returned as never } } })
        expectRefused(await answer(await asked()), USED)
      })

    it('works with Redis, and refuses while it is away', async function () {
      skipIf(this, redisMissing())
      const server = await startRedis()
      const client = new Redis(server.port, { maxRetriesPerRequest: 0, retryStrategy: () => 50 })
      client.on('error', () => undefined)
      try {
        const [one, two] = nodes(redisReplayStore(client, 'mcp-gatekit:confirm:'))
        const requestState = await asked({}, one)
        const answers = await Promise.all([one, two].map((node) => answer(requestState, {}, ACCEPT, node)))
        expect(answers.map(textOf).sort()).to.deep.equal([USED, 'deleted 1'])
        ran = []
        const later = await asked({}, one)
        await server.kill()
        expectRefused(await answer(later, {}, ACCEPT, two), UNAVAILABLE)
      } finally {
        client.disconnect()
        await server.stop()
      }
    })

    it('a router function with confirmations is a configuration error', () => {
      const made = () =>
        createMcpAdapter({ router: () => new McpServer({ name: 'x', version: '1' }), confirmations: {} })
      expectConfigError(made, {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'confirmations',
        message: /only with a KitMcpRouter; a router function must ask users itself/,
      })
    })
  })

  for (const { name, revision, connect } of CLIENT_KINDS)
    describe(`the ${name}`, () => {
      const sessions = revision === LEGACY
      const withClient = async (
        action: string,
        run: (client: any, questions: string[]) => Promise<void>,
        able = true,
      ) => {
        const server = await onNode(mcpHandler(createMcpAdapter({ ...setup, sessions })))
        const questions: string[] = []
        const connected = await connect(server.origin, {
          token: 'reader',
          capabilities: able ? ABLE : {},
          prepare: (client) => {
            if (!able) return
            const respond = ({ params }: { params: { message: string } }) => {
              questions.push(params.message)
              return { action, ...(action === 'accept' && { content: {} }) }
            }
            client.setRequestHandler(
              name.startsWith('v1') ? ElicitRequestSchema : 'elicitation/create',
              respond,
            )
          },
        })
        try {
          await run(connected.client, questions)
        } finally {
          await connected.close()
          await server.close()
        }
      }
      const deleteA = (client: any) => client.callTool({ name: 'delete', arguments: { ids: ['a'] } })

      it('asks the user, and runs the tool once after a yes', () =>
        withClient('accept', async (client, questions) => {
          expect((await deleteA(client)).content[0].text).to.equal('deleted 1')
          expect(questions).to.deep.equal([': delete a (none)?'])
          expect(ran).to.have.length(1)
        }))

      for (const action of ['decline', 'cancel'])
        it(`gets a result with isError after ${action}, and no second question`, () =>
          withClient(action, async (client, questions) => {
            const result = await deleteA(client)
            expect(result).to.deep.include({ isError: true })
            expect(result.content[0].text).to.equal(DECLINED)
            expect(questions).to.have.length(1)
            expect(ran).to.deep.equal([])
          }))

      it('that cannot ask gets a result with isError', () =>
        withClient(
          '',
          async (client) => {
            const result = await deleteA(client)
            expect(result.isError).to.equal(true)
            expect(result.content[0].text).to.equal(CANNOT_ASK)
            expect(ran).to.deep.equal([])
          },
          false,
        ))
    })

  it('a client of 2025 without a session, and a batch, cannot ask', async () => {
    const single = await served.send(legacy(call('delete', { ids: ['a'] }), bearer('reader')))
    expectRefused(single.message, CANNOT_ASK)
    const batch = [rpc('ping', undefined, 'ping'), call('delete', { ids: ['a'] })]
    const { messages } = await served.send(
      legacy(batch, { ...bearer('reader'), 'mcp-protocol-version': '2025-03-26' }),
    )
    expectRefused(
      messages.find(({ id }: { id: unknown }) => id === 1),
      CANNOT_ASK,
    )
  })

  it('a client of 2025 cannot confirm with parameters of 2026-07-28', async () => {
    const requestState = await asked()
    const params = { name: 'delete', arguments: { ids: ['b'] }, requestState, inputResponses: ACCEPT }
    const { message } = await served.send(legacy(rpc('tools/call', params), bearer('reader')))
    expect(message.error !== undefined || message.result.isError).to.equal(true)
    expect(ran).to.deep.equal([])
  })

  it('a server without OAuth asks, too', async () => {
    served = serve({ oauth: undefined })
    expect(textOf(await answer(await asked()))).to.equal('deleted 1')
  })

  it('the types of confirm are those of the arguments, and its result is a question or undefined', () => {
    const input = z.object({ ids: z.array(z.string()) })
    KitMcpRouter.create()
      .tool('typed', { description: 'x', input, confirm: ({ args }) => args.ids[0] }, () => '')
      .tool(
        'later',
        { description: 'x', input, confirm: async ({ args }) => `${args.ids.length}?` },
        () => '',
      )
      .tool(
        'auth',
        { description: 'x', confirm: ({ auth, request }) => `${auth?.clientId}${request.url}` },
        () => '',
      )
      // @ts-expect-error the schema has no such member
      .tool('member', { description: 'x', input, confirm: ({ args }) => args.names }, () => '')
      // @ts-expect-error a number is not a question
      .tool('number', { description: 'x', input, confirm: () => 5 }, () => '')
      // @ts-expect-error a yes is not for the application to give
      .tool('boolean', { description: 'x', input, confirm: () => true }, () => '')
    const store = { use: () => 'yes' }
    // @ts-expect-error a store returns a boolean
    const options: McpAdapterOptions = { confirmations: { store } }
    expect(options).to.be.an('object')
  })
})
