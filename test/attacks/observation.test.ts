import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, KitToolError } from '../../src/index.ts'
import type { CreateMcpAdapterOptions, RouterOption } from '../../src/mcp/adapter.ts'
import { InMemoryTransportAdapter, KitTelemetry, type TelemetryEnvelope } from '../../src/telemetry/index.ts'
import { ENTRY_POINTS, type Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy, modern, rpc, type WireAnswer, type WireRequest } from '../support/mcp/wire.ts'

const TOKEN = 'opaque-token_mF9.B5f4/1JqM+zzyy=='

const fail = (): never => {
  throw new Error('This object must not be read.')
}

/** Returns a proxy whose traps all throw. */
const hostile = (target: object = {}): object =>
  new Proxy(target, {
    get: fail,
    has: fail,
    ownKeys: fail,
    getPrototypeOf: fail,
    getOwnPropertyDescriptor: fail,
  })

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

/** Adds members to `target` that throw when they are read. */
const unreadable = <T extends object>(target: T, ...members: string[]): T =>
  Object.defineProperties(
    target,
    Object.fromEntries(members.map((member) => [member, { get: fail, enumerable: true }])),
  )

/** Adds a member to `target` that throws when it is read for the `nth` time. */
function readableTimes<T extends object>(target: T, member: string, value: unknown, nth: number): T {
  let reads = 0
  return Object.defineProperty(target, member, {
    enumerable: true,
    get: () => (++reads >= nth ? fail() : value),
  })
}

const withoutText = (): object => ({ toString: fail, valueOf: fail, toJSON: fail })

/** Middleware on Express and the web-standard handler. */
const ENTRIES = ENTRY_POINTS.filter(({ name }) =>
  ['mcpHandler on Express', 'server of createMcpAdapter'].includes(name),
)

/** Returns a request in the form of each revision. */
function eras(message: Record<string, unknown>): WireRequest[] {
  const params = message.params as Record<string, unknown>
  const name = typeof params.uri === 'string' ? { 'mcp-name': params.uri } : {}
  return [
    legacy(message, bearer(TOKEN)),
    modern(String(message.method), params, { ...name, ...bearer(TOKEN) }),
  ]
}

async function using<T>(opening: Promise<Served>, use: (served: Served) => Promise<T>): Promise<T> {
  const served = await opening
  try {
    return await use(served)
  } finally {
    await served.close()
  }
}

const verifying = (user: unknown) =>
  oauth({ verifyToken: () => ({ valid: true, user, scopes: ['mcp:read'] }) })

interface Told {
  readonly answer: WireAnswer
  readonly events: TelemetryEnvelope[]
}

/** Sends `message` in both eras to both entry points of an adapter with telemetry. */
async function observed(
  setup: Pick<CreateMcpAdapterOptions, 'router'> & Partial<CreateMcpAdapterOptions>,
  message: Record<string, unknown>,
): Promise<Told[]> {
  const all: Told[] = []
  for (const entry of ENTRIES) {
    const transport = InMemoryTransportAdapter.create()
    const telemetry = KitTelemetry.create()
      .withSampling({ debugRate: 1, infoRate: 1 })
      .withLogger({ error: (text) => expect.fail(text), warn: (text) => expect.fail(text) })
      .addTransport(transport)
      .build()
    await using(entry.serve({ oauth: verifying({ id: 'u1' }), ...setup, telemetry }), async (served) => {
      for (const request of eras(message)) {
        transport.clear()
        const answer = await served.send(request)
        all.push({ answer, events: transport.getEvents() })
      }
    })
  }
  expect(all).to.have.lengthOf(4)
  for (const { events } of all) expect(JSON.stringify(events)).not.to.contain(TOKEN)
  return all
}

const eventOf = ({ events }: Told, name: string): TelemetryEnvelope | undefined => {
  const found = events.filter((event) => event.name === name)
  expect(found.length, events.map((event) => event.name).join()).to.be.at.most(1)
  return found[0]
}

/** Users that a verifier can return, each with the actor id in the events. */
const USERS: readonly (readonly [what: string, user: unknown, actor: string | undefined])[] = [
  ['whose id getter throws', unreadable({ sub: 's1' }, 'id'), 's1'],
  ['whose id and sub getters throw', unreadable({}, 'id', 'sub'), undefined],
  ['that is a proxy whose traps throw', hostile(), undefined],
  ['that is a revoked proxy', revoked(), undefined],
  ['whose id has no string form', { id: withoutText(), sub: 's1' }, 's1'],
  ['whose id is a symbol', { id: Symbol('id'), sub: 's1' }, 's1'],
  ['whose id is a bigint', { id: 5n }, '5'],
  ['whose id is NaN', { id: Number.NaN }, 'NaN'],
  ['whose id is a string of 10 MB', { id: 'x'.repeat(10_000_000) }, 'x'.repeat(1024)],
  ['whose id is the token', { id: TOKEN }, '[token]'],
  ['that is a string', 'ada', undefined],
  ['that is a function', () => 1, undefined],
  ['whose toJSON throws', { id: 'u1', toJSON: fail }, 'u1'],
]

