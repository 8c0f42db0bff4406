import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, mcpHandler } from '../../../../src/index.ts'
import { KitMcpRouter, tableOf } from '../../../../src/mcp/router/router.ts'
import { CLIENT_KINDS } from '../../../support/mcp/clients.ts'
import { configError } from '../../../support/mcp/config-error.ts'
import { onNode, serving } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { bearer, call, legacy, modern } from '../../../support/mcp/wire.ts'

const inHeader = (name: unknown) => ({ 'x-mcp-header': name })

const router = KitMcpRouter.create()
  .tool(
    'query',
    {
      description: 'x',
      input: z.object({
        region: z.string().meta(inHeader('Region')),
        limit: z.int().optional().meta(inHeader('Limit')),
        where: z.object({ dry: z.boolean().optional().meta(inHeader('Dry-Run')) }).optional(),
      }),
      scopes: ['mcp:write'],
    },
    (args) => JSON.stringify(args),
  )
  .tool('plain', { description: 'x', input: z.object({ region: z.string() }) }, ({ region }) => region)
  .prompt('p', {}, () => 'x')

describe('mcp: arguments in Mcp-Param headers', () => {
  const served = serving(() => onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth() }))))
  const query = (args: object, headers: Record<string, string>, name = 'query') =>
    modern('tools/call', { name, arguments: args }, { ...bearer('writer'), ...headers })

  for (const { name, connect } of CLIENT_KINDS) {
    it(`a ${name} may send Mcp-Param headers or leave them out`, async () => {
      const { client, close } = await connect(served().origin, { token: 'writer' })
      await client.listTools()
      const args = { region: 'eu-wést', limit: 5, where: { dry: true } }
      const result = await client.callTool({ name: 'query', arguments: args })
      expect(JSON.parse(result.content[0].text)).to.deep.equal(args)
      expect((await client.getPrompt({ name: 'p' })).messages).to.have.length(1)
      expect((await client.callTool({ name: 'plain', arguments: { region: 'x' } })).content[0].text).to.equal(
        'x',
      )
      await close()
    })
  }

  for (const [what, args, headers, status] of [
    ['agree', { region: 'eu' }, { 'mcp-param-region': 'eu' }, 200],
    ['agree, as Base64', { region: 'é' }, { 'mcp-param-region': '=?base64?w6k=?=' }, 200],
    [
      'agree as numbers',
      { region: 'eu', limit: 5 },
      { 'mcp-param-region': 'eu', 'mcp-param-limit': '5.0' },
      200,
    ],
    ['are missing', { region: 'eu' }, {}, 400],
    ['differ', { region: 'eu' }, { 'mcp-param-region': 'us' }, 400],
    [
      'differ further in',
      { region: 'eu', where: { dry: true } },
      { 'mcp-param-region': 'eu', 'mcp-param-dry-run': 'false' },
      400,
    ],
    ['are no Base64', { region: 'eu' }, { 'mcp-param-region': '=?base64?%%?=' }, 400],
  ] as const) {
    it(`Mcp-Param headers that ${what} get ${status}`, async () => {
      const answer = await served().send(query(args, headers))
      expect(answer.status).to.equal(status)
      if (status === 400) expect(answer.message.error.code).to.equal(-32_020)
    })
  }

  it('Mcp-Param headers are ignored for other tools and revisions', async () => {
    const other = await served().send(query({ region: 'eu' }, { 'mcp-param-region': 'us' }, 'plain'))
    expect(other.message.result.content[0].text).to.equal('eu')
    const before = await served().send(legacy(call('query', { region: 'eu' }), bearer('writer')))
    expect(before.message.result.content[0].text).to.equal('{"region":"eu"}')
  })

  it('Mcp-Param headers do not change the required scopes', async () => {
    const answer = await served().send(
      query({ region: 'eu' }, { ...bearer('reader'), 'mcp-param-region': 'eu' }),
    )
    expect(answer.status).to.equal(403)
  })

  it('a router without x-mcp-header does not declare headers', () => {
    expect(tableOf(router).declaresHeaders).to.equal(true)
    const without = KitMcpRouter.create().tool('a', { description: 'x', input: z.object({}) }, () => 'x')
    expect(tableOf(without).declaresHeaders).to.equal(false)
  })

  for (const [what, input, words] of [
    ['an array', z.object({ a: z.array(z.string().meta(inHeader('A'))) }), 'only on properties'],
    ['the root', z.object({}).meta(inHeader('A')), 'only on properties'],
    ['a union', z.object({ a: z.union([z.string().meta(inHeader('A')), z.null()]) }), 'only on properties'],
    ['a number', z.object({ a: z.number().meta(inHeader('A')) }), "at 'a', which must be a string"],
    ['an object', z.object({ a: z.object({}).meta(inHeader('A')) }), "at 'a', which must be a string"],
    ['a bad name', z.object({ a: z.string().meta(inHeader('A b')) }), "at 'a' that is not a header name"],
    ['no name', z.object({ a: z.string().meta(inHeader(5)) }), "at 'a' that is not a header name"],
    [
      'the same name',
      z.object({ a: z.string().meta(inHeader('A')), b: z.object({ c: z.string().meta(inHeader('a')) }) }),
      "'a' twice",
    ],
  ] as const) {
    it(`x-mcp-header must not be declared on ${what}`, () => {
      const error = configError(() => KitMcpRouter.create().tool('a', { description: 'x', input }, () => 'x'))
      expect(error.option).to.equal("input of tool 'a'")
      expect(error.message).to.contain(words)
    })
  }

  it('x-mcp-header in data of a schema is ignored', () => {
    const input = z.object({ a: z.record(z.string(), z.string()).default({ 'x-mcp-header': 'A b' }) })
    expect(() => KitMcpRouter.create().tool('a', { description: 'x', input }, () => 'x')).to.not.throw()
  })
})
