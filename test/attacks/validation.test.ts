import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { onNode, type Served, web } from '../support/mcp/entry-points.ts'
import { legacy, modern, rpc } from '../support/mcp/wire.ts'
import { documentOf } from '../support/openapi/documents.ts'

const MAX_TEXT = 4_000
const MANY = 20_000
const many = <Value>(value: Value): Value[] => new Array(MANY).fill(value)
const manyKeys = Object.fromEntries(many(0).map((_, index) => [`key${index}`, index]))

const router = KitMcpRouter.create()
  .tool('list', { description: 'x', input: z.object({ texts: z.array(z.string()) }) }, () => 'x')
  .tool('strict', { description: 'x', input: z.strictObject({}) }, () => 'x')
  .tool('record', { description: 'x', input: z.object({ of: z.record(z.string(), z.string()) }) }, () => 'x')
  .tool(
    'promise',
    { description: 'x', output: z.object({ texts: z.array(z.string()) }) },
    () => ({ texts: many(1) }) as never,
  )
  .prompt(
    'list',
    {
      input: z.object({
        texts: z
          .string()
          .transform((text) => JSON.parse(text))
          .pipe(z.array(z.string())),
      }),
      complete: { texts: () => [] },
    },
    () => 'x',
  )

const factory = () => {
  const server = new McpServer({ name: 'own', version: '1' })
  server.registerTool('list', { inputSchema: z.object({ texts: z.array(z.string()) }) }, () => ({
    content: [],
  }))
  server.registerPrompt('list', { argsSchema: z.object({ texts: z.string() }) }, () => ({ messages: [] }))
  return server
}

const call = (name: string, args: object) => ['tools/call', { name, arguments: args }] as const

/** Resolves with the string that the client gets. */
function textOf(message: any): string {
  return message.error?.message ?? message.result.content[0].text
}

describe('hostile arguments', function () {
  this.timeout(60_000)
  let kit: Served
  let own: Served
  before(async () => {
    kit = await onNode(mcpHandler(createMcpAdapter({ router })))
    own = web(createMcpAdapter({ router: factory }).server)
  })
  after(async () => kit.close())

  const attacks: readonly (readonly [
    attack: string,
    request: readonly [method: string, params: Record<string, unknown>],
    text: RegExp,
  ])[] = [
    [
      'a tool gets 20,000 wrong elements',
      call('list', { texts: many(1) }),
      /^Invalid arguments for tool list: texts\.0: .*; and 19,980 more$/,
    ],
    ['a tool gets 20,000 wrong members', call('record', { of: manyKeys }), /; and 19,980 more$/],
    ['a tool gets 20,000 unknown members', call('strict', manyKeys), /…$/],
    [
      'a tool gets a wrong member with a name of 100,000 characters',
      call('record', { of: { ['k'.repeat(100_000)]: 1 } }),
      /k…: Invalid/,
    ],
    [
      'a tool gets 30 wrong members with names of 1,000 characters',
      call('record', {
        of: Object.fromEntries(
          Array.from({ length: 30 }, (_, index) => [`${index}${'k'.repeat(1_000)}`, index]),
        ),
      }),
      /; and 2\d more$/,
    ],
    ['a tool returns 20,000 wrong elements', call('promise', {}), /^The tool failed\. Reference/],
    [
      'a prompt gets 20,000 wrong elements',
      ['prompts/get', { name: 'list', arguments: { texts: JSON.stringify(many(1)) } }],
      /; and 19,980 more$/,
    ],
    [
      'a prompt gets 20,000 arguments that are not strings',
      ['prompts/get', { name: 'list', arguments: manyKeys }],
      /; and 19,98\d more$/,
    ],
    [
      'a completion gets 20,000 arguments that are not strings',
      [
        'completion/complete',
        {
          ref: { type: 'ref/prompt', name: 'list' },
          argument: { name: 'texts', value: '' },
          context: { arguments: manyKeys },
        },
      ],
      /; and 19,980 more$/,
    ],
  ]

  for (const [attack, [method, params], text] of attacks)
    for (const era of ['2025-11-25', '2026-07-28'] as const)
      it(`validation errors: ${attack} (${era}): at most 4,000 characters`, async () => {
        const name = params.name === undefined ? {} : { 'mcp-name': String(params.name) }
        const sent = era === '2025-11-25' ? legacy(rpc(method, params)) : modern(method, params, name)
        const { message } = await kit.send(sent)
        expect(textOf(message).length).to.be.at.most(MAX_TEXT)
        expect(textOf(message)).to.match(text)
        if (message.error !== undefined) expect(message.error.code).to.be.oneOf([-32_602, -32_603, -32_020])
      })

  it('validation errors: a tool has a name of 100,000 characters: an error that does not repeat it', async () => {
    const { message } = await kit.send(legacy(rpc(...call('k'.repeat(100_000), {}))))
    expect(message.error).to.deep.equal({
      code: -32_602,
      message: 'Invalid params: name must have at most 1024 characters',
    })
  })

  it('validation errors: 20,000 wrong icons in initialize: at most 4,000 characters', async () => {
    const clientInfo = { name: 'x', version: '1', icons: many(1) }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    const { message } = await kit.send(legacy(rpc('initialize', params)))
    expect(textOf(message)).to.match(/; and 19,980 more$/)
    expect(textOf(message).length).to.be.at.most(MAX_TEXT)
  })

  for (const [method, params] of [
    call('list', { texts: many(1) }),
    ['prompts/get', { name: 'list', arguments: manyKeys }] as const,
  ])
    it(`validation errors: a server of the SDK gets a ${method} with 20,000 wrong values: at most 4,000 characters`, async () => {
      for (const sent of [legacy(rpc(method, params)), modern(method, params)]) {
        const { message } = await own.send(sent)
        expect(textOf(message).length).to.be.at.most(MAX_TEXT)
        expect(textOf(message)).to.match(/and [\d,]+ more(?: characters)?$/)
      }
    })

  it('validation errors: a tool of an OpenAPI document gets 20,000 wrong elements: at most 4,000 characters', async () => {
    const content = { 'application/json': { schema: { type: 'array', items: { type: 'string' } } } }
    const tools = await toolsFromOpenApi(
      documentOf({
        '/a': {
          post: { operationId: 'a', requestBody: { content }, responses: { 200: { description: 'x' } } },
        },
      }),
      { app: (_req, res) => res.end() },
    )
    const { message } = await web(createMcpAdapter({ router: tools }).server).send(
      legacy(rpc(...call('a', { body: many(1) }))),
    )
    expect(message.result.isError).to.equal(true)
    expect(textOf(message).length).to.be.at.most(MAX_TEXT)
  })
})
