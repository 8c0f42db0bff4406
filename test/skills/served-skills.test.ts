import { McpServer } from '@modelcontextprotocol/server'
import { memorySkillFiles, SkillsExtension } from '@modelcontextprotocol/server/ext/skills'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, type PolicyQuery, serveStdio } from '../../src/index.ts'
import { type LoadedSkills, loadSkills } from '../../src/skills/index.ts'
import { CALL_MODES } from '../support/mcp/call-modes.ts'
import { type Setup, web } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, modern } from '../support/mcp/wire.ts'
import { manifest } from '../support/skills/folder.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'

const OPEN = { 'open/SKILL.md': manifest('open'), 'open/docs/a.md': 'open text' }
const CLOSED = { 'closed/SKILL.md': manifest('closed'), 'closed/docs/a.md': 'closed text' }

/** Requests about a skill, and the member of the result that shows that they were served. */
const requestsAbout = (name: string): readonly (readonly [method: string, uri: string, member: string])[] => [
  ['skills/get', `skill://${name}/SKILL.md`, 'skill'],
  ['resources/directory/read', `skill://${name}`, 'resources'],
  ['resources/directory/read', `skill://${name}/docs`, 'resources'],
  ['resources/read', `skill://${name}/SKILL.md`, 'contents'],
  ['resources/read', `skill://${name}/docs/a.md`, 'contents'],
]

const urisOf = (result: any): string[] =>
  (result.skills ?? result.resources).map(({ uri }: { uri: string }) => uri)

