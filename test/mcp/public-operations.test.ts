import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpAuth, type ServerFactory } from '../../src/index.ts'
import { expectConfigError } from '../support/config-error.ts'
import { ENTRY_POINTS } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy, modern, rpc, type WireRequest } from '../support/mcp/wire.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'

const INVALID = 'MCP_CONFIG_INVALID_OPTION'

/** The templates whose `list` was called. */
const asked: string[] = []

function listing(name: string, ...uris: string[]) {
  return () => {
    asked.push(name)
    return uris.map((uri) => ({ name: uri, uri }))
  }
}

const router = KitMcpRouter.create()
  .tool('search', { description: 'x', public: true }, () => 'found')
  .tool('save', { description: 'x' }, () => 'saved')
  .tool('wipe', { description: 'x', scopes: ['mcp:admin'] }, () => 'wiped')
  .resource('about', { uri: 'docs://about', public: true }, () => 'x')
  .resource('private', { uri: 'docs://private' }, () => 'x')
  .resource('covered', { uri: 'vault://open', public: true }, () => 'x')
  .resourceTemplate('vault', { uriTemplate: 'vault://{id}', scopes: ['mcp:admin'] }, () => 'x')
  .resourceTemplate(
    'pages',
    { uriTemplate: 'pages://{id}', public: true, list: listing('pages', 'pages://1', 'docs://private') },
    () => 'x',
  )
  .resourceTemplate('notes', { uriTemplate: 'notes://{id}', list: listing('notes', 'notes://1') }, () => 'x')

const names = (entries: { name: string }[]) => entries.map(({ name }) => name)

const LISTS = [
  ['2025-11-25', (method: string) => legacy(rpc(method))],
  ['2026-07-28', (method: string) => modern(method)],
] as const

for (const entry of ENTRY_POINTS) {
  for (const [revision, request] of LISTS) {
    // Without a parsed body, `mcpAuth` knows the method of a request of 2026-07-28 only.
    if (entry.auth && !entry.parsed && revision === '2025-11-25') continue

    describe(`lists without a token at ${entry.name} in revision ${revision}`, () => {
      const lists = async (listOnlyPermitted: boolean) => {
        const options = oauth({ anonymous: true })
        const served = await entry.serve({ router, oauth: options, listOnlyPermitted })
        try {
          const result = async (method: string) => (await served.send(request(method))).message.result
          asked.length = 0
          return {
            tools: (await result('tools/list')).tools,
            resources: names((await result('resources/list')).resources),
            templates: names((await result('resources/templates/list')).resourceTemplates),
          }
        } finally {
          await served.close()
        }
      }

      it(`${entry.name} lists everything to anonymous clients of ${revision}, and asks public templates only`, async () => {
        const { tools, resources, templates } = await lists(false)
        expect(tools.map(({ name, _meta }: any) => [name, _meta.securitySchemes])).to.deep.equal([
          ['search', [{ type: 'noauth' }]],
          ['save', [{ type: 'oauth2', scopes: ['mcp:read'] }]],
          ['wipe', [{ type: 'oauth2', scopes: ['mcp:read', 'mcp:admin'] }]],
        ])
        expect(resources).to.deep.equal(['about', 'private', 'covered', 'pages://1'])
        expect(templates).to.deep.equal(['vault', 'pages', 'notes'])
        expect(asked).to.deep.equal(['pages'])
      })

      it(`${entry.name} lists what is public to anonymous clients of ${revision} with listOnlyPermitted`, async () => {
        const { tools, resources, templates } = await lists(true)
        expect(names(tools)).to.deep.equal(['search'])
        expect(resources).to.deep.equal(['about', 'pages://1'])
        expect(templates).to.deep.equal(['pages'])
      })
    })
  }
}

