import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, KitToolError } from '../../../src/index.ts'
import { web } from '../../support/mcp/entry-points.ts'
import { call, legacy, modern } from '../../support/mcp/wire.ts'
import { recording } from '../../support/telemetry/recording.ts'

const GENERIC =
  /^The tool failed\. Reference: [0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Returns the result of a tool for a client, which must be the same in both eras. */
async function resultOf(router: KitMcpRouter<any>, args: Record<string, unknown> = {}): Promise<any> {
  const { send } = web(createMcpAdapter({ router }).server)
  const old = await send(legacy(call('tool', args)))
  const present = await send(modern('tools/call', { name: 'tool', arguments: args }))
  expect(old.status).to.equal(200)
  expect(present.status).to.equal(200)
  const { resultType, _meta, ...result } = present.message.result
  expect(resultType).to.equal('complete')
  expect(withoutReference(result)).to.deep.equal(withoutReference(old.message.result))
  return result
}

const withoutReference = (result: unknown): unknown =>
  JSON.parse(JSON.stringify(result).replace(/Reference: [0-9a-f-]{36}/, 'Reference: …'))

const returning = (value: unknown, output?: z.ZodType): KitMcpRouter =>
  KitMcpRouter.create().tool('tool', { description: 'x', ...(output && { output }) }, () => value as never)

const throwing = (error: unknown): KitMcpRouter =>
  KitMcpRouter.create().tool('tool', { description: 'x' }, () => {
    throw error
  })

const text = (value: string) => [{ type: 'text', text: value }]

describe('mcp: results of tools', () => {
  for (const [title, result, problem] of [
    ['a text block without a text', { content: [{ type: 'text' }] }, 'content'],
    ['an isError that is a word', { content: [], isError: 'yes' }, 'isError'],
    ['invalid base64', { content: [{ type: 'image', data: '%', mimeType: 'image/png' }] }, 'content.0.data'],
    ['metadata that is not an object', { content: [], _meta: 'x' }, '_meta'],
  ] as const) {
    it(`${title} in a result of a tool is an error of the tool, not of the client`, async () => {
      const { content, isError } = await resultOf(returning(result))
      expect(isError).to.equal(true)
      expect(content[0].text).to.match(GENERIC)
      const { builder, events } = recording()
      const { send } = web(createMcpAdapter({ router: returning(result), telemetry: builder.build() }).server)
      await send(legacy(call('tool')))
      const failed = events().find(({ name }) => name === 'kit.mcp.tool.failed')
      expect(failed?.error?.message).to.match(/^Tool tool returned an invalid MCP result: /)
      expect(failed?.error?.message).to.contain(problem)
    })
  }

  for (const value of [
    { content: [{ type: 'paragraph', text: 'x' }] },
    { content: ['x'] },
    { content: [], more: 1 },
  ]) {
    it(`the value ${JSON.stringify(value)} of a tool is sent as text`, async () => {
      expect(await resultOf(returning(value))).to.deep.include({ content: text(JSON.stringify(value)) })
    })
  }

  it('a result with all members of MCP is sent unchanged', async () => {
    const result = {
      content: [
        { type: 'text', text: 'a', annotations: { audience: ['user'], priority: 0.5 } },
        { type: 'image', data: 'AAAA', mimeType: 'image/png' },
        { type: 'resource_link', uri: 'notes://a', name: 'a' },
        { type: 'resource', resource: { uri: 'notes://a', text: 'x' } },
      ],
    }
    expect(await resultOf(returning(result))).to.deep.equal(result)
  })

  for (const [title, value, content] of [
    ['a string as text', 'plain "text"', text('plain "text"')],
    ['an empty string as text', '', text('')],
    ['an object as JSON', { a: [1, null] }, text('{"a":[1,null]}')],
    ['an array as JSON', [1, 2], text('[1,2]')],
    ['a number as JSON', 5, text('5')],
    ['false as JSON', false, text('false')],
    ['null as JSON', null, text('null')],
    ['a Date as JSON', new Date(0), text('"1970-01-01T00:00:00.000Z"')],
    ['nothing as no content', undefined, []],
    ['an object that only has a content', { content: 'chapter' }, text('{"content":"chapter"}')],
    [
      'an object with content blocks and something else',
      { content: [{ type: 'text', text: 'x' }], page: 1 },
      text('{"content":[{"type":"text","text":"x"}],"page":1}'),
    ],
  ] as const) {
    it(`a handler that returns ${title} gets it sent`, async () => {
      expect(await resultOf(returning(value))).to.deep.equal({ content })
    })
  }

  it('a complete MCP result is sent unchanged', async () => {
    const result = {
      content: [
        { type: 'text', text: 'a' },
        { type: 'image', data: 'aGk=', mimeType: 'image/png' },
      ],
      isError: true,
    }
    expect(await resultOf(returning(result))).to.deep.equal(result)
  })

  it('_meta of a complete result is sent', async () => {
    const { send } = web(createMcpAdapter({ router: returning({ content: [], _meta: { 'a/b': 1 } }) }).server)
    const { message } = await send(legacy(call('tool')))
    expect(message.result).to.deep.equal({ content: [], _meta: { 'a/b': 1 } })
  })

  for (const value of [() => 1, Symbol('x'), 5n]) {
    it(`a ${typeof value} is not sent, because it is not a JSON value`, async () => {
      const result = await resultOf(returning(value))
      expect(result.isError).to.equal(true)
      expect(result.content[0].text).to.match(GENERIC)
    })
  }

  it('a circular object is not sent', async () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    expect((await resultOf(returning(circular))).content[0].text).to.match(GENERIC)
  })

  describe('with an output schema', () => {
    const output = z.object({ sum: z.number(), note: z.string().default('none') })

    it('an output schema makes text and structuredContent of its parsed value', async () => {
      expect(await resultOf(returning({ sum: 3, secret: 'x' }, output))).to.deep.equal({
        content: text('{"sum":3,"note":"none"}'),
        structuredContent: { sum: 3, note: 'none' },
      })
    })
    it('an asynchronous output schema is awaited', async () => {
      const later = z.object({ sum: z.number() }).refine(async ({ sum }) => sum > 0)
      expect((await resultOf(returning({ sum: 3 }, later))).structuredContent).to.deep.equal({ sum: 3 })
      expect((await resultOf(returning({ sum: -3 }, later))).isError).to.equal(true)
    })
    for (const value of [{ sum: '3' }, 'text', undefined, null, { content: [] }]) {
      it(`${JSON.stringify(value)} does not match the output schema and is not sent, nor are its problems`, async () => {
        const result = await resultOf(returning(value, output))
        expect(result).to.have.all.keys('content', 'isError')
        expect(result.isError).to.equal(true)
        expect(result.content[0].text).to.match(GENERIC)
      })
    }
    it('the structuredContent of a complete result is validated, and its content is kept', async () => {
      const whole = { content: text('three'), structuredContent: { sum: 3 } }
      expect(await resultOf(returning(whole, output))).to.deep.equal({
        content: text('three'),
        structuredContent: { sum: 3, note: 'none' },
      })
    })
    it('a complete result with isError is not validated', async () => {
      const whole = { content: text('no'), isError: true }
      expect(await resultOf(returning(whole, output))).to.deep.equal(whole)
    })
  })

  describe('arguments', () => {
    const router = KitMcpRouter.create().tool(
      'tool',
      {
        description: 'x',
        input: z.object({
          n: z.coerce.number().int(),
          tags: z.array(z.object({ name: z.string() })).optional(),
        }),
      },
      (args) => args,
    )
    it('arguments are the parsed value of the schema', async () => {
      expect((await resultOf(router, { n: '5', more: 1 })).content).to.deep.equal(text('{"n":5}'))
    })
    it('invalid arguments are reported with their paths', async () => {
      const result = await resultOf(router, { n: 1.5, tags: [{ name: 1 }] })
      expect(result.isError).to.equal(true)
      expect(result.content[0].text)
        .to.match(/^Invalid arguments for tool tool: n: /)
        .and.contain('; tags.0.name: ')
    })
    it('a tool without a schema gets no arguments', async () => {
      const none = KitMcpRouter.create().tool('tool', { description: 'x' }, (args) => args)
      expect((await resultOf(none, { n: 5 })).content).to.deep.equal(text('{}'))
    })
    it('arguments may be left out', async () => {
      const { send } = web(createMcpAdapter({ router: returning('x') }).server)
      const { message } = await send(legacy({ ...call('tool'), params: { name: 'tool' } }))
      expect(message.result.content).to.deep.equal(text('x'))
    })
    it('arguments that are invalid as a whole are reported without a path', async () => {
      const strict = KitMcpRouter.create().tool(
        'tool',
        { description: 'x', input: z.object({}).refine(() => false, 'never') },
        () => 'x',
      )
      expect((await resultOf(strict)).content).to.deep.equal(text('Invalid arguments for tool tool: never'))
    })
  })

  describe('errors', () => {
    it('the client receives the message of a KitToolError', async () => {
      const result = await resultOf(
        throwing(new KitToolError('no such note', { cause: new Error('secret') })),
      )
      expect(result).to.deep.equal({ content: text('no such note'), isError: true })
    })
    it('the client receives the message of a KitToolError of another copy of the package', async () => {
      const foreign = Object.assign(new Error('foreign'), { [Symbol.for('mcp-gatekit.KitToolError')]: true })
      expect((await resultOf(throwing(foreign))).content).to.deep.equal(text('foreign'))
    })
  })

  it('log and progress never reject, even without a client', async () => {
    const router = KitMcpRouter.create().tool('tool', { description: 'x' }, async (_args, context) => {
      await context.progress(1)
      await context.log('info', 'x')
      await context.log('info', circular)
      return 'done'
    })
    const circular: { self?: unknown } = {}
    circular.self = circular
    expect((await resultOf(router)).content).to.deep.equal(text('done'))
  })
})
