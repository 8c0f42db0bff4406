import { fromJsonSchema, McpServer } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type as arktype } from 'arktype'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, type McpAdapterOptions, serveStdio } from '../../../../src/index.ts'
import { createMcpAdapter, KitMcpServer } from '../../../../src/mcp/adapter.ts'
import { expectConfigError } from '../../../support/config-error.ts'
import { CALL_MODES, responseIn } from '../../../support/mcp/call-modes.ts'
import { type Served, web } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { TaskClient } from '../../../support/mcp/tasks.ts'
import { bearer, call, legacy, modern, rpc } from '../../../support/mcp/wire.ts'

const INVALID = 'MCP_CONFIG_INVALID_OPTION'

const json = (schema: object) =>
  fromJsonSchema({ type: 'object', properties: { a: { type: 'string' } }, ...schema } as never)

const A = { a: z.string().optional() }

/** Schemas whose unknown members are rejected. */
const CLOSED: Readonly<Record<string, StandardSchemaV1 | undefined>> = {
  'z.object': z.object(A),
  'z.object with a refinement': z.object(A).refine(() => true),
  'z.object with an asynchronous refinement': z.object(A).refine(async () => true),
  'z.object with a transform': z.object(A).transform(({ a }) => a),
  'z.strictObject': z.strictObject(A),
  ArkType: arktype({ 'a?': 'string' }),
  'a JSON Schema': json({}),
  'no schema': undefined,
}

/** Schemas that decide about unknown members themselves, with what they list. */
const OPEN: Readonly<Record<string, [schema: StandardSchemaV1, listed: object]>> = {
  'z.looseObject': [z.looseObject(A), { additionalProperties: {} }],
  'z.object with a catchall': [
    z.object(A).catchall(z.number()),
    { additionalProperties: { type: 'number' } },
  ],
  'z.record': [z.record(z.string(), z.number()), { additionalProperties: { type: 'number' } }],
  'a JSON Schema with additionalProperties': [
    json({ additionalProperties: true }),
    { additionalProperties: true },
  ],
  'a JSON Schema with unevaluatedProperties': [
    json({ unevaluatedProperties: true, anyOf: [{}] }),
    { unevaluatedProperties: true },
  ],
  'a JSON Schema with patternProperties': [
    json({ patternProperties: { '^b': { type: 'number' } } }),
    { patternProperties: { '^b': { type: 'number' } } },
  ],
}

/** Schemas that are composed of several. */
const COMPOSED: Readonly<Record<string, [schema: StandardSchemaV1, keyword: string]>> = {
  'a union': [z.union([z.object(A), z.object({ b: z.string() })]), 'anyOf'],
  'a discriminated union': [
    z.discriminatedUnion('t', [z.object({ t: z.literal(1) }), z.object({ t: z.literal(2) })]),
    'oneOf',
  ],
  'an intersection of a loose object': [json({ allOf: [{ properties: { b: {} } }] }), 'allOf'],
  'a reference': [z.object(A).meta({ id: 'ClosedInputs' }), '$ref'],
  'a condition': [json({ if: {}, else: { properties: { b: {} } } }), 'if'],
}

/** Every schema as a tool, whose result is its arguments. */
function toolsOf(schemas: Readonly<Record<string, StandardSchemaV1 | undefined>>): KitMcpRouter<any> {
  return Object.values(schemas).reduce<KitMcpRouter<any>>(
    (router, input, index) =>
      router.tool(`tool${index}`, { description: 'x', ...(input && { input: input as never }) }, (args) => ({
        args,
      })),
    KitMcpRouter.create(),
  )
}

const textOf = (message: any): string => message.result.content[0].text

async function called(
  schemas: Readonly<Record<string, StandardSchemaV1 | undefined>>,
  index: number,
  args: Record<string, unknown>,
  options: Partial<McpAdapterOptions> = { unknownArguments: 'reject' },
) {
  const { server } = createMcpAdapter({ router: toolsOf(schemas), ...options })
  const { message } = await web(server).send(legacy(call(`tool${index}`, args)))
  return { isError: message.result.isError === true, text: textOf(message) }
}

async function listed(served: Served): Promise<any[]> {
  const { message } = await served.send(modern('tools/list', {}, bearer('reader')))
  return message.result.tools
}