const hello = KitMcpRouter.create().tool('hello', { description: 'x' }, () => 'Hello!')

let deepCauses = new Error('the first')
for (let level = 0; level < 10_000; level++) deepCauses = new Error(`level ${level}`, { cause: deepCauses })

const cyclicCauses = (): Error => {
  const [one, two] = [new Error('one'), new Error('two')]
  one.cause = two
  two.cause = one
  return one
}

/** Values that a handler can throw, each with the message in the event. */
const THROWN: readonly (readonly [what: string, thrown: () => unknown, message: string | RegExp])[] = [
  ['a string', () => 'text', 'text'],
  ['an empty string', () => '', ''],
  ['a string with the token', () => `bad ${TOKEN}`, 'bad [token]'],
  ['undefined', () => undefined, 'undefined'],
  ['null', () => null, 'null'],
  ['a number', () => 42, '42'],
  ['a bigint', () => 42n, '42'],
  ['a symbol', () => Symbol('sign'), 'Symbol(sign)'],
  ['a function', () => () => 1, '[function]'],
  ['an object', () => ({ reason: 'full' }), '{"reason":"full"}'],
  ['an object with a message and a code', () => ({ message: 'm', code: 'E_FULL' }), 'm'],
  [
    'an object that holds the token',
    () => ({ headers: { authorization: `Bearer ${TOKEN}` } }),
    /Bearer \[token\]/,
  ],
  ['a frozen object', () => Object.freeze({ reason: 'full' }), '{"reason":"full"}'],
  [
    'an object with getters that throw',
    () => unreadable({ reason: 'full' }, 'name', 'message', 'code', 'stack', 'cause'),
    /full/,
  ],
  ['an object whose toJSON throws', () => ({ toJSON: fail }), '[object]'],
  ['a proxy whose traps throw', () => hostile(), '[object]'],
  ['a proxy of an error', () => hostile(new Error('x')), '[object]'],
  ['a revoked proxy', revoked, '[object]'],
  ['an error', () => new TypeError('boom'), 'boom'],
  ['a frozen error', () => Object.freeze(new TypeError('boom')), 'boom'],
  ['an error with a stack that throws', () => unreadable(new Error('boom'), 'stack'), 'boom'],
  ['an error with a message that throws', () => unreadable(new Error('boom'), 'message'), ''],
  ['an error with a cause that throws', () => unreadable(new Error('boom'), 'cause'), 'boom'],
  [
    'an error of which nothing can be read',
    () => unreadable(new Error('x'), 'stack', 'name', 'message', 'code', 'cause', 'errors'),
    '',
  ],
  ['an AggregateError', () => new AggregateError([new Error(TOKEN), null, hostile()], 'all'), 'all'],
  ['a cycle of causes', cyclicCauses, 'one'],
  ['a chain of 10 000 causes', () => deepCauses, 'level 9999'],
  [
    'an error of 10 MB that ends in the token',
    () => new Error(`${'x'.repeat(10_000_000)}${TOKEN}`),
    /^x{4999}…$/,
  ],
  ['an error full of tokens', () => new Error(TOKEN.repeat(10_000)), /^(?:\[token\])+\S{0,7}…$/],
  ['an error with a cause that is the token', () => new Error('boom', { cause: TOKEN }), 'boom'],
]

function expectMessage(event: TelemetryEnvelope | undefined, message: string | RegExp): void {
  expect(event?.error, 'the event has an error').not.to.equal(undefined)
  if (typeof message === 'string') expect(event?.error?.message).to.equal(message)
  else expect(event?.error?.message).to.match(message)
  expect(event?.error?.name).to.be.a('string').and.not.equal('')
}

const throwing = (thrown: () => unknown): RouterOption =>
  KitMcpRouter.create()
    .tool('fails', { description: 'x' }, () => {
      throw thrown()
    })
    .prompt('fails', { description: 'x' }, () => {
      throw thrown()
    })
    .resource('test://fails', { uri: 'test://fails' }, () => {
      throw thrown()
    })

/** Returns a server of the SDK whose handlers throw. */
const sdkServer = (thrown: () => unknown) => () => {
  const server = new McpServer({ name: 'x', version: '1' })
  const handler = (): never => {
    throw thrown()
  }
  server.registerTool('fails', {}, handler)
  server.registerPrompt('fails', {}, handler)
  server.registerResource('fails', 'test://fails', {}, handler)
  return server
}