describe('securitySchemes of public tools', () => {
  const metas = async (changes: object) => {
    const { server } = createMcpAdapter({ router, oauth: oauth(changes) })
    const { headers, body } = legacy(rpc('tools/list'), bearer('reader'))
    const init = { method: 'POST', headers: headers as Record<string, string>, body: body as string }
    const text = await (await server(new Request('http://localhost:3000/mcp', init))).text()
    const data = text.startsWith('{') ? text : (/^data: (\{.*)$/m.exec(text)?.[1] as string)
    return JSON.parse(data).result.tools.map(({ _meta }: any) => _meta?.securitySchemes?.[0].type)
  }

  it('a public tool is listed as oauth2 if anonymous is not set', async () => {
    expect(await metas({ securitySchemes: true })).to.deep.equal(['oauth2', 'oauth2', 'oauth2'])
  })

  it('tools are listed without security schemes if anonymous is set and securitySchemes is false', async () => {
    const none = [undefined, undefined, undefined]
    expect(await metas({ anonymous: true, securitySchemes: false })).to.deep.equal(none)
  })
})

describe('public operations of a router function', () => {
  const factory: ServerFactory = ({ auth }) => {
    const server = new McpServer({ name: 'test', version: '1' })
    for (const name of ['search', 'save', 'wipe'])
      server.registerTool(name, {}, () => ({
        content: [{ type: 'text', text: `${name} ${auth === undefined ? 'anonymous' : 'signed in'}` }],
      }))
    server.registerResource('about', 'docs://about', {}, () => ({
      contents: [{ uri: 'docs://about', text: 'x' }],
    }))
    return server
  }
  const scopes = {
    tools: { wipe: ['mcp:admin'] },
    resources: { 'docs://pages/{id}': ['mcp:admin'], 'vault://{id}': ['mcp:admin'] },
    public: { tools: ['search'], resources: ['docs://about', 'docs://{+path}', 'vault://open'] },
  }
  const requests: readonly (readonly [what: string, request: WireRequest, status: number])[] = [
    ['a list', legacy(rpc('tools/list')), 200],
    ['a public tool', legacy(call('search')), 200],
    ['a public tool of 2026-07-28', modern('tools/call', { name: 'search' }), 200],
    ['a public resource', legacy(rpc('resources/read', { uri: 'docs://about' })), 200],
    ['a tool that is not named', legacy(call('save')), 401],
    ['a tool with scopes', legacy(call('wipe')), 401],
    [
      'a resource with scopes inside a public template',
      legacy(rpc('resources/read', { uri: 'docs://pages/1' })),
      401,
    ],
    [
      'a public resource in a template with scopes',
      legacy(rpc('resources/read', { uri: 'vault://open' })),
      401,
    ],
    ['a subscription', legacy(rpc('resources/subscribe', { uri: 'docs://about' })), 401],
  ]

  for (const entry of ENTRY_POINTS.filter(({ auth }) => !auth)) {
    it(`${entry.name} serves the public operations of a router function without a token`, async () => {
      const served = await entry.serve({ router: factory, oauth: oauth({ anonymous: true }), scopes })
      for (const [what, request, status] of requests)
        expect((await served.send(request)).status, what).to.equal(status)
      expect((await served.send(legacy(call('search')))).text).to.include('search anonymous')
      expect((await served.send(legacy(call('search'), bearer('reader')))).text).to.include(
        'search signed in',
      )
      await served.close()
    })
  }

  it('scopes.public without oauth.anonymous opens nothing', async () => {
    const served = await ENTRY_POINTS[0]?.serve({ router: factory, oauth: oauth(), scopes })
    for (const [what, request] of requests) expect((await served?.send(request))?.status, what).to.equal(401)
  })
})

describe('telemetry of public operations', () => {
  it('a request that is served without a token emits kit.mcp.auth.anonymous and has no actor', async () => {
    const { telemetry, transport } = keepingEvents()
    for (const entry of ENTRY_POINTS) {
      const served = await entry.serve({ router, oauth: oauth({ anonymous: true }), telemetry })
      transport.clear()
      await served.send(modern('tools/call', { name: 'search' }))
      await telemetry.flush()
      const events = transport.getEvents()
      expect(
        events.map(({ name, level }) => `${name} ${level}`),
        entry.name,
      ).to.deep.equal([
        'kit.mcp.auth.anonymous debug',
        'kit.mcp.tool.completed info',
        'kit.mcp.request.completed info',
      ])
      for (const { actor } of events) expect(actor).to.equal(undefined)
      transport.clear()
      await served.send(modern('tools/call', { name: 'save' }))
      await telemetry.flush()
      expect(
        transport.getEvents().map(({ name }) => name),
        entry.name,
      ).to.deep.equal(['kit.mcp.auth.refused'])
      await served.close()
    }
    await telemetry.shutdown()
  })
})

describe('wrong options of public operations', () => {
  const server = () => ({}) as never
  const wrong: readonly (readonly [what: string, build: () => unknown, option: string, message: RegExp])[] = [
    ['anonymous for mcpAuth', () => mcpAuth(oauth({ anonymous: true })), 'anonymous', /mcpHandler/],
    [
      'public with scopes of a tool',
      () => KitMcpRouter.create().tool('a', { description: 'x', public: true, scopes: ['b'] }, () => 'x'),
      `public of tool 'a'`,
      /Remove public, or remove scopes/,
    ],
    [
      'public with scopes of a tool of a router function',
      () => createMcpAdapter({ router: server, scopes: { tools: { a: ['b'] }, public: { tools: ['a'] } } }),
      'scopes.public.tools',
      /'a'/,
    ],
    [
      'public with scopes of a resource in another spelling',
      () =>
        createMcpAdapter({
          router: server,
          scopes: { resources: { 'docs://a': ['b'] }, public: { resources: ['docs://%61'] } },
        }),
      'scopes.public.resources',
      /same URI/,
    ],
  ]
  for (const [what, build, option, message] of wrong) {
    it(`${what} is a configuration error that names the fix`, () => {
      expectConfigError(build, { code: INVALID, option, message })
    })
  }
})

describe('a policy and public operations', () => {
  for (const entry of ENTRY_POINTS) {
    it(`${entry.name} asks an anonymous caller to sign in with the scopes that the policy names`, async () => {
      const served = await entry.serve({
        router,
        oauth: oauth({ anonymous: true }),
        authorize: ({ auth }) => auth !== undefined || { deny: 'Sign in to search.', scopes: ['mcp:search'] },
      })
      try {
        const denied = await served.send(modern('tools/call', { name: 'search', arguments: {} }))
        expect(denied.status).to.equal(401)
        expect(denied.headers.get('www-authenticate')).to.match(/scope="[^"]*\bmcp:search\b/)
      } finally {
        await served.close()
      }
    })
  }
})
