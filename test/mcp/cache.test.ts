import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, type McpAdapterOptions } from '../../src/index.ts'
import { web } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, legacy, modern, rpc } from '../support/mcp/wire.ts'

const plain = KitMcpRouter.create()
  .tool('a', { description: 'x' }, () => 'x')
  .prompt('b', {}, () => 'x')
  .resource('c', { uri: 'notes://c' }, () => 'x')
  .resource('d', { uri: 'notes://d', cache: { ttlMs: 9 } }, () => 'x')
  .resource('e', { uri: 'notes://e', cache: { ttlMs: 7, cacheScope: 'private' } }, () => 'x')
  .resource('whole', { uri: 'notes://whole' }, () => ({
    contents: [{ uri: 'notes://whole', text: 'x' }],
    ttlMs: 3,
    cacheScope: 'public',
  }))
  .resourceTemplate('f', { uriTemplate: 'notes://f/{id}', cache: { ttlMs: 8 } }, () => 'x')

const listing = plain.resourceTemplate('g', { uriTemplate: 'notes://g/{id}', list: () => [] }, () => 'x')

type Case = readonly [method: string, uri: string | undefined, ttlMs: number, cacheScope: string]

const LISTS = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'] as const
const lists = (ttlMs: number, cacheScope: string): Case[] =>
  LISTS.map((method) => [method, undefined, ttlMs, cacheScope])
const shared = { cache: { ttlMs: 5, cacheScope: 'public' } } as const

describe('mcp: cache hints of 2026-07-28', () => {
  for (const [name, router, options, withOAuth, cases] of [
    [
      'by default',
      plain,
      {},
      false,
      [
        ...lists(0, 'private'),
        ['server/discover', undefined, 0, 'private'],
        ['resources/read', 'notes://c', 0, 'private'],
        ['resources/read', 'notes://d', 9, 'private'],
        ['resources/read', 'notes://f/1', 8, 'private'],
        ['resources/read', 'notes://whole', 3, 'public'],
      ],
    ],
    [
      'as the adapter says',
      plain,
      shared,
      false,
      [
        ...lists(5, 'public'),
        ['server/discover', undefined, 5, 'public'],
        ['resources/read', 'notes://c', 5, 'public'],
        ['resources/read', 'notes://d', 9, 'public'],
        ['resources/read', 'notes://e', 7, 'private'],
      ],
    ],
    [
      'with only a time',
      plain,
      { cache: { ttlMs: 5 } },
      false,
      [...lists(5, 'private'), ['server/discover', undefined, 5, 'private']],
    ],
    [
      'with only a scope',
      plain,
      { cache: { cacheScope: 'public' } },
      false,
      [...lists(0, 'public'), ['server/discover', undefined, 0, 'public']],
    ],
    ['where a template lists', listing, shared, false, [['resources/list', undefined, 5, 'private']]],
    [
      'behind a gate',
      plain,
      shared,
      true,
      [
        ...lists(5, 'public'),
        ['resources/read', 'notes://c', 5, 'private'],
        ['resources/read', 'notes://whole', 3, 'private'],
      ],
    ],
    [
      'of lists that depend on the token',
      plain,
      { ...shared, listOnlyPermitted: true },
      true,
      lists(5, 'private'),
    ],
  ] as readonly (readonly [string, KitMcpRouter, McpAdapterOptions, boolean, Case[]])[]) {
    describe(name, () => {
      const { server } = createMcpAdapter({ router, ...options, ...(withOAuth && { oauth: oauth() }) })
      for (const [method, uri, ttlMs, cacheScope] of cases) {
        it(`the cache hint of ${method} ${uri ?? ''} is ${cacheScope} for ${ttlMs} ms`, async () => {
          const headers = { ...(uri && { 'mcp-name': uri }), ...bearer('reader') }
          const { message } = await web(server).send(modern(method, { ...(uri && { uri }) }, headers))
          expect(message.result).to.include({ ttlMs, cacheScope })
        })
      }
    })
  }

  it('cache hints are not sent to clients of earlier revisions', async () => {
    const { server } = createMcpAdapter({ router: plain, ...shared })
    for (const request of [rpc('tools/list'), rpc('resources/read', { uri: 'notes://d' })]) {
      const { message } = await web(server).send(legacy(request))
      expect(message.result).to.not.have.any.keys('ttlMs', 'cacheScope')
    }
  })
})
