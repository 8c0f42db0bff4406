import { METHODS } from 'node:http'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { endpointOf } from '../../src/mcp/endpoint-of.ts'
import { SdkHandler } from '../../src/mcp/sdk/sdk-handler.ts'
import { ENTRY_POINTS, onExpress, onNode, type Served, web } from '../support/mcp/entry-points.ts'
import { call, legacy, rpc, type WireAnswer } from '../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  // What a hook reads of the request must not depend on its method.
  .context(({ request }) => ({ method: request.method, agent: request.headers.get('user-agent') }))
  .tool('size', { description: 'x', input: z.looseObject({}) }, (args, { context }) => ({
    size: JSON.stringify(args).length,
    method: context.method,
  }))

const DEPTH = 10_000
const nested = (open: string, inner: string, close: string, depth = DEPTH): string =>
  open.repeat(depth) + inner + close.repeat(depth)

/** A call as text, with `argument` as the text of an argument. */
const calling = (argument: string): string =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"size","arguments":{"x":${argument}}}}`

/** One JSON-RPC message, and never a stack overflow of ours. */
function expectOne({ status, text: said, messages }: WireAnswer, expected: number, code?: number): void {
  expect(status).to.equal(expected)
  if (status === 202) return void expect(said).to.equal('')
  expect(messages).to.have.length(1)
  if (status === 200) expect(messages[0].id).to.equal(1)
  if (code !== undefined) expect(messages[0].error.code).to.equal(code)
}

describe('mcp: JSON of many levels', () => {
  it('a tool result with 10 000 levels is sent, or becomes an error result', async () => {
    const again = KitMcpRouter.create().tool('size', { description: 'x', input: z.looseObject({}) }, () => ({
      x: JSON.parse(nested('[', '', ']')),
    }))
    const { send } = web(createMcpAdapter({ router: again }).server)
    const { status, message } = await send(legacy(calling('1')))
    expect(status).to.equal(200)
    expect(message.result.content[0].text).to.match(/^(?:\{"x":\[\[\[|The tool failed\. Reference: )/)
  })
})

describe('mcp: batches', () => {
  const { send } = web(createMcpAdapter({ router }).server)
  const ask = (...messages: unknown[]) => send(legacy(messages, { 'mcp-protocol-version': '2025-03-26' }))

  it('a batch of 100 requests gets one response for each', async () => {
    const { messages } = await ask(...Array.from({ length: 100 }, (_, id) => call('size', { id }, id)))
    expect(messages.map(({ id }) => id).sort((a, b) => a - b)).to.deep.equal([...Array(100).keys()])
  })

  for (const [what, first, second] of [
    ['a number', 1, 1],
    ['a text', 'a', 'a'],
    ['zero', 0, -0],
  ] as const) {
    it(`a batch with the id ${what} twice is rejected as a whole`, async () => {
      const { status, messages } = await ask(
        call('size', {}, first),
        rpc('ping', {}, 'other'),
        call('size', {}, second),
      )
      expect(status).to.equal(400)
      expect(messages).to.have.length(1)
      expect(messages[0].error.code).to.equal(-32_600)
      expect(messages[0].id).to.equal(null)
    })
  }

  it('a batch may contain the ids 1 and "1", and responses of the client with the ids of requests', async () => {
    const answer = { jsonrpc: '2.0', id: 1, result: {} }
    const { status, messages } = await ask(call('size', {}, 1), call('size', {}, '1'), answer)
    expect(status).to.equal(200)
    expect(messages.map(({ id }) => typeof id).sort()).to.deep.equal(['number', 'string'])
  })
})

describe('mcp: an unexpected exception', () => {
  for (const entryPoint of ENTRY_POINTS) {
    it(`an unexpected exception gets 500 and a JSON-RPC error from ${entryPoint.name}, and the next request is served`, async () => {
      const secret = 'a secret'
      const original = SdkHandler.prototype.handle
      const served = await entryPoint.serve({ router })
      try {
        SdkHandler.prototype.handle = () => {
          throw new Error(secret)
        }
        const { status, text: said, message } = await served.send(legacy(rpc('ping')))
        expect(status).to.equal(500)
        expect(message.error.code).to.equal(-32_603)
        expect(said).not.to.contain(secret)
        SdkHandler.prototype.handle = original
        expectOne(await served.send(legacy(rpc('ping'))), 200)
      } finally {
        SdkHandler.prototype.handle = original
        await served.close()
      }
    })
  }

  for (const [name, serve] of [
    ['mcpHandler on node:http', (adapter) => onNode(mcpHandler(adapter))],
    ['mcpHandler on Express', (adapter) => onExpress(mcpHandler(adapter))],
    ['the web-standard handler', async (adapter) => web(adapter.server)],
  ] as const satisfies readonly (readonly [string, (adapter: McpAdapter) => Promise<Served>])[]) {
    it(`an exception outside the protocol gets 500 and JSON from ${name}`, async () => {
      const adapter = createMcpAdapter({ router })
      const service = endpointOf(adapter)
      if (service === undefined) throw new Error('no service')
      service.respond = async () => {
        throw new Error('a secret')
      }
      const served = await serve(adapter)
      try {
        const { status, text: said } = await served.send(legacy(rpc('ping')))
        expect(status).to.equal(500)
        expect(said).to.equal('{"error":"server_error"}')
      } finally {
        await served.close()
      }
    })
  }
})

describe('mcp: every HTTP method', () => {
  for (const entryPoint of ENTRY_POINTS.filter(({ wire }) => wire)) {
    it(`every HTTP method gets a response from ${entryPoint.name}, and never a 5xx`, async () => {
      const served = await entryPoint.serve({ router })
      try {
        for (const method of METHODS) {
          if (method === 'CONNECT' || method === 'GET') continue // a tunnel, and a stream that stays open
          const { status } = await served.send({ ...legacy(rpc('ping')), method })
          expect(status, method).to.equal({ POST: 200, OPTIONS: 204 }[method] ?? 405)
        }
      } finally {
        await served.close()
      }
    })
  }
})
