import { expect } from 'chai'
import { z } from 'zod'
import { mcpHandler } from '../../../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../../../src/mcp/adapter.ts'
import { endpointOf } from '../../../../src/mcp/endpoint-of.ts'
import { KitMcpRouter } from '../../../../src/mcp/router/router.ts'
import { KitToolError } from '../../../../src/mcp/router/tool-error.ts'
import { onExpress, type Served, serving, web } from '../../../support/mcp/entry-points.ts'
import {
  call,
  LEGACY,
  legacy,
  MODERN,
  modern,
  rpc,
  type WireAnswer,
  type WireRequest,
} from '../../../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  .tool('echo', { description: 'Says it again', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool(
    'sum',
    { description: 'Adds', input: z.object({ a: z.number() }), output: z.object({ sum: z.number() }) },
    ({ a }) => ({ sum: a + 1 }),
  )
  .tool('refuse', { description: 'Says no' }, () => {
    throw new KitToolError('no')
  })
  .tool('break', { description: 'Fails' }, () => {
    throw new Error('a secret')
  })
  .tool('nonsense', { description: 'Returns what is no JSON' }, () => Symbol('nonsense'))
  .tool('progress', { description: 'Tells how far it is' }, async (_args, { progress, log }) => {
    await progress(1, 2, 'half')
    await log('warning', { half: true })
    await progress(2, 2)
    return 'done'
  })

/** Everything an answer says, with what is new every time made equal. */
const comparable = ({ status, headers, text }: WireAnswer) => ({
  status,
  type: headers.get('content-type'),
  cache: headers.get('cache-control'),
  buffering: headers.get('x-accel-buffering'),
  challenge: headers.get('www-authenticate'),
  text: text.replace(/Reference: [\w-]+/g, 'Reference: …'),
})

const named = (headers: Record<string, string | undefined>, params: object = {}): WireRequest =>
  modern('tools/call', { name: 'echo', arguments: { text: 'hello' }, ...params }, headers)