describe('skills behind a gate', () => {
  let open: LoadedSkills
  let closed: LoadedSkills
  let router: KitMcpRouter
  before(async () => {
    open = await loadSkills(OPEN)
    closed = await loadSkills(CLOSED)
    router = KitMcpRouter.create()
      .skills(open)
      .skills(closed, { scopes: ['mcp:admin'] })
  })

  it('serveStdio names a skill with scopes once if it does not trust the local user', () => {
    expect(() => serveStdio(router)).to.throw("(resource 'closed')")
  })

  for (const mode of CALL_MODES) {
    it(`a token without the scopes of a skill gets the challenge for each of its requests in ${mode.name}`, async () => {
      const served = await mode.serve({ router, oauth: oauth() })
      try {
        for (const [method, uri, member] of requestsAbout('closed')) {
          const refused = await mode.send(served, method, { uri })
          expect([refused.status, method, uri]).to.deep.equal([403, method, uri])
          expect(refused.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:admin"')
          expect(refused.text).not.to.contain('closed')
          const answer = await mode.send(served, method, { uri }, 'admin')
          expect(answer.message.result, `${method} ${uri}`).to.have.property(member)
        }
        for (const [method, uri, member] of requestsAbout('open'))
          expect((await mode.send(served, method, { uri })).message.result).to.have.property(member)
      } finally {
        await served.close()
      }
    })

    it(`lists have all skills, and with listOnlyPermitted those that the token may read, in ${mode.name}`, async () => {
      for (const listOnlyPermitted of [false, true]) {
        const served = await mode.serve({ router, oauth: oauth(), listOnlyPermitted })
        try {
          for (const token of ['reader', 'admin'])
            for (const method of ['skills/list', 'resources/list']) {
              const { result } = (await mode.send(served, method, {}, token)).message
              const all = !listOnlyPermitted || token === 'admin'
              expect(urisOf(result)).to.deep.equal(
                all && method === 'skills/list'
                  ? ['skill://closed/SKILL.md', 'skill://open/SKILL.md']
                  : all
                    ? ['skill://open/SKILL.md', 'skill://closed/SKILL.md']
                    : ['skill://open/SKILL.md'],
              )
            }
        } finally {
          await served.close()
        }
      }
    })
  }

  /** Returns a function that sends a request of 2026-07-28 to a server. */
  const serverOf = (setup: Setup) => {
    const served = web(createMcpAdapter(setup).handler)
    return async (method: string, params: Record<string, unknown> = {}, token?: string) => {
      const named = method === 'resources/read' ? { 'mcp-name': String(params.uri) } : {}
      return await served.send(
        modern(method, params, { ...named, ...(token !== undefined && bearer(token)) }),
      )
    }
  }

  it('without OAuth, skills with scopes are refused and skills without scopes are served', async () => {
    const send = serverOf({ router })
    for (const [method, uri] of requestsAbout('closed'))
      expect((await send(method, { uri })).status, `${method} ${uri}`).to.equal(403)
    for (const [method, uri, member] of requestsAbout('open'))
      expect((await send(method, { uri })).message.result).to.have.property(member)
  })

  for (const listOnlyPermitted of [false, true]) {
    it(`anonymous clients use public skills only, with listOnlyPermitted: ${listOnlyPermitted}`, async () => {
      const send = serverOf({
        router: KitMcpRouter.create().skills(open, { public: true }).skills(closed),
        oauth: oauth({ anonymous: true }),
        listOnlyPermitted,
      })
      for (const [method, uri, member] of requestsAbout('open'))
        expect((await send(method, { uri })).message.result).to.have.property(member)
      for (const [method, uri] of requestsAbout('closed'))
        expect((await send(method, { uri })).status, `${method} ${uri}`).to.equal(401)
      const { result } = (await send('skills/list')).message
      expect(urisOf(result).length).to.equal(listOnlyPermitted ? 1 : 2)
    })
  }

  it('a template with scopes that matches a file adds them to the file, the entry, and the folders of its skill', async () => {
    const send = serverOf({
      router: KitMcpRouter.create()
        .resourceTemplate(
          'docs',
          { uriTemplate: 'skill://{name}/docs/{file}', scopes: ['mcp:admin'] },
          () => 'x',
        )
        .skills(open, { public: true }),
      oauth: oauth({ anonymous: true }),
      listOnlyPermitted: true,
    })
    const statuses = async (token?: string) => {
      const all = requestsAbout('open').map(
        async ([method, uri]) => (await send(method, { uri }, token)).status,
      )
      return await Promise.all(all)
    }
    expect(await statuses()).to.deep.equal([401, 401, 401, 200, 401])
    expect(await statuses('reader')).to.deep.equal([403, 403, 403, 200, 403])
    expect(await statuses('admin')).to.deep.equal([200, 200, 200, 200, 200])
    expect(urisOf((await send('skills/list', {}, 'reader')).message.result)).to.deep.equal([])
    expect(urisOf((await send('skills/list', {}, 'admin')).message.result)).to.deep.equal([
      'skill://open/SKILL.md',
    ])
  })

  it('a policy is asked about each request with the name of the skill and the URI, and decides about it', async () => {
    const asked: Pick<PolicyQuery, 'purpose' | 'kind' | 'name' | 'uri' | 'args'>[] = []
    const send = serverOf({
      router: KitMcpRouter.create().merge('sub', KitMcpRouter.create().skills(open).skills(closed)),
      oauth: oauth(),
      authorize: ({ purpose, kind, name, uri, args }) => {
        asked.push({
          purpose,
          kind,
          name,
          ...(uri !== undefined && { uri }),
          ...(args !== undefined && { args }),
        })
        return name === 'sub_open' || { deny: 'Only open skills' }
      },
    })
    for (const [method, uri, member] of requestsAbout('open')) {
      expect((await send(method, { uri }, 'reader')).message.result).to.have.property(member)
      expect(asked.splice(0)).to.deep.equal([
        { purpose: 'call', kind: 'resource', name: 'sub_open', uri, args: {} },
      ])
    }
    for (const [method, uri] of requestsAbout('closed'))
      expect((await send(method, { uri }, 'reader')).message.error).to.deep.equal({
        code: -32_003,
        message: 'Only open skills',
      })
    expect(urisOf((await send('skills/list', {}, 'reader')).message.result)).to.deep.equal([
      'skill://open/SKILL.md',
    ])
    expect(asked.slice(-2)).to.deep.equal(
      ['closed', 'open'].map((name) => ({
        purpose: 'list',
        kind: 'resource',
        name: `sub_${name}`,
        uri: `skill://${name}/SKILL.md`,
      })),
    )
  })

  it('a policy that denies the last skill of a page does not show it in the cursor', async () => {
    const names = Array.from({ length: 103 }, (_, index) => `s${String(index).padStart(3, '0')}`)
    const many = await loadSkills(
      Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, manifest(name)])),
      { maxSkills: 200 },
    )
    const send = serverOf({
      router: KitMcpRouter.create().skills(many),
      authorize: ({ name }) => name !== 's099',
    })
    const { skills, nextCursor } = (await send('skills/list')).message.result
    expect(skills.length).to.equal(100)
    expect(Buffer.from(nextCursor, 'base64url').toString()).to.equal('after:skill://s100/SKILL.md')
    const rest = (await send('skills/list', { cursor: nextCursor })).message.result
    expect(urisOf(rest)).to.deep.equal(['skill://s101/SKILL.md', 'skill://s102/SKILL.md'])
    expect(rest).not.to.have.property('nextCursor')

    const sendLess = serverOf({
      router: KitMcpRouter.create().skills(many),
      authorize: ({ name }) => name > 's002',
    })
    const page = (await sendLess('skills/list')).message.result
    expect(page.skills.length).to.equal(100)
    expect(page).not.to.have.property('nextCursor')
  })

  it('middleware runs around the reading of files, with the name of the skill', async () => {
    const calls: unknown[] = []
    const send = serverOf({
      router: KitMcpRouter.create()
        .use(async ({ kind, name, uri }, next) => {
          calls.push({ kind, name, uri })
          return await next()
        })
        .skills(open),
    })
    for (const [method, uri] of requestsAbout('open')) await send(method, { uri })
    expect(calls).to.deep.equal([
      { kind: 'resource', name: 'open', uri: 'skill://open/SKILL.md' },
      { kind: 'resource', name: 'open', uri: 'skill://open/docs/a.md' },
    ])
  })

  it('events of requests about skills have the method and the URI', async () => {
    const { telemetry, transport } = keepingEvents()
    const send = serverOf({ router, oauth: oauth(), telemetry })
    for (const [method, uri] of requestsAbout('closed')) {
      transport.clear()
      await send(method, { uri }, 'reader')
      await telemetry.flush()
      const refused = transport
        .getEvents()
        .filter(({ attributes = {} }) => attributes.reason === 'insufficient_scope')
      expect(
        refused.map(({ attributes = {} }) => [attributes['mcp.method.name'], attributes['mcp.resource.uri']]),
      ).to.deep.equal([[method, uri]])
    }
    await telemetry.shutdown()
  })

  for (const [name, setup, expected] of [
    ['nothing', {}, { ttlMs: 0, cacheScope: 'private' }],
    ['the adapter', { cache: { ttlMs: 5, cacheScope: 'public' } }, { ttlMs: 5, cacheScope: 'public' }],
    [
      'the adapter behind a gate',
      { cache: { ttlMs: 5, cacheScope: 'public' }, oauth: oauth() },
      { ttlMs: 5, cacheScope: 'private' },
    ],
  ] as const) {
    it(`skills and their files are cached as ${name} says`, async () => {
      const send = serverOf({ router, ...(setup as object) })
      for (const [method, uri] of requestsAbout('open'))
        expect((await send(method, { uri }, 'reader')).message.result, method).to.include(expected)
    })
  }

  it('the cache of skills overrides that of the adapter, and does not concern skills/list', async () => {
    const send = serverOf({
      router: KitMcpRouter.create().skills(open, { cache: { ttlMs: 7 } }),
      cache: { ttlMs: 5, cacheScope: 'public' },
    })
    for (const [method, uri] of requestsAbout('open'))
      expect((await send(method, { uri })).message.result).to.include({ ttlMs: 7, cacheScope: 'public' })
    expect((await send('skills/list')).message.result).to.include({ ttlMs: 5, cacheScope: 'public' })
  })

  it('skills/list is private if it depends on the token', async () => {
    const cache = { ttlMs: 5, cacheScope: 'public' as const }
    for (const own of [{ listOnlyPermitted: true }, { authorize: () => true }]) {
      const send = serverOf({ router, cache, oauth: oauth(), ...own })
      expect((await send('skills/list', {}, 'reader')).message.result).to.include({
        ttlMs: 5,
        cacheScope: 'private',
      })
    }
  })

  it('a server with skills and tasks declares both extensions', async () => {
    const send = serverOf({
      router: router.tool('job', { description: 'x', task: 'optional' }, () => 'x'),
    })
    const { capabilities } = (await send('server/discover')).message.result
    expect(Object.keys(capabilities.extensions)).to.have.members([
      'io.modelcontextprotocol/skills',
      'io.modelcontextprotocol/tasks',
    ])
  })

  for (const [method, params, message] of [
    ['skills/get', {}, 'Invalid params: uri must be a string'],
    ['skills/get', { uri: 5 }, 'Invalid params: uri must be a string'],
    ['resources/directory/read', {}, 'Invalid params: uri must be a string'],
    ['skills/get', { uri: 'open' }, 'The resource URI is not valid'],
    ['skills/get', { uri: 'skill://open/docs/a.md' }, 'No skill is served at skill://open/docs/a.md'],
    [
      'resources/directory/read',
      { uri: 'skill://open/SKILL.md' },
      'skill://open/SKILL.md is not a directory resource',
    ],
    ['skills/list', { cursor: 'x' }, 'Invalid cursor'],
    ['skills/list', { cursor: 5 }, 'Invalid cursor'],
    ['skills/list', { cursor: Buffer.from('skill://a').toString('base64url') }, 'Invalid cursor'],
    ['resources/directory/read', { uri: 'skill://open', cursor: '' }, 'Invalid cursor'],
  ] as const) {
    it(`${method} with ${JSON.stringify(params)} gets the error ${message}`, async () => {
      for (const setup of [{}, { sessions: true }]) {
        const send = serverOf({ router, ...setup })
        const { error } = (await send(method, params)).message
        expect([error.code, error.message]).to.deep.equal([-32_602, message])
      }
    })
  }

  it('a cursor after the last skill gets an empty page', async () => {
    const cursor = Buffer.from('after:skill://zzz').toString('base64url')
    const { result } = (await serverOf({ router })('skills/list', { cursor })).message
    expect(result.skills).to.deep.equal([])
  })

  it('a server without skills does not know the methods of skills', async () => {
    const send = serverOf({
      router: KitMcpRouter.create().resource('a', { uri: 'skill://a/SKILL.md' }, () => 'x'),
    })
    for (const method of ['skills/list', 'skills/get', 'resources/directory/read'])
      expect((await send(method, { uri: 'skill://a/SKILL.md' })).message.error.code).to.equal(-32_601)
  })

  describe('of a router function', () => {
    const catalog = SkillsExtension.load(memorySkillFiles({ ...OPEN, ...CLOSED }))
    const factory = async () => {
      const server = new McpServer({ name: 'own', version: '1' })
      ;(await catalog).attach(server)
      return server
    }

    it('the scopes of a router function protect the skills of the official server', async () => {
      const send = serverOf({
        router: factory,
        oauth: oauth(),
        scopes: { resources: { 'skill://closed/{+path}': ['mcp:admin'] } },
      })
      for (const [method, uri, member] of requestsAbout('closed')) {
        expect((await send(method, { uri }, 'reader')).status, `${method} ${uri}`).to.equal(403)
        expect((await send(method, { uri }, 'admin')).message.result).to.have.property(member)
      }
      for (const [method, uri, member] of requestsAbout('open'))
        expect((await send(method, { uri }, 'reader')).message.result).to.have.property(member)
    })

    it('anonymous clients read only the skills that a router function names as public', async () => {
      const send = serverOf({
        router: factory,
        oauth: oauth({ anonymous: true }),
        scopes: { public: { resources: ['skill://open/{+path}'] } },
      })
      for (const [method, uri, member] of requestsAbout('open'))
        expect((await send(method, { uri })).message.result, `${method} ${uri}`).to.have.property(member)
      for (const [method, uri] of requestsAbout('closed'))
        expect((await send(method, { uri })).status, `${method} ${uri}`).to.equal(401)
      expect((await send('skills/list')).status).to.equal(401)
    })

    it('a folder with scopes of its own is not public, although its files are', async () => {
      const send = serverOf({
        router: factory,
        oauth: oauth({ anonymous: true }),
        scopes: {
          resources: { 'skill://open/docs': ['mcp:admin'] },
          public: { resources: ['skill://open/{+path}'] },
        },
      })
      const status = async (uri: string) => (await send('resources/directory/read', { uri })).status
      expect([await status('skill://open'), await status('skill://open/docs')]).to.deep.equal([200, 401])
    })

    it('a URI with a control character, which the official server would ignore, is rejected', async () => {
      const send = serverOf({
        router: factory,
        oauth: oauth(),
        scopes: { resources: { 'skill://closed/{+path}': ['mcp:admin'] } },
      })
      // A header cannot repeat the URI of resources/read.
      for (const [method, uri] of requestsAbout('closed').slice(0, 3)) {
        const { message } = await send(method, { uri: uri.replace('closed', 'clo\nsed') }, 'reader')
        expect(message.error).to.include({ code: -32_602, message: 'The resource URI is not valid' })
      }
    })
  })
})