describe('unknownArguments', () => {
  describe("with 'reject'", () => {
    for (const [index, name] of Object.keys(CLOSED).entries()) {
      it(`${name}: an argument that the schema does not name is an issue, and the list says so`, async () => {
        const refused = await called(CLOSED, index, { b: 1 })
        expect(refused.isError, refused.text).to.equal(true)
        expect(refused.text).to.match(new RegExp(`^Invalid arguments for tool tool${index}: .*\\bb\\b`))
        expect(await called(CLOSED, index, {})).to.include({ isError: false })
        if (CLOSED[name] !== undefined)
          expect(await called(CLOSED, index, { a: 'x' })).to.include({ isError: false })
        const { server } = createMcpAdapter({ router: toolsOf(CLOSED), unknownArguments: 'reject' })
        const [tool] = (await listed(web(server))).slice(index)
        expect(tool.inputSchema.additionalProperties).to.equal(false)
        expect(tool.inputSchema.type).to.equal('object')
      })
    }

    for (const [index, [name, [, schema]]] of Object.entries(OPEN).entries()) {
      const schemas = Object.fromEntries(Object.entries(OPEN).map(([key, [open]]) => [key, open]))
      it(`${name}, which allows more, is left alone`, async () => {
        expect(await called(schemas, index, { b: 1 })).to.include({ isError: false })
        const { server } = createMcpAdapter({ router: toolsOf(schemas), unknownArguments: 'reject' })
        const [tool] = (await listed(web(server))).slice(index)
        expect(tool.inputSchema).to.include.all.keys(...Object.keys(schema))
        for (const [keyword, value] of Object.entries(schema))
          expect(tool.inputSchema[keyword]).to.deep.equal(value)
        if (!('additionalProperties' in schema))
          expect(tool.inputSchema).not.to.have.key('additionalProperties')
      })
    }

    for (const [name, [input, keyword]] of Object.entries(COMPOSED))
      it(`${name} at the top level of a schema is a configuration error that names the tool`, () => {
        const router = KitMcpRouter.create().tool(
          'composed',
          { description: 'x', input: input as never },
          () => '',
        )
        for (const build of [
          () => createMcpAdapter({ router, unknownArguments: 'reject' }),
          () => KitMcpServer.create().router(router).withOptions({ unknownArguments: 'reject' }).build(),
          () => serveStdio(router, { unknownArguments: 'reject' }),
        ])
          expectConfigError(build, {
            code: INVALID,
            option: 'unknownArguments',
            message: new RegExp(
              `tool 'composed', whose input has \\${keyword} at the top level.*additionalProperties`,
            ),
          })
        expect(() => createMcpAdapter({ router, unknownArguments: 'ignore' })).not.to.throw()
      })

    for (const mode of CALL_MODES)
      it(`${mode.name}: the result lists the unknown arguments with the other issues`, async () => {
        const router = KitMcpRouter.create()
          .tool('add', { description: 'x', input: z.object({ n: z.number() }) }, ({ n }) => `${n + 1}`)
          .prompt('ask', { description: 'x', input: z.object({ n: z.string() }) }, ({ n }) => n)
        const served = await mode.serve({ router, oauth: oauth(), unknownArguments: 'reject' })
        const send = async (method: string, params?: Record<string, unknown>) =>
          responseIn(await mode.send(served, method, params))
        try {
          const { result } = await send('tools/call', { name: 'add', arguments: { n: 'x', m: 1, o: 2 } })
          expect(result.isError).to.equal(true)
          expect(result.content[0].text).to.match(
            /^Invalid arguments for tool add: m: Unknown argument; o: Unknown argument; n: /,
          )
          expect(textOf(await send('tools/call', { name: 'add', arguments: { n: 1 } }))).to.equal('2')
          const [tool] = (await send('tools/list')).result.tools
          expect(tool.inputSchema).to.deep.include({ additionalProperties: false, required: ['n'] })
          const prompt = await send('prompts/get', { name: 'ask', arguments: { n: 'x', m: 'y' } })
          expect(prompt.result.messages).to.have.length(1)
        } finally {
          await served.close()
        }
      })

    it('names of members that every object inherits are unknown arguments', async () => {
      const { text } = await called(CLOSED, 0, { constructor: 1, toString: 2 })
      expect(text).to.equal(
        'Invalid arguments for tool tool0: constructor: Unknown argument; toString: Unknown argument',
      )
    })

    it('at most 20 unknown arguments are listed, each shortened', async () => {
      const args = Object.fromEntries(
        Array.from({ length: 1_000 }, (_, index) => [`${'x'.repeat(900)}${index}`, 1]),
      )
      const { text } = await called(CLOSED, 0, args)
      expect(text).to.match(/; and 99\d more$/)
      expect(text.length).to.be.at.most(4_000)
    })

    it('a JSON Schema that rejects unknown members itself is left alone', async () => {
      const closed = { closed: json({ additionalProperties: false }) }
      expect(await called(closed, 0, { b: 1 })).to.include({ isError: true })
      expect(await called(closed, 0, { a: 'x' })).to.include({ isError: false })
    })

    it('members below the top level are left to the schema', async () => {
      const nested = { nested: z.object({ in: z.object({ x: z.number() }) }) }
      const { isError, text } = await called(nested, 0, { in: { x: 1, y: 2 } })
      expect({ isError, text }).to.deep.equal({ isError: false, text: '{"args":{"in":{"x":1}}}' })
    })

    it('a policy is not asked about a call with unknown arguments', async () => {
      const asked: unknown[] = []
      const { server } = createMcpAdapter({
        router: toolsOf(CLOSED),
        unknownArguments: 'reject',
        authorize: ({ args }) => asked.push(args) > 0,
      })
      const { message } = await web(server).send(legacy(call('tool0', { b: 1 })))
      expect(textOf(message)).to.equal('Invalid arguments for tool tool0: b: Unknown argument')
      expect(asked).to.deep.equal([])
    })

    it('a call with unknown arguments does not become a task', async () => {
      const router = KitMcpRouter.create().tool(
        'add',
        { description: 'x', task: 'optional', input: z.object({ n: z.number() }) },
        ({ n }) => `${n + 1}`,
      )
      const client = new TaskClient(web(createMcpAdapter({ router, unknownArguments: 'reject' }).server))
      const refused = await client.call('add', { n: 1, m: 1 })
      expect(refused.content[0].text).to.equal('Invalid arguments for tool add: m: Unknown argument')
      expect(await client.call('add', { n: 1 })).to.include({ resultType: 'task' })
    })

    it('it works together with limits, security schemes, and listOnlyPermitted', async () => {
      const { server } = createMcpAdapter({
        router: toolsOf(CLOSED),
        oauth: oauth({ securitySchemes: true }),
        unknownArguments: 'reject',
        listOnlyPermitted: true,
        limits: { timeoutMs: 60_000 },
      })
      const [tool] = await listed(web(server))
      expect(tool.inputSchema.additionalProperties).to.equal(false)
      expect(tool._meta.securitySchemes).to.have.length(1)
      const { message } = await web(server).send(legacy(call('tool0', { b: 1 }), bearer('reader')))
      expect(textOf(message)).to.contain('b: Unknown argument')
    })

    it('another adapter of the same router still ignores unknown arguments', async () => {
      const router = toolsOf({ closed: z.object(A) })
      createMcpAdapter({ router, unknownArguments: 'reject' })
      const { server } = createMcpAdapter({ router })
      const [tool] = await listed(web(server))
      expect(tool.inputSchema).not.to.have.key('additionalProperties')
    })

    it('a router function is a configuration error', () => {
      const router = () => new McpServer({ name: 'x', version: '1' })
      expectConfigError(() => createMcpAdapter({ router, unknownArguments: 'reject' }), {
        code: INVALID,
        option: 'unknownArguments',
        message: /only with a KitMcpRouter; a router function must reject unknown arguments itself/,
      })
      expect(() => createMcpAdapter({ router, unknownArguments: 'ignore' })).not.to.throw()
    })
  })

  it('unknown arguments are ignored by default', async () => {
    for (const options of [{ unknownArguments: 'ignore' }, { unknownArguments: undefined }, {}] as const)
      expect(await called({ open: z.object(A) }, 0, { a: 'x', b: 1 }, options)).to.deep.equal({
        isError: false,
        text: '{"args":{"a":"x"}}',
      })
  })

  it('a request of tools/list of a router without tools is served', async () => {
    const { server } = createMcpAdapter({ router: KitMcpRouter.create(), unknownArguments: 'reject' })
    const { message } = await web(server).send(legacy(rpc('tools/list')))
    expect(message.result.tools).to.deep.equal([])
  })
})