const REQUESTS: Readonly<Record<string, WireRequest>> = {
  'a call': modern('tools/call', { name: 'echo', arguments: { text: 'hello' } }),
  'a call with structured output': modern('tools/call', { name: 'sum', arguments: { a: 1 } }),
  'a call with wrong arguments': modern('tools/call', { name: 'echo', arguments: { text: 1 } }),
  'a call without arguments': modern('tools/call', { name: 'refuse' }),
  'a call whose arguments are not an object': modern('tools/call', { name: 'echo', arguments: 'hello' }),
  'a call of no tool': modern('tools/call', { name: 'nothing', arguments: {} }),
  'a call of no name': modern('tools/call', { arguments: {} }),
  'a tool that fails': modern('tools/call', { name: 'break' }),
  'a tool that returns nonsense': modern('tools/call', { name: 'nonsense' }),
  'a tool that tells its progress': modern('tools/call', {
    name: 'progress',
    _meta: { progressToken: 7, 'io.modelcontextprotocol/logLevel': 'info' },
  }),
  'a list': modern('tools/list', {}),
  'a list with a wrong cursor': modern('tools/list', { cursor: 1 }),
  'an unknown method': modern('tools/forget', {}),
  discovery: modern('server/discover', {}),
  'a name in Base64': named({ 'mcp-name': `=?base64?${Buffer.from('echo').toString('base64')}?=` }),
  'a name in wrong Base64': named({ 'mcp-name': '=?base64?%%%?=' }),
  'another name in the header': named({ 'mcp-name': 'sum' }),
  'no name in the header': named({ 'mcp-name': undefined }),
  'another method in the header': named({ 'mcp-method': 'tools/list' }),
  'no method in the header': named({ 'mcp-method': undefined }),
  'another revision in the header': named({ 'mcp-protocol-version': LEGACY }),
  'no revision in the header': named({ 'mcp-protocol-version': undefined }),
  'a unknown revision': named({ 'mcp-protocol-version': '2099-01-01' }),
  'wrong client capabilities': named(
    {},
    {
      _meta: {
        'io.modelcontextprotocol/protocolVersion': MODERN,
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': 'all',
      },
    },
  ),
  'no envelope': { ...named({}), body: JSON.stringify(call('echo', { text: 'hello' })) },
  'an id that is null': {
    ...named({}),
    body: JSON.stringify({ jsonrpc: '2.0', id: null, method: 'tools/list' }),
  },
  'another JSON-RPC': { ...named({}), body: JSON.stringify({ jsonrpc: '1.0', id: 1, method: 'tools/list' }) },
  'a call of 2025-11-25': legacy(call('echo', { text: 'hello' })),
  'a call of 2025-11-25 with wrong arguments': legacy(call('echo', {})),
  'a call of 2025-11-25 of no tool': legacy(call('nothing', {})),
  'a call of 2025-11-25 of a tool that fails': legacy(call('break', {})),
  'a call of 2025-11-25 with progress': legacy(
    rpc('tools/call', { name: 'progress', arguments: {}, _meta: { progressToken: 'p' } }),
  ),
  'a call without a revision': legacy(call('sum', { a: 1 }), { 'mcp-protocol-version': undefined }),
  'a call of 2025-06-18': legacy(call('sum', { a: 1 }), { 'mcp-protocol-version': '2025-06-18' }),
  'a call of a unknown revision': legacy(call('sum', { a: 1 }), {
    'mcp-protocol-version': '2020-01-01',
  }),
  'a call that accepts JSON alone': legacy(call('sum', { a: 1 }), { accept: 'application/json' }),
  'a call that accepts anything': legacy(call('sum', { a: 1 }), { accept: '*/*' }),
  'a list of 2025-11-25': legacy(rpc('tools/list', {})),
  'a ping': legacy(rpc('ping', {})),
  ...Object.fromEntries(
    ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2020-01-01', 7].flatMap((protocolVersion) => {
      const initialize = rpc('initialize', {
        protocolVersion,
        capabilities: {},
        clientInfo: { name: 'test', version: '1' },
      })
      return [
        [`initialize of ${protocolVersion}`, legacy(initialize, { 'mcp-protocol-version': undefined })],
        [`initialize of ${protocolVersion} with a revision in the header`, legacy(initialize)],
      ]
    }),
  ),
  'initialize without params': legacy(rpc('initialize')),
  'initialize without the name of the client': legacy(
    rpc('initialize', { protocolVersion: LEGACY, capabilities: {} }),
  ),
  'a ping of 2026-07-28': modern('ping', {}),
  'initialize of 2026-07-28': modern('initialize', {}),
  'notifications/initialized': legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }),
  'notifications/initialized with params': legacy({
    jsonrpc: '2.0',
    method: 'notifications/initialized',
    params: { a: 1 },
  }),
  'notifications/initialized with another member': legacy({
    jsonrpc: '2.0',
    method: 'notifications/initialized',
    more: 1,
  }),
  'notifications/initialized with an id': legacy(rpc('notifications/initialized')),
  'notifications/initialized of another JSON-RPC': legacy({
    jsonrpc: '1.0',
    method: 'notifications/initialized',
  }),
  'notifications/initialized of an unknown revision': legacy(
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { 'mcp-protocol-version': '2020-01-01' },
  ),
  'notifications/initialized that accepts JSON alone': legacy(
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { accept: 'application/json' },
  ),
  'notifications/initialized with the envelope of 2026-07-28': {
    ...modern('notifications/initialized', {}),
    body: JSON.stringify({
      jsonrpc: '2.0',
      method: 'notifications/initialized',
      params: { _meta: { 'io.modelcontextprotocol/protocolVersion': MODERN } },
    }),
  },
  'a call with a text for params': legacy(
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: 'x' }),
  ),
  'a batch': legacy([call('echo', { text: 'a' }), call('echo', { text: 'b' }, 2)], {
    'mcp-protocol-version': undefined,
  }),
}

describe('the fast path', () => {
  const entryPoints: Readonly<Record<string, (direct: boolean) => Promise<Served>>> = {
    'web-standard': async (direct) => web(adapter(direct).server),
    Express: async (direct) => onExpress(mcpHandler(adapter(direct))),
  }
  for (const [entryPoint, serve] of Object.entries(entryPoints)) {
    describe(`through the ${entryPoint} handler`, () => {
      const short = serving(() => serve(true))
      const long = serving(() => serve(false))
      for (const [what, request] of Object.entries(REQUESTS)) {
        it(`${what} gets the same response on the fast path as from the SDK's handler`, async () => {
          const answers = [await short().send(request), await long().send(request)]
          const [direct, handled] = answers.map(comparable)
          expect(direct).to.deep.equal(handled)
        })
      }
    })
  }
})

function adapter(direct: boolean) {
  const made = createMcpAdapter({ router, serverInfo: { name: 'plain', version: '1.0.0' } })
  const service = endpointOf(made)
  if (service === undefined) throw new Error('no service')
  service.sdkHandler.usesFastPath = direct
  return made
}
