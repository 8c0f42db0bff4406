import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client'
import { inputRequired } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { KitMcpRouter, mcpHandler } from '../../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../../src/mcp/adapter.ts'
import { WITH_TASKS } from '../../support/mcp/tasks.ts'
import { type Listening, listen, MODERN, modern, send } from '../../support/mcp/wire.ts'

const ASK = { type: 'object' as const, properties: { name: { type: 'string' as const } } }

const router = KitMcpRouter.create()
  .tool('job', { description: 'x', task: 'optional', pollIntervalMs: 5 }, () => 'done')
  .tool('asks', { description: 'x', task: 'optional', pollIntervalMs: 5 }, (_args, context) => {
    const { name } = context.inputResponses as { name?: { content?: { name?: string } } }
    return name === undefined
      ? context.inputRequired({ name: inputRequired.elicit({ message: 'Name?', requestedSchema: ASK }) })
      : `Hello, ${name.content?.name}`
  })

describe('mcp/tasks: the client of the extension', () => {
  let adapter: McpAdapter
  let server: Listening
  let client: Client

  beforeEach(async () => {
    adapter = createMcpAdapter({ router })
    server = await listen(mcpHandler(adapter))
    client = new Client(
      { name: 'test', version: '1' },
      { capabilities: WITH_TASKS as never, versionNegotiation: { mode: { pin: MODERN } } },
    )
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.origin}/mcp`)))
  })
  afterEach(async () => {
    await client.close()
    await adapter.tasks.close()
    await server.close()
  })

  for (const [name, text] of [
    ['job', 'done'],
    ['asks', 'Hello, Ada'],
  ] as const) {
    it(`the official client of the extension follows a task of the tool ${name} to its result`, async () => {
      const methods: string[] = []
      const session = createTaskSessionFromClient(client, {
        endpointId: 'test',
        onInputRequest: async () => ({ action: 'accept', content: { name: 'Ada' } }) as never,
        v2RequestFraming: {
          protocolVersion: MODERN,
          clientInfo: { name: 'test', version: '1' },
          clientCapabilities: WITH_TASKS,
        },
        rawDispatch: async (request) => {
          const { method, params } = request as { method: string; params: Record<string, unknown> }
          methods.push(method)
          const { taskId } = params
          const headers = typeof taskId === 'string' ? { 'mcp-name': taskId } : {}
          const { message } = await send(server.port, modern(method, params, headers))
          return 'error' in message
            ? { kind: 'error', error: message.error }
            : { kind: 'result', result: message.result }
        },
      })
      const execution = await session.callTool(name, {})
      const { outcome } = await execution.settle()
      const result = resultFromTaskOutcome(outcome) as { content?: { text?: string }[] }
      await session.close()
      expect(result.content?.[0]?.text).to.equal(text)
      expect(methods).to.include('tasks/get')
    })
  }
})
