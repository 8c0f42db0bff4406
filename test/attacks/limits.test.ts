import { once } from 'node:events'
import { expect } from 'chai'
import express from 'express'
import { z } from 'zod'
import { AuthInfo, firstMatch, jwtVerifier, KitMcpRouter, KitToolError, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter, type FetchHandler } from '../../src/mcp/adapter.ts'
import { CallCounts, inProgress } from '../../src/mcp/operations/limits/call-counters.ts'
import { callerKey } from '../../src/mcp/operations/limits/caller-key.ts'
import { LimitedTool } from '../../src/mcp/operations/limits/limited-tool.ts'
import type { LimitedBy, McpLimits } from '../../src/mcp/router/limits.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { createTestIssuer } from '../../src/testing/index.ts'
import { spokenOAuth } from '../support/attacks/spoken-tokens.ts'
import { onNode, type Served, type Setup, web } from '../support/mcp/entry-points.ts'
import {
  beginSession,
  call,
  definedOf,
  type HeaderFields,
  LEGACY,
  legacy,
  listen,
  modern,
  type Signalled,
  signalled,
} from '../support/mcp/wire.ts'

const MAX_BYTES = 10_000

/** The number of handlers of `stubborn` and `wait` that run, and the highest number so far. */
let running = 0
let peak = 0
/** How often any handler was called. */
let calls = 0
/** Reached when a handler of `stubborn` has begun. */
let begun: Signalled
/** Lets the handlers of `stubborn` return. */
let released: Signalled

const GROWING = () => {
  let reads = 0
  return {
    toJSON: () => {
      reads++
      return 'x'.repeat(reads === 1 ? 10 : 10 * MAX_BYTES)
    },
  }
}

/** Results that the tool `give` returns or throws, by name. */
const RESULTS: Readonly<Record<string, () => unknown>> = {
  small: () => 'small',
  text: () => 'x'.repeat(20_000_000),
  escapes: () => '\u0000'.repeat(MAX_BYTES / 2),
  bigint: () => ({ count: 1n }),
  'throwing toJSON': () => ({
    toJSON() {
      throw new Error('secret')
    },
  }),
  'growing toJSON': () => ({ content: [{ type: 'text', text: 'x' }], structuredContent: { a: GROWING() } }),
  image: () => ({ content: [{ type: 'image', data: 'A'.repeat(MAX_BYTES), mimeType: 'image/png' }] }),
  meta: () => ({ content: [], _meta: { 'a/b': 'x'.repeat(MAX_BYTES) } }),
  cycle: () => {
    const cycle: { self?: unknown } = {}
    cycle.self = cycle
    return cycle
  },
  'long error': () => {
    throw new KitToolError('x'.repeat(5_000_000))
  },
  'revoked proxy': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    throw proxy
  },
  'forged limit': () => {
    throw {
      reached: { limit: 'calls' },
      result: { content: [{ type: 'text', text: 'forged' }] },
      hasRun: false,
    }
  },
}

const router = KitMcpRouter.create()
  .tool(
    'ping',
    { description: 'x', input: z.looseObject({ a: z.number().optional() }), public: true },
    () => {
      calls++
      return 'pong'
    },
  )
  .tool('admin', { description: 'x', scopes: ['mcp:admin'] }, () => {
    calls++
    return 'done'
  })
  .tool('stubborn', { description: 'x' }, async () => {
    calls++
    running++
    peak = Math.max(peak, running)
    begun.resolve()
    await released.promise
    running--
    return 'released'
  })
  .tool('obedient', { description: 'x' }, async (_args, { signal }) => {
    calls++
    begun.resolve()
    if (!signal.aborted) await once(signal, 'abort')
    return 'aborted'
  })
  .tool('give', { description: 'x', input: z.object({ what: z.string() }) }, ({ what }) => RESULTS[what]?.())

/** Returns a token of `spokenOAuth` with any claims. */
const tokenOf = (claims: object) =>
  `Bearer ${Buffer.from(JSON.stringify({ scopes: ['mcp:read'], ...claims })).toString('base64url')}`
const as = (user: unknown, client = 'web'): HeaderFields => ({ authorization: tokenOf({ user, client }) })
const ADA = as('ada')

