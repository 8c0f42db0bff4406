import type { CallToolResult } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { z } from 'zod'
import { type AuthInfo, type KitContext, KitMcpConfigError, type ToolHandler } from '../../../src/index.ts'
import { createMcpAdapter, KitMcpServer } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter, tableOf } from '../../../src/mcp/router/router.ts'
import { configError } from '../../support/mcp/config-error.ts'
import { web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, legacy, modern, rpc } from '../../support/mcp/wire.ts'

const definitionsOf = (router: KitMcpRouter<any>) =>
  [...tableOf(router).tools.values()].map(({ definition }) => definition)

const namesOf = (router: KitMcpRouter<any>): string[] => definitionsOf(router).map(({ name }) => name)

const tool = (
  name: unknown,
  config: object | undefined = { description: 'x' },
  handler: unknown = () => 'x',
) => KitMcpRouter.create().tool(name as string, config as { description: string }, handler as () => string)

/** A Standard Schema with JSON Schemas, hand-made, that counts its conversions. */
function countedSchema(json: Record<string, unknown> = { type: 'object' }) {
  const counted = { conversions: 0 }
  const convert = () => {
    counted.conversions++
    return json
  }
  const schema = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: convert, output: convert },
    },
  } as const
  return { counted, schema: schema satisfies StandardSchemaV1 }
}

