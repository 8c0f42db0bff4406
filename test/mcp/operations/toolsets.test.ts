import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter } from '../../../src/index.ts'
import { expectConfigError } from '../../support/config-error.ts'
import { ENTRY_POINTS, type Served, type Setup } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, beginSession, call, legacy, modern, rpc } from '../../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  .tool('list_notes', { description: 'x' }, () => 'listed')
  .tool('read_note', { description: 'x' }, () => 'read')
  .tool('wipe', { description: 'x', scopes: ['mcp:admin'] }, () => 'wiped')
  .tool('other', { description: 'x' }, () => 'x')
  .prompt('hello', { description: 'x' }, () => 'x')

const toolsets = { read: ['list_notes', 'read_note'], admin: ['wipe', 'list_notes'], none: [] }
const setup: Setup = { router, oauth: oauth(), toolsets }
const EVERY = ['list_notes', 'read_note', 'wipe', 'other']

describe('toolsets', () => {
  let served: Served | undefined
  afterEach(async () => served?.close())

  const chosen = (header?: string, token = 'reader') => ({
    ...bearer(token),
    ...(header !== undefined && { 'x-mcp-toolsets': header }),
  })
  const namesIn = (list: unknown) => (list as { name: string }[]).map(({ name }) => name)

  for (const face of ENTRY_POINTS) {
    it(`${face.name}: tools/list has the tools of the toolset in the header`, async () => {
      served = await face.serve(setup)
      for (const request of [
        modern('tools/list', {}, chosen('read')),
        legacy(rpc('tools/list'), chosen('read')),
      ])
        expect(namesIn((await served.send(request)).message.result.tools)).to.deep.equal(toolsets.read)
    })
  }

  for (const [header, expected] of [
    [undefined, EVERY],
    ['', EVERY],
    [' , ', EVERY],
    ['all', EVERY],
    ['read,all', EVERY],
    ['read', ['list_notes', 'read_note']],
    [' admin ,\tread', ['list_notes', 'read_note', 'wipe']],
    ['read,read,unknown', ['list_notes', 'read_note']],
    ['none', []],
    ['unknown', []],
    ['Read', []],
    ['constructor', []],
    [`read,${'x,'.repeat(4_000)}`, ['list_notes', 'read_note']],
  ] as const) {
    it(`the header ${JSON.stringify(header?.slice(0, 20))} lists ${expected.join(', ') || 'nothing'}`, async () => {
      served = await ENTRY_POINTS[1]?.serve(setup)
      const answer = await served?.send(modern('tools/list', {}, chosen(header)))
      expect(namesIn(answer?.message.result.tools)).to.deep.equal(expected)
    })
  }

  it('each request of a session chooses its own toolsets', async () => {
    served = (await ENTRY_POINTS[1]?.serve({ ...setup, sessions: true })) as Served
    const session = await beginSession(served, chosen('admin'))
    for (const [header, expected] of [
      ['admin', ['list_notes', 'wipe']],
      ['read', toolsets.read],
      [undefined, EVERY],
    ] as const) {
      const answer = await served.send(legacy(rpc('tools/list'), { ...chosen(header), ...session }))
      expect(namesIn(answer.message.result.tools)).to.deep.equal(expected)
    }
  })

  it('listOnlyPermitted and toolsets both leave tools out', async () => {
    served = await ENTRY_POINTS[1]?.serve({ ...setup, listOnlyPermitted: true })
    const answer = await served?.send(modern('tools/list', {}, chosen('admin')))
    expect(namesIn(answer?.message.result.tools)).to.deep.equal(['list_notes'])
  })

  it('toolsets do not limit calls, and scopes do', async () => {
    served = (await ENTRY_POINTS[1]?.serve(setup)) as Served
    const other = await served.send(legacy(call('other'), chosen('read')))
    expect(other.message.result.content[0].text).to.equal('x')
    expect((await served.send(legacy(call('wipe'), chosen('admin')))).status).to.equal(403)
  })

  it('toolsets do not filter prompts', async () => {
    served = await ENTRY_POINTS[1]?.serve(setup)
    const answer = await served?.send(modern('prompts/list', {}, chosen('none')))
    expect(namesIn(answer?.message.result.prompts)).to.deep.equal(['hello'])
  })

  it('no shared cache may keep tools/list with toolsets', async () => {
    const open: Setup = { router: KitMcpRouter.create().tool('a', { description: 'x' }, () => 'x') }
    const cache = { ttlMs: 1_000, cacheScope: 'public' } as const
    for (const [more, scope] of [
      [{}, 'public'],
      [{ toolsets: { read: ['a'] } }, 'private'],
    ] as const) {
      served = await ENTRY_POINTS[1]?.serve({ ...open, cache, ...more })
      const answer = await served?.send(modern('tools/list'))
      expect(answer?.message.result).to.include({ cacheScope: scope, ttlMs: 1_000 })
      await served?.close()
    }
  })

  for (const [what, given, option, message] of [
    ['a toolset with a comma in its name', { 'a,b': [] }, 'toolsets', /1 to 64 characters/],
    ['a toolset without a name', { '': [] }, 'toolsets', /1 to 64 characters/],
    ['a toolset of 65 characters', { ['a'.repeat(65)]: [] }, 'toolsets', /1 to 64 characters/],
    ['a toolset with the name all', { all: [] }, 'toolsets', /not 'all'/],
    ['a toolset that is a string', { read: 'wipe' }, 'toolsets.read', /must/],
    ['a tool that does not exist', { read: ['wip'] }, 'toolsets.read', /Did you mean 'wipe'\?/],
  ] as const) {
    it(`${what} is a configuration error`, () => {
      const make = () => createMcpAdapter({ router, toolsets: given as unknown as Record<string, string[]> })
      expectConfigError(make, { code: 'MCP_CONFIG_INVALID_OPTION', option, message })
    })
  }

  it('toolsets of a router function are a configuration error', () => {
    const make = () =>
      createMcpAdapter({ router: () => new McpServer({ name: 'x', version: '1' }), toolsets })
    expectConfigError(make, {
      code: 'MCP_CONFIG_INVALID_OPTION',
      option: 'toolsets',
      message: /^toolsets can be used only with a KitMcpRouter/,
    })
  })
})
