import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter } from '../../src/index.ts'
import { web } from '../support/mcp/entry-points.ts'
import { beginSession, legacy, modern, rpc } from '../support/mcp/wire.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'

const table = KitMcpRouter.create()
  .tool('t', { description: 'x', input: z.object({ n: z.number() }) }, () => 'x')
  .prompt(
    'p',
    { description: 'x', input: z.object({ n: z.coerce.number() }), complete: { n: () => ['1'] } },
    ({ n }) => `n=${n}`,
  )
  .resource('r', { uri: 'n://r' }, () => 'x')

/** A router function, whose prompt fails with issues of its own. */
const made = () => {
  const server = new McpServer({ name: 'made', version: '1' }, { capabilities: { logging: {} } })
  server.registerTool('t', { description: 'x' }, () => ({ content: [] }))
  server.registerPrompt('p', { description: 'x', argsSchema: z.object({ n: z.string() }) }, () => {
    throw new z.ZodError([{ code: 'custom', path: ['secret'], message: 'x', input: 1 }])
  })
  return server
}

type Params = Record<string, unknown>

/** Methods with invalid parameters. */
const INVALID: readonly (readonly [method: string, params: Params])[] = [
  ['prompts/get', { name: 'p', arguments: { n: 5 } }],
  ['prompts/get', { name: 'p', arguments: [] }],
  ['resources/read', { uri: 5 }],
  ['resources/read', {}],
  ['completion/complete', { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'n', value: 1 } }],
  ['completion/complete', { ref: { type: 'ref/other' }, argument: { name: 'n', value: '' } }],
  ['tools/call', { name: 't', arguments: [] }],
  ['tools/call', { name: 5 }],
  ['tools/list', { cursor: 5 }],
  ['prompts/list', { cursor: {} }],
  ['resources/list', { cursor: null }],
  ['resources/templates/list', { cursor: 5 }],
]

describe('mcp: invalid parameters of methods of the specification', () => {
  const { telemetry, transport: events } = keepingEvents()
  const stateless = web(createMcpAdapter({ router: table, telemetry }).server)
  const { server } = createMcpAdapter({ router: table, sessions: {} })

  function expectInvalid(message: any): void {
    expect(message.error?.code, JSON.stringify(message)).to.equal(-32_602)
    expect(message.error.message)
      .to.match(/^[A-Z][^[{]*$/)
      .and.not.to.contain('\n')
  }

  async function session(): Promise<string> {
    return (await beginSession(web(server)))['mcp-session-id']
  }

  for (const [method, params] of INVALID)
    it(`${method} ${JSON.stringify(params)} is -32602 with a sentence`, async () => {
      expectInvalid((await stateless.send(legacy(rpc(method, params)))).message)
      const { uri, _meta } = params
      const headers = typeof uri === 'string' ? { 'mcp-name': uri } : {}
      expectInvalid((await stateless.send(modern(method, { ...params, _meta }, headers))).message)
      const id = { 'mcp-session-id': await session() }
      expectInvalid((await web(server).send(legacy(rpc(method, params), id))).message)
      await telemetry.flush()
      const codes = JSON.stringify(events.getEvents())
      expect(codes).not.to.contain('-32603')
      events.clear()
    })

  for (const [method, params] of [
    ['prompts/get', { name: 'p', arguments: { n: '1' } }],
    ['resources/list', {}],
  ] as const)
    it(`${method} with a wrong type in _meta is rejected with a sentence`, async () => {
      const { message } = await stateless.send(
        legacy(rpc(method, { ...params, _meta: { progressToken: {} } })),
      )
      expect(message.error.code).to.be.oneOf([-32_600, -32_602])
      expect(message.error.message).to.match(/^[A-Z][^[{]*$/)
    })

  it('logging/setLevel and initialize are -32602 with a sentence', async () => {
    const functions = web(createMcpAdapter({ router: made }).server)
    expectInvalid((await functions.send(legacy(rpc('logging/setLevel', { level: 'loud' })))).message)
    for (const served of [functions, stateless, web(server)])
      expectInvalid((await served.send(legacy(rpc('initialize', { protocolVersion: 5 })))).message)
  })

  it('issues that a handler of the application throws stay an internal error', async () => {
    const functions = web(createMcpAdapter({ router: made }).server)
    const { message } = await functions.send(legacy(rpc('prompts/get', { name: 'p', arguments: { n: 'x' } })))
    expect(message.error.code).to.equal(-32_603)
  })
})
