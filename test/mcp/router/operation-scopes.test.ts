import { McpServer, ResourceTemplate } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { KitMcpRouter, type McpAdapterOptions, mcpAuth } from '../../../src/index.ts'
import { createMcpAdapter, type RouterOption } from '../../../src/mcp/adapter.ts'
import { configError } from '../../support/mcp/config-error.ts'
import { ENTRY_POINTS, onNode, type Served, serving, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, LEGACY, legacy, MODERN, modern, rpc, type WireRequest } from '../../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  .tool('open', { description: 'x' }, () => 'x')
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .prompt('open', {}, () => 'x')
  .prompt('write', { scopes: ['mcp:write'] }, () => 'x')
  .resource('open', { uri: 'notes://open' }, () => 'x')
  .resource('write', { uri: 'notes://write', scopes: ['mcp:write'] }, () => 'x')
  .resource('exception', { uri: 'notes://by/eve' }, () => 'x')
  .resourceTemplate('open', { uriTemplate: 'open://{id}', complete: { id: () => [] } }, () => 'x')
  .resourceTemplate(
    'by',
    {
      uriTemplate: 'notes://by/{name}',
      scopes: ['mcp:admin'],
      list: () => [{ uri: 'notes://by/ann', name: 'ann' }],
      complete: { name: () => ['ann'] },
    },
    () => 'x',
  )

/** The same, by a server of the SDK and the option `scopes`. */
const factory = () => {
  const server = new McpServer({ name: 'own', version: '1' })
  for (const name of ['open', 'write']) {
    server.registerTool(name, {}, () => ({ content: [] }))
    server.registerPrompt(name, {}, () => ({ messages: [] }))
  }
  for (const uri of ['notes://open', 'notes://write', 'notes://by/eve'])
    server.registerResource(uri, uri, {}, () => ({ contents: [] }))
  return server
}
const factoryScopes = {
  tools: { write: ['mcp:write'] },
  prompts: { write: ['mcp:write'] },
  resources: { 'notes://write': ['mcp:write'], 'notes://by/eve': [], 'notes://by/{name}': ['mcp:admin'] },
}

const promptRef = (name: string) => ({
  ref: { type: 'ref/prompt', name },
  argument: { name: 'a', value: '' },
})
const uriRef = (uri: string) => ({
  ref: { type: 'ref/resource', uri },
  argument: { name: 'name', value: '' },
})

/** The scopes that a request needs in addition to `mcp:read`. `name` is its `Mcp-Name`. */
const OPERATIONS: readonly {
  method: string
  params: Record<string, unknown>
  name?: string
  needs?: string
  only?: string
}[] = [
  { method: 'tools/call', params: { name: 'open', arguments: {} } },
  { method: 'tools/call', params: { name: 'write', arguments: {} }, needs: 'mcp:write' },
  { method: 'prompts/get', params: { name: 'open' } },
  { method: 'prompts/get', params: { name: 'write' }, needs: 'mcp:write' },
  { method: 'resources/read', params: { uri: 'notes://open' }, name: 'notes://open' },
  { method: 'resources/read', params: { uri: 'notes://write' }, name: 'notes://write', needs: 'mcp:write' },
  { method: 'resources/read', params: { uri: 'notes://by/ann' }, name: 'notes://by/ann', needs: 'mcp:admin' },
  {
    method: 'resources/read',
    params: { uri: 'notes://by/eve' },
    name: 'notes://by/eve',
    needs: 'mcp:admin',
  },
  { method: 'resources/subscribe', params: { uri: 'notes://open' }, only: LEGACY },
  { method: 'resources/subscribe', params: { uri: 'notes://write' }, needs: 'mcp:write', only: LEGACY },
  { method: 'resources/unsubscribe', params: { uri: 'notes://by/ann' }, needs: 'mcp:admin', only: LEGACY },
  { method: 'completion/complete', params: promptRef('open') },
  { method: 'completion/complete', params: promptRef('write'), needs: 'mcp:write' },
  { method: 'completion/complete', params: uriRef('open://{id}') },
  { method: 'completion/complete', params: uriRef('notes://by/{name}'), needs: 'mcp:admin' },
  { method: 'completion/complete', params: uriRef('notes://write'), needs: 'mcp:write' },
]

const requestOf = (
  revision: string,
  { method, params, name }: (typeof OPERATIONS)[number],
  token: string,
): WireRequest =>
  revision === LEGACY
    ? legacy(rpc(method, params), bearer(token))
    : modern(method, params, { ...(name !== undefined && { 'mcp-name': name }), ...bearer(token) })