describe('attacks on observation', () => {
  for (const [what, user, actor] of USERS)
    it(`hostile users: a user ${what}: the responses are the same as without telemetry`, async () => {
      const observedCall = await observed({ router: hello, oauth: verifying(user) }, call('hello'))
      for (const { answer, events } of observedCall) {
        expect(answer.status).to.equal(200)
        expect(answer.message.result.content).to.deep.equal([{ type: 'text', text: 'Hello!' }])
        expect(events.map(({ name }) => name)).to.deep.equal([
          'kit.mcp.auth.accepted',
          'kit.mcp.tool.completed',
          'kit.mcp.request.completed',
        ])
        for (const event of events) expect(event.actor?.id).to.equal(actor)
      }
    })

  for (const [what, thrown, message] of THROWN) {
    it(`hostile thrown values: a tool throws ${what}: kit.mcp.tool.failed contains its readable members, without the token`, async () => {
      for (const observedCall of await observed({ router: throwing(thrown) }, call('fails'))) {
        expect(observedCall.answer.status).to.equal(200)
        expect(observedCall.answer.message.result.content[0].text).to.match(/^The tool failed. Reference: /)
        expectMessage(eventOf(observedCall, 'kit.mcp.tool.failed'), message)
      }
    })

    it(`hostile thrown values: a prompt and a resource throw ${what}: kit.mcp.request.failed contains its readable members, without the token`, async () => {
      for (const asked of [
        rpc('prompts/get', { name: 'fails' }),
        rpc('resources/read', { uri: 'test://fails' }),
      ]) {
        for (const observedCall of await observed({ router: throwing(thrown) }, asked)) {
          expect(observedCall.answer.status).to.equal(200)
          expect(observedCall.answer.message.error.message).to.match(/ failed. Reference: /)
          expectMessage(eventOf(observedCall, 'kit.mcp.request.failed'), message)
        }
      }
    })

    it(`hostile thrown values: the context factory throws ${what}: kit.mcp.request.failed contains its readable members`, async () => {
      const router = hello.context(() => {
        throw thrown()
      })
      for (const observedCall of await observed({ router }, call('hello'))) {
        expect(observedCall.answer.status).to.equal(500)
        expect(eventOf(observedCall, 'kit.mcp.request.failed')?.error).not.to.equal(undefined)
      }
    })
  }

  it('hostile results: a KitToolError whose message throws when it is read: the client gets a reference, and not the message of the getter', async () => {
    const router = throwing(() => unreadable(new KitToolError('x'), 'message'))
    for (const observedCall of await observed({ router }, call('fails')))
      expect(observedCall.answer.message.result.content[0].text).to.match(/^The tool failed. Reference: /)
    for (const observedCall of await observed({ router }, rpc('prompts/get', { name: 'fails' })))
      expect(observedCall.answer.message.error.message).to.match(/^The prompt failed. Reference: /)
  })

  for (const member of ['content', 'isError', '_meta', 'resultType'])
    it(`hostile results: a tool result whose ${member} throws when it is read for the nth time: the client gets a response without the message of the error`, async () => {
      const value = { content: [{ type: 'text', text: 'x' }], isError: false, _meta: {} }[member]
      for (const recordPayloads of [false, true]) {
        for (let nth = 1; nth <= 12; nth++) {
          const router = KitMcpRouter.create().tool('nth', { description: 'x' }, () =>
            readableTimes({ content: [{ type: 'text', text: 'x' }] }, member, value, nth),
          )
          for (const { answer } of await observed({ router, recordPayloads }, call('nth'))) {
            expect(answer.status).to.equal(200)
            expect(answer.text)
              .to.match(/"result":|cannot be written/)
              .and.not.contain('must not be read')
          }
        }
      }
    })

  it('hostile results: a prompt and a resource whose result throws when it is read for the nth time: the client gets a response without the message of the error', async () => {
    for (let nth = 1; nth <= 12; nth++) {
      const router = KitMcpRouter.create()
        .prompt('nth', { description: 'x' }, () => readableTimes({ messages: [] }, 'messages', [], nth))
        .resource('test://nth', { uri: 'test://nth' }, () =>
          readableTimes({ contents: [] }, 'contents', [], nth),
        )
      for (const asked of [
        rpc('prompts/get', { name: 'nth' }),
        rpc('resources/read', { uri: 'test://nth' }),
      ]) {
        for (const { answer } of await observed({ router }, asked)) {
          expect(answer.status).to.equal(200)
          expect(answer.text).not.to.contain('must not be read')
        }
      }
    }
  })

  it('hostile results: a nested member of a structured result throws when it is read for the nth time: the client gets a response without the message of the error', async () => {
    for (let nth = 1; nth <= 12; nth++) {
      const output = z.object({ deep: z.any() })
      const router = KitMcpRouter.create().tool('nth', { description: 'x', output }, () => ({
        deep: readableTimes({ a: 1 }, 'b', 2, nth),
      }))
      for (const { answer } of await observed({ router }, call('nth'))) {
        expect(answer.status).to.equal(200)
        expect(answer.text).not.to.contain('must not be read')
      }
    }
  })

  it('hostile results: payloads are recorded, and a result has members that throw: the client gets a response, and the events are emitted', async () => {
    const router = sdkServer(() => unreadable({ content: [] }, 'isError'))
    for (const observedCall of await observed({ router, recordPayloads: true }, call('fails')))
      expect(eventOf(observedCall, 'kit.mcp.request.completed')).not.to.equal(undefined)
  })
})