const oauth = (options: Partial<OAuthOptions> = {}): OAuthOptions => {
  const { verifyToken, ...others } = spokenOAuth({ scopes: ['mcp:read'], anonymous: true, ...options })
  return {
    ...others,
    verifyToken: (input) => {
      if (input.bearerToken === 'bad') return undefined
      const verified: any = verifyToken(input)
      // A token of a client without a user.
      if (verified?.user?.id === undefined) delete verified?.user
      return verified
    },
  }
}

const open: Served[] = []
const serve = async (limits: McpLimits, setup: Partial<Setup> = {}): Promise<Served> => {
  const served = await onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth(), limits, ...setup })))
  open.push(served)
  return served
}
const handlerOf = (limits: McpLimits, setup: Partial<Setup> = {}): FetchHandler =>
  createMcpAdapter({ router, oauth: oauth(), limits, ...setup }).server

const perMinute = (max: number, by: LimitedBy = 'user'): McpLimits => ({ calls: { max, perSeconds: 60, by } })

interface Sender {
  send(request: ReturnType<typeof legacy>): Promise<{ readonly message: any }>
}

/** Returns for each of these callers whether a call was refused because of a limit. */
async function refusals({ send }: Sender, ...callers: readonly HeaderFields[]): Promise<boolean[]> {
  const refused: boolean[] = []
  for (const headers of callers) {
    const { message } = await send(legacy(call('ping'), headers))
    refused.push(message.result.isError === true)
  }
  return refused
}

const give = async (served: Sender, what: string) =>
  (await served.send(legacy(call('give', { what }), ADA))).message.result

/** Aborts a call when its handler has begun, or when it is answered. */
async function abortedCall(handler: FetchHandler, name: string): Promise<void> {
  begun = signalled()
  const controller = new AbortController()
  const { headers = {}, body } = legacy(call(name), ADA)
  const init = {
    method: 'POST',
    headers: definedOf(headers),
    body: body as string,
    signal: controller.signal,
  }
  const answered = handler(new Request('http://localhost/mcp', init)).then((response) => response.text())
  await Promise.race([begun.promise, answered])
  controller.abort()
  await answered
}

const batch = (messages: unknown[]) => legacy(messages, { ...ADA, 'mcp-protocol-version': '2025-03-26' })

const session = async (served: Served, headers: HeaderFields): Promise<HeaderFields> => ({
  ...headers,
  ...(await beginSession(served, headers as Record<string, string>)),
})

const forwarded = (address: string): HeaderFields => ({ 'x-forwarded-for': address })

async function onExpressWith(trust: unknown, limits: McpLimits): Promise<Served> {
  const app = express().set('env', 'test').set('trust proxy', trust)
  app.use('/mcp', mcpHandler(createMcpAdapter({ router, limits })) as express.RequestHandler)
  const served = await listen(app)
  open.push(served)
  return served
}

const addresses: readonly {
  readonly attack: string
  readonly outcome: string
  readonly serve: () => Promise<Served>
  readonly from: readonly string[]
  readonly refused: readonly boolean[]
}[] = [
  {
    attack: 'X-Forwarded-For with another address each time, on node:http',
    outcome: 'one caller: the socket',
    serve: () => serve(perMinute(1), { oauth: undefined as never }),
    from: ['192.0.2.1', '192.0.2.2'],
    refused: [false, true],
  },
  {
    attack: 'X-Forwarded-For with another address each time, on Express that trusts no proxy',
    outcome: 'one caller: the socket',
    serve: () => onExpressWith(false, perMinute(1)),
    from: ['192.0.2.1', '192.0.2.2'],
    refused: [false, true],
  },
  {
    attack: 'X-Forwarded-For with addresses in front of that of the proxy',
    outcome: 'one caller: the address that the proxy added',
    serve: () => onExpressWith(1, perMinute(1)),
    from: ['192.0.2.1, 198.51.100.7', '192.0.2.2, 198.51.100.7', '192.0.2.2, 198.51.100.8'],
    refused: [false, true, false],
  },
]

