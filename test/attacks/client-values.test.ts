import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { type CreateMcpAdapterOptions, createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { spokenOAuth, token } from '../support/attacks/spoken-tokens.ts'
import { listen } from '../support/listen.ts'
import { WITH_TASKS } from '../support/mcp/tasks.ts'
import {
  bearer,
  initialization,
  legacy,
  modern,
  rpc,
  send,
  type WireAnswer,
  type WireRequest,
} from '../support/mcp/wire.ts'

const LONGEST = 'v'.repeat(1_024)
const TOO_LONG = `${LONGEST}v`
const REVISION = 'io.modelcontextprotocol/protocolVersion'

const router = KitMcpRouter.create()
  .tool('echo', { description: 'x' }, async (_args, { progress }) => {
    await progress(1, 2)
    return 'done'
  })
  .tool('work', { description: 'x', task: 'optional' }, () => 'done')
  .prompt('greet', { description: 'x', input: z.object({ name: z.string() }) }, () => 'hello')

const factory = () => {
  const server = new McpServer({ name: 'existing', version: '1' })
  server.registerTool('echo', { description: 'x' }, () => ({ content: [{ type: 'text', text: 'done' }] }))
  server.registerPrompt('greet', { description: 'x' }, () => ({ messages: [] }))
  return server
}

type Message = Record<string, any>

/** The member that the error names, its code, a request, and a function that sets the member. */
type Row = readonly [
  member: string,
  code: number,
  method: string,
  params: Message,
  set: (message: Message, value: string) => void,
]

const ECHO = { name: 'echo', arguments: {} }
const COMPLETION = { ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'name', value: '' } }

const ROWS: readonly Row[] = [
  ['id', -32_600, 'tools/call', ECHO, (message, value) => Object.assign(message, { id: value })],
  ['id', -32_600, 'tools/list', {}, (message, value) => Object.assign(message, { id: value })],
  [
    'id',
    -32_600,
    'resources/read',
    { uri: 'notes://none' },
    (message, value) => Object.assign(message, { id: value }),
  ],
  ['method', -32_600, 'ping', {}, (message, value) => Object.assign(message, { method: value })],
  ['name', -32_602, 'tools/call', ECHO, ({ params }, value) => Object.assign(params, { name: value })],
  [
    'name',
    -32_602,
    'prompts/get',
    { name: 'greet' },
    ({ params }, value) => Object.assign(params, { name: value }),
  ],
  [
    'ref.name',
    -32_602,
    'completion/complete',
    COMPLETION,
    ({ params }, value) => Object.assign(params.ref, { name: value }),
  ],
  [
    'argument.name',
    -32_602,
    'completion/complete',
    COMPLETION,
    ({ params }, value) => Object.assign(params.argument, { name: value }),
  ],
  [
    'taskId',
    -32_602,
    'tasks/get',
    { taskId: 'x' },
    ({ params }, value) => Object.assign(params, { taskId: value }),
  ],
  [
    '_meta.progressToken',
    -32_602,
    'tools/call',
    ECHO,
    ({ params }, value) => Object.assign(params, { _meta: { ...params._meta, progressToken: value } }),
  ],
  [
    `_meta["${REVISION}"]`,
    -32_602,
    'tools/call',
    ECHO,
    ({ params }, value) => Object.assign(params, { _meta: { ...params._meta, [REVISION]: value } }),
  ],
]

/** Members that make a message with an id something else than a request. */
const NOT_REQUESTS = [
  ['without a method', {}],
  ['with a method that is null', { method: null }],
  ['with a method that is a number', { method: 5 }],
  ['with a result', { result: {} }],
] as const

/** Returns the request of a row, with the value. */
function requestOf(isModern: boolean, [, , method, params, set]: Row, value: string): WireRequest {
  const given = structuredClone(params)
  const _meta = { 'io.modelcontextprotocol/clientCapabilities': WITH_TASKS }
  const request = isModern ? modern(method, { ...given, _meta }) : legacy(rpc(method, given))
  const message = JSON.parse(request.body as string)
  set(message, value)
  const name = message.params.name ?? message.params.uri ?? message.params.taskId
  const headers = { 'mcp-method': message.method, ...(name !== undefined && { 'mcp-name': name }) }
  return { headers: { ...request.headers, ...(isModern && headers) }, body: JSON.stringify(message) }
}

function expectRefused({ status, message, text, headers }: WireAnswer, code: number, limited: string): void {
  expect(status).to.equal(400)
  expect(message.error.code).to.equal(code)
  expect(message.error.message).to.contain(`${limited} must have at most 1024 characters`)
  for (const repeated of [text, JSON.stringify([...headers])]) expect(repeated).not.to.contain('vvvvvvvv')
}