const challengeScope = (headers: Headers): string | undefined =>
  /scope="([^"]*)"/.exec(headers.get('www-authenticate') ?? '')?.[1]

const ROUTERS: readonly { name: string; router: RouterOption; options: McpAdapterOptions; known: RegExp }[] =
  [
    { name: 'a router', router, options: {}, known: /./ },
    {
      name: 'a function and its scopes',
      router: factory,
      options: { scopes: factoryScopes },
      known: /^(?:tools|prompts|resources)\/(?:call|get|read)$/,
    },
  ]

describe('mcp: scopes of operations', () => {
  for (const { name, router: served, options, known } of ROUTERS) {
    describe(name, () => {
      const { server } = createMcpAdapter({ router: served, oauth: oauth(), ...options })
      for (const revision of [LEGACY, MODERN]) {
        for (const operation of OPERATIONS) {
          const { method, params, needs, only } = operation
          if (only !== undefined && only !== revision) continue
          it(`${method} ${JSON.stringify(params)} of ${revision} needs ${needs ?? 'nothing more'}`, async () => {
            const answer = await web(server).send(requestOf(revision, operation, 'reader'))
            if (needs === undefined) {
              expect(answer.status).to.not.equal(403)
              if (known.test(method)) expect(answer.message).to.have.property('result')
              return
            }
            expect(answer.status).to.equal(403)
            expect(challengeScope(answer.headers)).to.equal(`mcp:read ${needs}`)
            const granted = await web(server).send(requestOf(revision, operation, 'admin'))
            expect(granted.status).to.not.equal(403)
          })
        }
      }

      it('the challenge of a batch names all scopes that it needs', async () => {
        const batch = [
          rpc('tools/call', { name: 'open' }, 1),
          rpc('prompts/get', { name: 'write' }, 2),
          rpc('resources/read', { uri: 'notes://by/ann' }, 3),
          null,
          rpc('resources/read', {}, 4),
          rpc('completion/complete', {}, 5),
        ]
        const headers = { ...bearer('reader'), 'mcp-protocol-version': '2025-03-26' }
        const answer = await web(server).send(legacy(batch, headers))
        expect(answer.status).to.equal(403)
        expect(challengeScope(answer.headers)).to.equal('mcp:read mcp:write mcp:admin')
      })

      it('subscriptions/listen needs the scopes of its resources', async () => {
        const listen = (...uris: string[]) =>
          modern('subscriptions/listen', { notifications: { resourceSubscriptions: uris } }, bearer('reader'))
        const answer = await web(server).send(listen('notes://open', 'notes://by/ann'))
        expect(answer.status).to.equal(403)
        expect(challengeScope(answer.headers)).to.equal('mcp:read mcp:admin')
      })

      it('the metadata document lists the scopes of operations', async () => {
        const { auth } = createMcpAdapter({ router: served, oauth: oauth(), ...options })
        const document = await auth.resource(
          new Request('https://mcp.example.com/.well-known/oauth-protected-resource'),
        )
        expect(((await document.json()) as any).scopes_supported).to.have.members([
          'mcp:read',
          'mcp:write',
          'mcp:admin',
        ])
      })
    })
  }

  describe('a function and its scopes, however a URI is written', () => {
    const text = 'for writers only'
    const { server } = createMcpAdapter({
      router: () => {
        const own = new McpServer({ name: 'own', version: '1' })
        const read = (uri: URL) => ({ contents: [{ uri: uri.href, text }] })
        own.registerResource('note', 'notes://write', {}, read)
        own.registerResource('page', 'https://notes.example.com/write', {}, read)
        own.registerResource('by', new ResourceTemplate('notes://by/{name}', { list: undefined }), {}, read)
        return own
      },
      oauth: oauth(),
      scopes: {
        resources: {
          'notes://write': ['mcp:write'],
          'https://notes.example.com/write': ['mcp:write'],
          'notes://by/{name}': ['mcp:write'],
        },
      },
    })
    for (const uri of [
      'NOTES://write',
      ' notes://write',
      'HTTPS://Notes.example.com/write',
      'https://notes.example.com:443/a/../write',
      'Notes://by/ann',
      'notes://by/./ann',
      'notes://by/%zz',
      `notes://by/${'a'.repeat(10_000)}`,
    ]) {
      it(`a router function needs the scopes of ${JSON.stringify(uri.slice(0, 50))}`, async () => {
        const read = (token: string) =>
          web(server).send(legacy(rpc('resources/read', { uri }), bearer(token)))
        const answer = await read('reader')
        expect(answer.status).to.equal(403)
        expect(challengeScope(answer.headers)).to.equal('mcp:read mcp:write')
        expect((await read('writer')).message.result.contents[0].text).to.equal(text)
      })
    }
  })

  for (const entryPoint of ENTRY_POINTS) {
    it(`scopes of operations are checked by ${entryPoint.name}`, async () => {
      const served: Served = await entryPoint.serve({ router, oauth: oauth() })
      try {
        for (const [method, params] of [
          ['prompts/get', { name: 'write' }],
          ['resources/read', { uri: 'notes://write' }],
        ] as const) {
          const answer = await served.send(legacy(rpc(method, params), bearer('reader')))
          expect(answer.status).to.equal(403)
          expect(challengeScope(answer.headers)).to.equal('mcp:read mcp:write')
        }
      } finally {
        await served.close()
      }
    })
  }

  describe('with mcpAuth alone, by the headers of 2026-07-28', () => {
    const served = serving(() =>
      onNode(mcpAuth(createMcpAdapter({ router, oauth: oauth() })), (_req, res) => res.end()),
    )
    const base64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`
    for (const [method, name, scope] of [
      ['tools/call', 'write', 'mcp:read mcp:write'],
      ['tools/call', base64('write'), 'mcp:read mcp:write'],
      ['prompts/get', 'write', 'mcp:read mcp:write'],
      ['resources/read', 'notes://by/ann', 'mcp:read mcp:admin'],
      ['resources/read', base64('notes://write'), 'mcp:read mcp:write'],
      ['resources/read', '=?base64?%%%?=', 'mcp:read'],
      ['resources/read', undefined, 'mcp:read'],
      ['resources/list', undefined, 'mcp:read'],
    ] as const) {
      it(`mcpAuth without mcpHandler names ${scope} for ${method} of ${name}, by the headers of 2026-07-28`, async () => {
        const headers = { ...bearer('stranger'), 'mcp-method': method, 'mcp-name': name }
        const answer = await served().send({ headers })
        expect(answer.status).to.equal(403)
        expect(challengeScope(answer.headers)).to.equal(scope)
      })
    }
  })

  describe('with listOnlyPermitted', () => {
    const listed = async (token: string | undefined, listOnlyPermitted: boolean) => {
      const { server } = createMcpAdapter({
        router,
        listOnlyPermitted,
        ...(token !== undefined && { oauth: oauth() }),
      })
      const names: Record<string, string[]> = {}
      for (const kind of ['tools', 'prompts', 'resources', 'resources/templates']) {
        const headers = token === undefined ? {} : bearer(token)
        const { message } = await web(server).send(legacy(rpc(`${kind}/list`), headers))
        names[kind] = Object.values(message.result as Record<string, { name: string }[]>)
          .flat()
          .map((one) => one.name)
      }
      return names
    }
    const all = {
      tools: ['open', 'write'],
      prompts: ['open', 'write'],
      resources: ['open', 'write', 'exception'],
      'resources/templates': ['open', 'by'],
    }

    it('listOnlyPermitted leaves operations out of every list that the token may not use', async () => {
      expect(await listed('reader', true)).to.deep.equal({
        tools: ['open'],
        prompts: ['open'],
        resources: ['open'],
        'resources/templates': ['open'],
      })
      expect(await listed('admin', true)).to.deep.equal({ ...all, resources: [...all.resources, 'ann'] })
    })
    it('without listOnlyPermitted, lists are complete except for resources of templates that the token may not read', async () => {
      expect(await listed('reader', false)).to.deep.equal(all)
      expect(await listed('admin', false)).to.deep.equal({ ...all, resources: [...all.resources, 'ann'] })
      expect(await listed(undefined, false)).to.deep.equal(all)
    })
  })

  it('an operation with scopes is rejected if OAuth is disabled', async () => {
    const { server } = createMcpAdapter({ router })
    const answer = await web(server).send(legacy(rpc('resources/read', { uri: 'notes://write' })))
    expect(answer.status).to.equal(403)
    expect(answer.message.error.message).to.contain('OAuth is disabled')
  })

  it('listOnlyPermitted is rejected for a router function', () => {
    const made = () =>
      createMcpAdapter({ router: () => new McpServer({ name: 'x', version: '1' }), listOnlyPermitted: true })
    expect(configError(made)).to.include({ option: 'listOnlyPermitted' })
  })
})