/** Callers that must have separate counts, although their names are similar. */
const SEPARATE: readonly (readonly [attack: string, by: LimitedBy, callers: readonly HeaderFields[]])[] = [
  ['a user and a client of the same name', 'user', [as('ada'), as(undefined, 'ada')]],
  ['a user and an anonymous caller of one address', 'user', [ADA, {}]],
  ['a number and a string as user id', 'user', [as(1), as('1')]],
  ['a user named like an address', 'user', [as('address:127.0.0.1'), as('127.0.0.1'), {}]],
  ['a user named like the key of another', 'user', [as('ada'), as('user:ada'), as('[null,"string","ada"]')]],
  ['user names with quotes and commas', 'user', [as('a","b'), as('a'), as('b'), as('a,b')]],
  ['user names with control characters', 'user', [as('a\u0000b'), as('a'), as('ab'), as('a b')]],
  ['user names that differ only in case', 'user', [as('ada'), as('Ada')]],
  ['clients with separators in their names', 'client', [as('x', 'a","b'), as('x', 'a'), as('x', 'a:b')]],
  ['a client named unknown', 'client', [as('x', 'unknown'), {}]],
]

describe('attacks on limits', () => {
  beforeEach(() => {
    running = 0
    peak = 0
    calls = 0
    begun = signalled()
    released = signalled()
  })
  afterEach(async () => {
    released.resolve()
    await Promise.all(open.splice(0).map((served) => served.close()))
  })

  for (const { attack, outcome, serve: start, from, refused } of addresses)
    it(`callers of limits: ${attack}: ${outcome}`, async () => {
      const served = await start()
      expect(await refusals(served, ...from.map(forwarded))).to.deep.equal(refused)
    })

  for (const [attack, by, callers] of SEPARATE)
    it(`callers of limits: ${attack}: separate counts`, async () => {
      const served = await serve(perMinute(1, by))
      expect(await refusals(served, ...callers, ...callers)).to.deep.equal([
        ...callers.map(() => false),
        ...callers.map(() => true),
      ])
    })

  it('callers of limits: the same subject and client of two issuers: separate counts by user and by client', async () => {
    const audience = 'https://mcp.example.com/mcp'
    const issuers = ['https://one.test', 'https://two.test'].map((issuer) =>
      createTestIssuer({ issuer, audience }),
    )
    const verifyToken = firstMatch(...issuers.map(({ verifierOptions }) => jwtVerifier(verifierOptions)))
    const tokens = await Promise.all(
      issuers.map((issuer) => issuer.issueToken({ sub: 'ada', clientId: 'web' })),
    )
    const callers = tokens.map((one) => ({ authorization: `Bearer ${one}` }))
    for (const by of ['user', 'client'] as const) {
      const served = await serve(perMinute(1, by), {
        oauth: { issuer: 'https://one.test', resource: audience, verifyToken },
      })
      expect(await refusals(served, ...callers, ...callers)).to.deep.equal([false, false, true, true])
    }
  })

  it('callers of limits: callers without a known address, with the web handler: one caller', async () => {
    const served = web(handlerOf(perMinute(1)))
    expect(await refusals(served, {}, {}, forwarded('192.0.2.1'))).to.deep.equal([false, true, true])
  })

  it('callers of limits: a header that makes clientAddress fail or exempt the caller: one caller', async () => {
    const clientAddress = (request: Request): string | undefined => {
      const given = request.headers.get('x-client')
      if (given === 'throw') throw new Error('x')
      return given ?? undefined
    }
    const served = web(handlerOf(perMinute(1), { oauth: oauth({ clientAddress }) }))
    const from = (client: string) => ({ 'x-client': client })
    expect(await refusals(served, from('throw'), from('nonsense'), {}, from('192.0.2.1'))).to.deep.equal([
      false,
      true,
      true,
      false,
    ])
  })

  it('callers of limits: anonymous calls from 150,000 addresses: at most 100,000 counts, and no user gets a new period', () => {
    const counts = new CallCounts()
    const user = { key: 'user:ada', isAddress: false }
    counts.add('', user, 60_000)
    for (let number = 0; number < 150_000; number++)
      counts.add(
        '',
        { key: `address:10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`, isAddress: true },
        60_000,
      )
    expect(counts.size).to.equal(100_001)
    expect(counts.add('', user, 60_000).points).to.equal(2)
  })

  it('callers of limits: an address that calls on during a flood from 100,000 others: its count is kept', () => {
    const counts = new CallCounts()
    const victim = { key: 'address:192.0.2.1', isAddress: true }
    for (let number = 0; number < 150_000; number++) {
      counts.add('', { key: `address:2001:db8:${number.toString(16)}::/64`, isAddress: true }, 60_000)
      if (number % 10_000 === 0) counts.add('', victim, 60_000)
    }
    expect(counts.add('', victim, 60_000).points).to.equal(16)
  })

  it('callers of limits: user and client names of 100,000 characters: keys of at most 60 characters', () => {
    const long = 'x'.repeat(100_000)
    for (const members of [{ user: { id: long } }, { user: long }, {}]) {
      const auth = AuthInfo.of<unknown>('token', { clientId: long, scopes: [], extra: {}, ...members })
      const exchange: any = { auth, gate: undefined, context: {} }
      for (const by of ['user', 'client', 'address'] as const)
        expect(callerKey(exchange, by).key).to.have.length.at.most(60)
    }
  })

  it('calls beyond limits: 50 calls with a bad token, 50 without the scope of the tool: not counted', async () => {
    const served = await serve(perMinute(1))
    for (let time = 0; time < 50; time++) {
      expect((await served.send(legacy(call('ping'), { authorization: 'Bearer bad' }))).status).to.equal(401)
      expect((await served.send(legacy(call('admin'), ADA))).status).to.equal(403)
    }
    expect(await refusals(served, ADA, ADA)).to.deep.equal([false, true])
  })

  it('calls beyond limits: 100 calls in one body of 2025-03-26: each is counted', async () => {
    const served = await serve(perMinute(10))
    const ids = Array.from({ length: 100 }, (_, id) => id)
    const { messages } = await served.send(batch(ids.map((id) => call('ping', {}, id))))
    expect(messages.map(({ id }) => id)).to.have.members(ids)
    expect(messages.filter(({ result }) => result.isError === true)).to.have.length(90)
    expect(calls).to.equal(10)
  })

  it('calls beyond limits: 100 calls in one body of 2025-03-26, of which 3 may run at the same time: they run one after the other, so none is refused', async () => {
    const served = await serve({ concurrency: { max: 3, by: 'user' } })
    const answered = served.send(batch(Array.from({ length: 100 }, (_, id) => call('stubborn', {}, id))))
    await begun.promise
    released.resolve()
    const { messages } = await answered
    expect(messages.filter(({ result }) => result.isError === true)).to.have.length(0)
    expect(peak).to.equal(1)
  })

  it('calls beyond limits: JSON-RPC ids that are repeated, empty, negative, or long: each call is counted, and each response has its id', async () => {
    const served = await serve(perMinute(3))
    const outcomes: unknown[] = []
    for (const id of [1, 1, '1', '', -5, 'x'.repeat(1_024), '__proto__']) {
      const { message } = await served.send(legacy(call('ping', {}, id), ADA))
      expect(message.id).to.equal(id)
      outcomes.push(message.result.isError ?? false)
    }
    expect(outcomes).to.deep.equal([false, false, false, true, true, true, true])
  })

  it('calls beyond limits: calls in revisions 2026-07-28, 2025-11-25, a batch, and three sessions: one count', async () => {
    const served = await serve(perMinute(4), { sessions: true })
    const sessions = [await session(served, ADA), await session(served, ADA), await session(served, ADA)]
    const requests = [
      modern('tools/call', { name: 'ping' }, ADA),
      ...sessions.map((headers) => legacy(call('ping'), headers)),
      modern('tools/call', { name: 'ping' }, ADA),
      legacy(call('ping', {}, 2), sessions[0]),
    ]
    const outcomes: unknown[] = []
    for (const request of requests)
      outcomes.push((await served.send(request)).message.result.isError ?? false)
    expect(outcomes).to.deep.equal([false, false, false, false, true, true])
  })

  it('calls beyond limits: 30 calls that are canceled at once, of a tool that ignores its signal: one runs at a time', async () => {
    const handler = handlerOf({ concurrency: { max: 1, by: 'user' } })
    for (let time = 0; time < 30; time++) await abortedCall(handler, 'stubborn')
    expect([calls, peak]).to.deep.equal([1, 1])
    released.resolve()
    expect(await refusals(web(handler), ADA)).to.deep.equal([false])
  })

  it('calls beyond limits: 30 calls that are canceled at once, of a tool that respects its signal: each is counted, and its slot is free', async () => {
    const handler = handlerOf({ ...perMinute(20), concurrency: { max: 1, by: 'user' } })
    for (let time = 0; time < 30; time++) await abortedCall(handler, 'obedient')
    expect(calls).to.equal(20)
  })

  it('calls beyond limits: 30 calls that notifications/cancelled cancels in a session: one runs at a time', async () => {
    const served = await serve({ concurrency: { max: 1, by: 'user' } }, { sessions: true })
    const headers = await session(served, ADA)
    const pending: Promise<unknown>[] = []
    for (let id = 0; id < 30; id++) {
      const answered = served.send(legacy(call('stubborn', {}, id), headers))
      if (id === 0) await begun.promise
      else await answered
      pending.push(answered.catch(() => undefined))
      const params = { requestId: id }
      await served.send(legacy({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, headers))
    }
    expect([calls, peak]).to.deep.equal([1, 1])
  })

  it('calls beyond limits: a handler that never returns after its client has disconnected, without timeoutMs: its slot is free after 60 s', async () => {
    const begin = inProgress({ max: 1, by: 'user' }, undefined)
    const tool = new LimitedTool({ tool: 'x', begins: [begin] })
    const controller = new AbortController()
    const limited: any = { exchange: { context: {} }, context: { signal: controller.signal } }
    const { setTimeout: original } = globalThis
    let timer: { readonly fire: () => void; readonly ms: number } | undefined
    globalThis.setTimeout = ((fire: () => void, ms: number) => {
      timer = { fire, ms }
      return original(() => undefined, 0)
    }) as never
    try {
      void tool.run(limited, () => new Promise<object>(() => undefined))
      await new Promise(setImmediate)
      controller.abort()
    } finally {
      globalThis.setTimeout = original
    }
    expect(timer?.ms).to.equal(60_000)
    expect(() => begin(limited)).to.throw('Concurrency limit reached')
    timer?.fire()
    expect(begin(limited)).to.be.a('function')
  })

  it('calls beyond limits: a session that its client ends during a call: the slot is free when the handler has returned', async () => {
    const served = await serve({ concurrency: { max: 1, by: 'user' } }, { sessions: true })
    const headers = await session(served, ADA)
    const answered = served.send(legacy(call('obedient', {}, 7), headers))
    await begun.promise
    const protocol = { 'mcp-protocol-version': LEGACY }
    expect((await served.send({ method: 'DELETE', headers: { ...headers, ...protocol } })).status).to.equal(
      200,
    )
    await answered
    const next = await session(served, ADA)
    const { message } = await served.send(legacy(call('ping', {}, 8), next))
    expect(message.result.content[0].text).to.equal('pong')
  })

  it('calls beyond limits: handlers that fail in every way, 20 times each: every slot is free afterwards', async () => {
    const served = await serve({ concurrency: { max: 1, by: 'user' }, timeoutMs: 5_000 })
    for (const what of ['bigint', 'throwing toJSON', 'cycle', 'revoked proxy', 'forged limit'])
      for (let time = 0; time < 20; time++) {
        const result = await give(served, what)
        expect(result.content[0].text).to.match(/^The tool failed\. Reference: [\w-]{36}$/)
      }
    expect((await give(served, 'small')).content[0].text).to.equal('small')
  })

  for (const [attack = '', what = ''] of [
    ['a result of 20 MB', 'text'],
    ['a result whose JSON is six times as long as its text', 'escapes'],
    ['an image', 'image'],
    ['metadata', 'meta'],
    ['an error of 5 MB', 'long error'],
  ])
    it(`results beyond limits: ${attack}: an error that names its size`, async () => {
      const served = await serve({ maxResultBytes: MAX_BYTES })
      const answer = await served.send(legacy(call('give', { what }), ADA))
      expect(answer.text).to.have.length.below(1_000)
      const { result } = answer.message
      expect(result.isError).to.equal(true)
      expect(result.content[0].text).to.match(
        /^Result limit reached: the result of tool give has \d+ bytes, and/,
      )
    })

  it('results beyond limits: a toJSON that returns more at its second call: the response has the size that was measured', async () => {
    const served = await serve({ maxResultBytes: MAX_BYTES })
    const answer = await served.send(legacy(call('give', { what: 'growing toJSON' }), ADA))
    expect(answer.text.length).to.be.below(MAX_BYTES)
  })
})
