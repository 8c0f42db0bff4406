import { mkdirSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { loadSkills as loadCatalog } from '@modelcontextprotocol/server/ext/skills/node'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { loadSkills } from '../../src/skills/index.ts'
import { onNode } from '../support/mcp/entry-points.ts'
import { initialization, type Listening, legacy, listen, MODERN, modern, rpc } from '../support/mcp/wire.ts'
import { FILES, type Folder, folderOf, manifest } from '../support/skills/folder.ts'

/** More entries than one page has. */
const MANY = Object.fromEntries(
  Array.from({ length: 110 }, (_, index) => [`bulk/many/${index}.md`, `${index}`]),
)
const SKILLS = Object.fromEntries(
  Array.from({ length: 105 }, (_, index) => [`skill-${index}/SKILL.md`, manifest(`skill-${index}`)]),
)

describe('skills: the results of the official server', () => {
  let folder: Folder
  let ours: Listening
  let theirs: Listening

  before(async () => {
    folder = folderOf({ ...FILES, 'bulk/SKILL.md': manifest('bulk'), ...MANY, ...SKILLS })
    mkdirSync(join(folder.path, 'refunds/nothing'))
    const skills = await loadSkills(folder.path, { maxSkills: 200 })
    const catalog = await loadCatalog(folder.path, { onWarning: () => undefined })
    const serverInfo = { name: 'skills', version: '1' }
    ours = await onNode(
      mcpHandler(createMcpAdapter({ router: KitMcpRouter.create().skills(skills), serverInfo })),
    )
    const handler = createMcpHandler(() => {
      const server = new McpServer(serverInfo)
      catalog.attach(server)
      return server
    })
    theirs = await listen(toNodeHandler(handler) as unknown as RequestListener)
  })
  after(async () => {
    await ours.close()
    await theirs.close()
    folder.remove()
  })

  const uris = [
    'skill://refunds/SKILL.md',
    'skill://refunds/references/rules%20&%20limits.md',
    'skill://refunds/references/a%252Fb.txt',
    'skill://refunds/scripts/check.PY',
    'skill://refunds/logo.png',
    'skill://refunds/empty.unknown',
    'skill://refunds/partial/SKILL.md',
    'skill://refunds/partial/table.csv',
    'skill://Team%20A/returns/assets/icon.svg',
    'skill://refunds/.env',
    'skill://drafts/idea.md',
  ]
  const directories = [
    'skill://refunds',
    'skill://refunds/references',
    'skill://refunds/nothing',
    'skill://refunds/partial',
    'skill://Team%20A/returns',
    'skill://Team%20A',
    'skill://drafts',
    'skill://refunds/',
    'skill://refunds/SKILL.md',
    'skill://refunds/.git',
  ]
  const requests: readonly (readonly [method: string, params?: Record<string, unknown>])[] = [
    ['skills/list'],
    ['skills/get', { uri: 'SKILL://refunds/./SKILL.md' }],
    ['skills/get', { uri: 'skill://refunds/../README.md' }],
    ['resources/directory/read', { uri: 'skill://refunds/../refunds' }],
    ...uris.map((uri) => ['resources/read', { uri }] as const),
    ...uris.map((uri) => ['skills/get', { uri }] as const),
    ...directories.map((uri) => ['resources/directory/read', { uri }] as const),
    ['resources/list'],
  ]

  for (const [revision, send] of [
    [
      '2026-07-28',
      (server: Listening, method: string, params: Record<string, unknown> = {}) =>
        server.send(
          modern(method, params, method === 'resources/read' ? { 'mcp-name': String(params.uri) } : {}),
        ),
    ],
    [
      '2025-11-25',
      (server: Listening, method: string, params: Record<string, unknown> = {}) =>
        server.send(legacy(rpc(method, params))),
    ],
  ] as const) {
    for (const [method, params] of requests) {
      it(`${method} of ${params?.uri ?? 'everything'} in revision ${revision} has the result of the official server`, async () => {
        const [own, official] = [await send(ours, method, params), await send(theirs, method, params)]
        expect(own.message).to.deep.equal(official.message)
      })
    }
  }

  it('the capabilities of a server with skills are those of the official server', async () => {
    for (const request of [modern('server/discover'), legacy(initialization())]) {
      const capabilities = async (server: Listening) =>
        (await server.send(request)).message.result.capabilities
      const { extensions } = await capabilities(ours)
      expect(extensions).to.deep.equal({ 'io.modelcontextprotocol/skills': { directoryRead: true } })
      expect(extensions).to.deep.equal((await capabilities(theirs)).extensions)
    }
  })

  for (const revision of [MODERN, '2025-11-25']) {
    it(`the official client of ${revision} verifies the files of a skill, and finds the same as at the official server`, async () => {
      const walk = async (server: Listening) => {
        const client = new Client(
          { name: 'test', version: '1' },
          revision === MODERN ? { versionNegotiation: { mode: { pin: MODERN } } } : {},
        )
        await client.connect(new StreamableHTTPClientTransport(new URL(`${server.origin}/mcp`)))
        try {
          const skills = new SkillsClient(client)
          expect(skills.directoryRead).to.equal(true)
          const listing = await skills.list()
          const { skill } = await skills.get('skill://refunds/SKILL.md')
          const files = []
          for (const { uri } of skill.resources as { uri: string }[])
            files.push(await skills.read(skill, uri))
          expect(files.every(({ verified }) => verified)).to.equal(true)
          return { listing, files, many: await skills.readDirectory('skill://bulk/many') }
        } finally {
          await client.close()
        }
      }
      const own = await walk(ours)
      expect(own.listing.skills.length).to.equal(109)
      expect(own.many.resources.length).to.equal(110)
      expect(own).to.deep.equal(await walk(theirs))
    })
  }
})