describe('mcp: KitMcpRouter', () => {
  describe('types', () => {
    it('arguments have the output type of the input schema', () => {
      KitMcpRouter.create().tool(
        'a',
        { description: 'x', input: z.object({ n: z.coerce.number(), s: z.string().default('d') }) },
        (args) => {
          expectTypeOf(args).toEqualTypeOf<{ n: number; s: string }>()
          return ''
        },
      )
      KitMcpRouter.create().tool('a', { description: 'x' }, (args) => {
        expectTypeOf(args).toEqualTypeOf<Record<string, never>>()
        return ''
      })
    })

    it('results must match the output schema, or be a complete MCP result', () => {
      const output = z.object({ sum: z.number() })
      const router = KitMcpRouter.create()
      router.tool('a', { description: 'x', output }, () => ({ sum: 1 }))
      router.tool('a', { description: 'x', output }, async () => ({ sum: 1 }))
      router.tool('a', { description: 'x', output }, (): CallToolResult => ({ content: [] }))
      // @ts-expect-error a member of the output schema is missing
      router.tool('a', { description: 'x', output }, () => ({ total: 1 }))
      // @ts-expect-error the schema wants a number
      router.tool('a', { description: 'x', output }, () => ({ sum: '1' }))
      // @ts-expect-error nothing is returned
      router.tool('a', { description: 'x', output }, () => undefined)
    })

    it('results of an output schema have the types of the literals that a handler returns', () => {
      const [output, input] = [
        z.object({ kind: z.enum(['a', 'b']), tags: z.array(z.string()) }),
        z.object({ n: z.number() }),
      ]
      const router = KitMcpRouter.create()
      router.tool('a', { description: 'x', output }, () => ({ kind: 'a', tags: ['x'] }))
      router.tool('a', { description: 'x', output }, async () => ({ kind: 'b', tags: [] }))
      router.tool('a', { description: 'x', output, input }, async ({ n }) =>
        n > 1
          ? { kind: 'a', tags: [] }
          : { content: [{ type: 'text', text: n.toFixed() }], structuredContent: { n }, isError: true },
      )
      router.tool('a', { description: 'x', output }, () => ({ content: [{ type: 'text', text: 'x' }] }))
      router.tool('a', { description: 'x', output }, (_args, context) => context.inputRequired({}, 1))
      const handler: ToolHandler<unknown, undefined, typeof output> = async () => ({ kind: 'a', tags: [] })
      router.tool('a', { description: 'x', output }, handler)
      const counted = z.object({ count: z.number().default(1) })
      router.tool('a', { description: 'x', output: counted }, () => ({}))
      // @ts-expect-error a default stands for what is not there
      router.tool('a', { description: 'x', output: counted }, () => ({ count: null }))
      // @ts-expect-error the kind does not exist
      router.tool('a', { description: 'x', output }, () => ({ kind: 'c', tags: [] }))
      // @ts-expect-error nor such content
      router.tool('a', { description: 'x', output }, () => ({ content: [{ type: 'txt', text: 'x' }] }))
      // @ts-expect-error a number is not a result
      router.tool('a', { description: 'x', output }, async () => 5)
    })

    it('handlers and verifyToken get the type that .context() returns', () => {
      const router = KitMcpRouter.create().context(async ({ request }) => {
        expectTypeOf(request).toEqualTypeOf<Request>()
        return { db: 'notes' as const }
      })
      expectTypeOf(router).toEqualTypeOf<KitMcpRouter<{ db: 'notes' }>>()
      router.tool('a', { description: 'x' }, (_args, context) => {
        expectTypeOf(context).toEqualTypeOf<KitContext<{ db: 'notes' }>>()
        expectTypeOf(context.context).toEqualTypeOf<{ db: 'notes' }>()
        expectTypeOf(context.auth).toEqualTypeOf<AuthInfo<any> | undefined>()
        expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>()
        // @ts-expect-error the level does not exist
        void context.log('loud', 'x')
        return ''
      })
      KitMcpServer.create()
        .router(router)
        .withOAuth({
          issuer: 'https://auth.example.com',
          verifyToken: ({ context, bearerToken }) => {
            expectTypeOf(context.context).toEqualTypeOf<{ db: 'notes' }>()
            expectTypeOf(bearerToken).toEqualTypeOf<string | undefined>()
            return undefined
          },
          onVerified: ({ context }) => {
            expectTypeOf(context.context).toEqualTypeOf<{ db: 'notes' }>()
          },
        })
      createMcpAdapter({
        router,
        oauth: {
          issuer: 'https://auth.example.com',
          verifyToken: ({ context }) => {
            expectTypeOf(context.context).toEqualTypeOf<{ db: 'notes' }>()
            return undefined
          },
        },
      })
      const verifyToken = (_input: { context: { context: { other: string } } }) => undefined
      // @ts-expect-error the verifier wants a context of another type
      KitMcpServer.create().router(router).withOAuth({ issuer: 'https://auth.example.com', verifyToken })
    })

    it('.context() must return the type given to create()', () => {
      interface App {
        db: string
        user?: { id: string }
      }
      const router = KitMcpRouter.create<App>().context(() => ({ db: 'notes' }))
      expectTypeOf(router).toEqualTypeOf<KitMcpRouter<App>>()
      // @ts-expect-error this is no App
      KitMcpRouter.create<App>().context(() => ({ data: 'notes' }))
    })

    it('a tool without a description does not compile', () => {
      // @ts-expect-error models choose tools by their description
      expect(() => KitMcpRouter.create().tool('a', {}, () => '')).to.throw(KitMcpConfigError)
    })
  })

  describe('immutability', () => {
    const base = tool('a')

    it('tool() returns a new router and does not change the previous one', () => {
      const more = base.tool('b', { description: 'x' }, () => 'x')
      expect(more).not.to.equal(base)
      expect(namesOf(base)).to.deep.equal(['a'])
      expect(namesOf(more)).to.deep.equal(['a', 'b'])
    })

    it('branches of a router do not affect each other', () => {
      const left = base.tool('left', { description: 'x' }, () => 'x')
      const right = base
        .tool('right', { description: 'x' }, () => 'x')
        .tool('left', { description: 'y' }, () => 'y')
      const deeper = left.tool('right', { description: 'x' }, () => 'x')
      expect(namesOf(base)).to.deep.equal(['a'])
      expect(namesOf(left)).to.deep.equal(['a', 'left'])
      expect(namesOf(right)).to.deep.equal(['a', 'right', 'left'])
      expect(namesOf(deeper)).to.deep.equal(['a', 'left', 'right'])
      expect(tableOf(right).tools.get('left')?.definition.description).to.equal('y')
    })

    it('branches of a router have separate contexts', () => {
      const one = () => ({ n: 1 })
      const two = () => ({ n: 2 })
      const [first, second] = [base.context(one), base.context(two)]
      expect(tableOf(first).makeContext).to.equal(one)
      expect(tableOf(second).makeContext).to.equal(two)
      expect(tableOf(base).makeContext).to.equal(undefined)
    })

    it('the router copies its configuration', async () => {
      const annotations = { readOnlyHint: true }
      const scopes = ['mcp:write']
      const config = { description: 'before', annotations, scopes }
      const router = tool('a', config)
      config.description = 'after'
      annotations.readOnlyHint = false
      scopes.pop()
      const entry = tableOf(router).tools.get('a')
      expect(entry?.definition).to.deep.include({
        description: 'before',
        annotations: { readOnlyHint: true },
      })
      expect(entry?.scopes).to.deep.equal(['mcp:write'])
    })
  })

  describe('wrong use', () => {
    for (const name of ['', ' ', 'a b', 'ä', 'a/b', 'a'.repeat(129), undefined, 5, Symbol('a')]) {
      it(`an invalid name is rejected: ${String(name).slice(0, 20)}`, () => {
        const error = configError(() => tool(name))
        expect(error).to.include({ code: 'MCP_CONFIG_INVALID_OPTION', option: 'tool' })
        expect(error.message).to.contain('1 to 128')
      })
    }
    for (const name of ['a', 'a.b-c_D9', 'a'.repeat(128), 'constructor', '__proto__']) {
      it(`a valid name is accepted: ${name.slice(0, 20)}`, () =>
        expect(namesOf(tool(name))).to.deep.equal([name]))
    }
    it('a name that is already registered is rejected', () => {
      const error = configError(() => tool('a').tool('a', { description: 'x' }, () => 'x'))
      expect(error.message).to.equal(
        `tool 'a' is already registered. Choose another name. Run "npx mcp-gatekit explain kitmcprouter" for help.`,
      )
    })
    it('a router can be used after a rejected tool', () => {
      const router = tool('a')
      configError(() => router.tool('b', { description: '' }, () => 'x'))
      expect(namesOf(router.tool('b', { description: 'x' }, () => 'x'))).to.deep.equal(['a', 'b'])
    })
    it('a schema without a JSON Schema is rejected', () => {
      const input = {
        '~standard': { version: 1, vendor: 'plain', validate: (value: unknown) => ({ value }) },
      }
      const error = configError(() => tool('a', { description: 'x', input }))
      expect(error.message).to.contain("This version of 'plain' does not")
    })
    it('a schema that cannot be converted into a JSON Schema is rejected', () => {
      const error = configError(() => tool('a', { description: 'x', output: z.object({ at: z.date() }) }))
      expect(error.option).to.equal("output of tool 'a'")
      expect(error.message).to.contain('cannot be converted into a JSON Schema')
    })
    it('a union of objects is accepted as input', () => {
      const input = z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('a') }),
        z.object({ kind: z.literal('b') }),
      ])
      expect(definitionsOf(tool('a', { description: 'x', input }))[0]?.inputSchema.type).to.equal('object')
    })
  })

  describe('what is computed once', () => {
    it('every schema is converted once', async () => {
      const input = countedSchema()
      const output = countedSchema()
      const router = tool('a', { description: 'x', input: input.schema, output: output.schema }, () => ({}))
      const served = web(createMcpAdapter({ router }).server)
      createMcpAdapter({ router })
      for (let turn = 0; turn < 3; turn++) {
        await served.send(legacy(rpc('tools/list')))
        await served.send(modern('tools/call', { name: 'a', arguments: {} }))
      }
      expect(input.counted.conversions).to.equal(1)
      expect(output.counted.conversions).to.equal(1)
    })

    it('every request gets the same frozen definitions', async () => {
      let router = KitMcpRouter.create()
      for (let index = 0; index < 1000; index++)
        router = router.tool(`tool-${index}`, { description: 'x', scopes: ['mcp:read'] }, () => `${index}`)
      const before = definitionsOf(router)
      const served = web(createMcpAdapter({ router, oauth: oauth() }).server)
      const lists = []
      for (let turn = 0; turn < 2; turn++)
        lists.push((await served.send(legacy(rpc('tools/list'), bearer('reader')))).message.result.tools)
      expect(lists[0]).to.have.length(1000)
      expect(lists[1]).to.deep.equal(lists[0])
      const after = definitionsOf(router)
      expect(before.every((definition, index) => definition === after[index])).to.equal(true)
      expect(before.every((definition) => Object.isFrozen(definition))).to.equal(true)
      const call = await served.send(legacy(rpc('tools/call', { name: 'tool-999' }), bearer('reader')))
      expect(call.message.result.content[0].text).to.equal('999')
    })
  })

  describe('listOnlyPermitted', () => {
    const router = KitMcpRouter.create()
      .tool('read', { description: 'x' }, () => 'x')
      .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
      .tool('wipe', { description: 'x', scopes: ['mcp:write', 'mcp:admin'] }, () => 'x')
    const options = oauth({ scopeImplies: { 'mcp:admin': ['mcp:write'] } })
    const listed = async (token: string, listOnlyPermitted?: boolean) => {
      const { server } = createMcpAdapter({
        router,
        oauth: options,
        ...(listOnlyPermitted !== undefined && { listOnlyPermitted }),
      })
      const answers = [legacy(rpc('tools/list'), bearer(token)), modern('tools/list', {}, bearer(token))]
      const lists = []
      for (const request of answers) {
        const { message } = await web(server).send(request)
        lists.push(message.result.tools.map((entry: { name: string }) => entry.name))
        // What depends on the token must not be shared (2026-07-28).
        if (message.result.cacheScope !== undefined) expect(message.result.cacheScope).to.equal('private')
      }
      expect(lists[0]).to.deep.equal(lists[1])
      return lists[0]
    }

    it('listOnlyPermitted is off by default', async () => {
      expect(await listed('reader')).to.deep.equal(['read', 'write', 'wipe'])
      expect(await listed('reader', false)).to.deep.equal(['read', 'write', 'wipe'])
    })
  })
})

describe('KitMcpRouter: the size of a resource', () => {
  const listed = (size: number) => () =>
    KitMcpRouter.create().resource('a', { uri: 'notes://a', size }, () => 'x')

  it('the size of a resource may be 0 bytes', () => {
    expect(listed(0)).not.to.throw()
  })

  it('the size of a resource must not be negative', () => {
    expect(listed(-1)).to.throw(KitMcpConfigError, 'size')
  })
})

describe('KitMcpRouter: the length of a resource URI', () => {
  const listed = (length: number) => () =>
    KitMcpRouter.create().resource('a', { uri: `notes://${'x'.repeat(length - 8)}` }, () => 'x')

  it('may be 8,192 characters, and not more', () => {
    expect(listed(8_192)).not.to.throw()
    expect(listed(8_193)).to.throw(KitMcpConfigError, 'uri')
  })
})