describe('attacks with long values of clients', () => {
  for (const [kind, setup] of [
    ['a typed router', { router }],
    ['a typed router with sessions', { router, sessions: true }],
    ['a router function', { router: factory }],
    ['a router function with sessions', { router: factory, sessions: true }],
  ] as const) {
    let port: number
    let own: Record<string, string>
    const ask = (request: WireRequest, more: Record<string, string> = {}) =>
      send(port, { ...request, headers: { ...request.headers, ...bearer(token('ada')), ...more } })
    beforeEach(async () => {
      const adapter = createMcpAdapter({ oauth: spokenOAuth(), ...(setup as CreateMcpAdapterOptions) })
      port = (await listen(mcpHandler(adapter))).port
      const id = (await ask(legacy(initialization(), { 'mcp-protocol-version': undefined }))).headers.get(
        'mcp-session-id',
      )
      own = id === null ? {} : { 'mcp-session-id': id }
    })

    for (const isModern of [true, false])
      for (const row of ROWS)
        it(`values in messages to ${kind}: ${row[0]} of ${row[2]} with 1,025 characters, ${isModern ? '2026-07-28' : '2025-11-25'}: 400, and a JSON-RPC error without the value; 1,024 characters are accepted`, async () => {
          const session = isModern ? {} : own
          const refused = await ask(requestOf(isModern, row, TOO_LONG), session)
          expectRefused(refused, row[1], row[0])
          expect(refused.message.id).to.equal(row[0] === 'id' ? null : 1)
          const accepted = await ask(requestOf(isModern, row, LONGEST), session)
          expect(accepted.text).not.to.contain('must have at most')
        })

    for (const [what, members] of NOT_REQUESTS)
      it(`values in messages to ${kind}: long values in a message with an id, ${what}: 400 without an id, because the message is not a request`, async () => {
        for (const [limited, code, method, params, set] of ROWS) {
          if (limited === 'method') continue
          const message = { ...rpc(method, structuredClone(params)), method: undefined, ...members }
          set(message, TOO_LONG)
          const refused = await ask(legacy(message), own)
          expectRefused(refused, code, limited)
          expect(refused.message.id, limited).to.equal(null)
        }
      })

    for (const header of ['mcp-protocol-version', 'mcp-method', 'mcp-name'] as const)
      it(`values in headers to ${kind}: ${header} with 1,025 characters in each method: 400, and a JSON-RPC error without the value`, async () => {
        expectRefused(
          await ask(modern('tools/call', ECHO, { [header]: TOO_LONG })),
          -32_600,
          `the header ${header}`,
        )
        for (const method of ['GET', 'DELETE']) {
          const headers = { accept: 'text/event-stream', ...own, [header]: TOO_LONG }
          expectRefused(await ask({ method, headers }), -32_600, `the header ${header}`)
        }
      })

    it(`values in headers to ${kind}: mcp-name with 1,025 characters in base64, which differs from the message: 400, and a JSON-RPC error without the value`, async () => {
      const name = `=?base64?${Buffer.from(TOO_LONG).toString('base64')}?=`
      const refused = await ask(modern('tools/call', ECHO, { 'mcp-name': name }))
      expectRefused(refused, -32_600, 'the header mcp-name')
      expect(refused.text).not.to.contain(name.slice(20, 60))
    })

    it(`values in headers to ${kind}: a batch in which one message has a long id: 400 without an id, and no message is processed`, async () => {
      const batch = [rpc('ping'), rpc('ping', undefined, TOO_LONG)]
      const refused = await ask(legacy(batch, { 'mcp-protocol-version': '2025-03-26' }), own)
      expectRefused(refused, -32_600, 'id')
      expect(refused.message.id).to.equal(null)
    })
  }

  it('other places: a URI of 8,000 characters, which Mcp-Name repeats: the request is served', async () => {
    const notes = KitMcpRouter.create().resourceTemplate('note', { uriTemplate: 'notes://{id}' }, () => 'x')
    const { port } = await listen(mcpHandler(createMcpAdapter({ router: notes, oauth: spokenOAuth() })))
    const uri = `notes://${'x'.repeat(7_900)}`
    const read = modern('resources/read', { uri }, { 'mcp-name': uri, ...bearer(token('ada')) })
    expect((await send(port, read)).message.result.contents[0].text).to.equal('x')
  })

  it('other places: a long id and a long progressToken without a token: 401, or 400 for a public tool, without the value', async () => {
    const tools = KitMcpRouter.create()
      .tool('private', { description: 'x' }, () => 'x')
      .tool('public', { description: 'x', public: true }, () => 'x')
    const oauth = spokenOAuth({ anonymous: true, challengeInResult: true })
    const { port } = await listen(mcpHandler(createMcpAdapter({ router: tools, oauth })))
    for (const [name, status] of [
      ['private', 401],
      ['public', 400],
    ] as const)
      for (const message of [
        rpc('tools/call', { name, arguments: {} }, TOO_LONG),
        rpc('tools/call', { name, arguments: {}, _meta: { progressToken: TOO_LONG } }),
      ]) {
        const answer = await send(port, legacy(message))
        if (message.id === TOO_LONG || name === 'public') expect(answer.status).to.equal(status)
        expect(answer.text).not.to.contain('vvvvvvvv')
      }
  })

  it('other places: a preflight that asks for a header with a name of 1,025 characters: the response does not repeat it; 1,024 characters are repeated', async () => {
    const { port } = await listen(mcpHandler(createMcpAdapter({ router, oauth: spokenOAuth() })))
    const allowed = async (name: string) => {
      const headers = {
        origin: `http://127.0.0.1:${port}`,
        'access-control-request-method': 'POST',
        'access-control-request-headers': name,
      }
      const answer = await send(port, { method: 'OPTIONS', headers })
      return answer.headers.get('access-control-allow-headers')?.includes(name)
    }
    const longest = `mcp-param-${'v'.repeat(1_014)}`
    expect(await allowed(longest)).to.equal(true)
    expect(await allowed(`${longest}v`)).to.equal(false)
  })
})
