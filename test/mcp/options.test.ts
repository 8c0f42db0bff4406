import { expect } from 'chai'
import {
  type CreateMcpAdapterOptions,
  createMcpAdapter,
  KitMcpServer,
  type McpAdapter,
} from '../../src/mcp/adapter.ts'
import { resolveAdapterOptions } from '../../src/mcp/options.ts'
import { configError } from '../support/mcp/config-error.ts'
import { web } from '../support/mcp/entry-points.ts'
import { notes, oauth } from '../support/mcp/notes.ts'
import { bearer, initialization, legacy, rpc } from '../support/mcp/wire.ts'

describe('mcp: options', () => {
  it('sessions and streams have default limits', () => {
    expect(resolveAdapterOptions({ sessions: true })).to.deep.include({
      sessions: { idleTimeoutMs: 1_800_000, max: 1_000, maxPerOwner: 100, maxBufferedBytes: 1_048_576 },
      streams: { max: 1_024, maxPerOwner: 32 },
      maxBodyBytes: 4_194_304,
      bodyTimeoutMs: 30_000,
    })
    expect(resolveAdapterOptions({ sessions: { max: 50 } }).sessions).to.include({ max: 50, maxPerOwner: 10 })
    expect(resolveAdapterOptions({}).sessions).to.equal(undefined)
  })

  it('options that are undefined count as absent', async () => {
    const { server } = createMcpAdapter({
      router: notes,
      oauth: undefined,
      serverInfo: undefined,
      instructions: undefined,
      telemetry: undefined,
      allowedOrigins: undefined,
      allowedHosts: undefined,
      listOnlyPermitted: undefined,
      maxBodyBytes: undefined,
      bodyTimeoutMs: undefined,
    })
    expect((await web(server).send(legacy(rpc('tools/list')))).status).to.equal(200)
  })

  it('withOAuth(undefined) is rejected, so that no server is open by accident', () => {
    expect(configError(() => KitMcpServer.create().withOAuth(undefined as never)).option).to.equal('oauth')
  })
  it('the server info is copied deeply', async () => {
    const info = { name: 'notes', version: '1', icons: [{ src: 'https://example.com/a.png' }] }
    const adapters = [
      createMcpAdapter({ router: notes, serverInfo: info }),
      KitMcpServer.create().router(notes).withServerInfo(info).build(),
    ]
    for (const icon of info.icons) icon.src = 'changed'
    info.icons.push({ src: 'more' })
    for (const adapter of adapters) {
      const { message } = await web(adapter.server).send(legacy(initialization()))
      expect(message.result.serverInfo.icons).to.deep.equal([{ src: 'https://example.com/a.png' }])
    }
  })
  it('each method of the builder checks its argument', () => {
    const builder = KitMcpServer.create()
    for (const [option, build] of [
      ['instructions', () => builder.withInstructions(5 as never)],
      ['telemetry', () => builder.withTelemetry({} as never)],
      ['serverInfo', () => builder.withServerInfo('notes' as never)],
      ['router', () => builder.router({} as never)],
      ['options', () => builder.withOptions([] as never)],
    ] as const)
      expect(configError(build).option).to.equal(option)
  })

  describe('the builder', () => {
    const statusOf = async (builder: KitMcpServer<any>, headers = {}) => {
      const body = JSON.stringify(rpc('tools/list'))
      return (await web(builder.build().handler).send(legacy(body, headers))).status
    }

    it('the builder is immutable', async () => {
      const open = KitMcpServer.create().router(notes)
      const closed = open.withOAuth(oauth())
      const small = closed.withOptions({ maxBodyBytes: 1 })
      expect(await statusOf(open)).to.equal(200)
      expect(await statusOf(closed)).to.equal(401)
      expect(await statusOf(closed, bearer('reader'))).to.equal(200)
      expect(await statusOf(small, bearer('reader'))).to.equal(413)
    })
    it('options of several withOptions() calls are merged, and later ones win', async () => {
      const builder = KitMcpServer.create()
        .withOptions({ maxBodyBytes: 1 })
        .withOptions({ allowedHosts: ['mcp.example.com'] })
        .router(notes)
      expect(await statusOf(builder)).to.equal(403)
      const hosted = builder.withOptions({ allowedHosts: ['localhost'] })
      expect(await statusOf(hosted)).to.equal(413)
      expect(await statusOf(hosted.withOptions({ maxBodyBytes: 1000 }))).to.equal(200)
    })
    it('the builder copies its options', async () => {
      const allowedHosts = ['localhost']
      const options = { maxBodyBytes: 1000, allowedHosts }
      const serverInfo = { name: 'before', version: '1' }
      const { handler } = KitMcpServer.create()
        .router(notes)
        .withOptions(options)
        .withServerInfo(serverInfo)
        .build()
      options.maxBodyBytes = 1
      allowedHosts[0] = 'mcp.example.com'
      serverInfo.name = 'after'
      const initialize = {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'test', version: '1' },
      }
      const { message } = await web(handler).send(legacy(rpc('initialize', initialize)))
      expect(message.result.serverInfo).to.deep.equal({ name: 'before', version: '1' })
    })
    it('the builder returns a frozen adapter whose handlers do not need this', async () => {
      const adapter = KitMcpServer.create().router(notes).withOAuth(oauth()).build()
      expect(Object.isFrozen(adapter) && Object.isFrozen(adapter.auth)).to.equal(true)
      const { cors, resource } = adapter.auth
      const url = 'https://mcp.example.com/.well-known/oauth-protected-resource'
      expect((await cors(new Request(url, { method: 'OPTIONS' }))).status).to.equal(204)
      expect((await resource(new Request(url))).status).to.equal(200)
    })
  })

  describe('the adapter', () => {
    const options = { router: notes, oauth: oauth() }
    const built = (): McpAdapter => KitMcpServer.create().router(notes).withOAuth(options.oauth).build()
    for (const [style, create, members] of [
      ['createMcpAdapter()', () => createMcpAdapter(options), ['server', 'auth']],
      ['KitMcpServer…build()', built, ['handler', 'auth']],
    ] as const) {
      it(`the adapter of ${style} lists ${members.join(' and ')} only`, () => {
        const adapter = create()
        expect(Object.keys(adapter)).to.deep.equal(members)
        expect(Object.keys({ ...adapter })).to.deep.equal(members)
        expect(Object.isFrozen(adapter)).to.equal(true)
      })
      it(`the adapter of ${style} can be destructured into handler, server, auth, and notify`, async () => {
        const { handler, server, auth, notify } = create()
        expect(server).to.equal(handler)
        expect(notify.toolsChanged).to.be.a('function')
        for (const serve of [handler, server]) {
          const request = legacy(rpc('tools/list'), bearer('reader'))
          expect((await web(serve).send(request)).status).to.equal(200)
        }
        expect((await auth.resource(new Request('https://mcp.example.com/'))).status).to.equal(200)
      })
    }
  })

  describe('auth', () => {
    const { auth } = createMcpAdapter({ router: notes, oauth: oauth() })
    const at = (path: string, init: RequestInit = {}) =>
      new Request(new URL(path, 'https://mcp.example.com'), init)
    const ROOT = '/.well-known/oauth-protected-resource'

    it('auth.resource serves the metadata document with the scopes of the endpoint and the tools', async () => {
      const document = {
        resource: 'https://mcp.example.com/mcp',
        authorization_servers: ['https://auth.example.com'],
        scopes_supported: ['mcp:read', 'mcp:write', 'mcp:admin'],
        bearer_methods_supported: ['header'],
      }
      for (const path of [ROOT, `${ROOT}/mcp`, '/mounted/elsewhere']) {
        const response = await auth.resource(at(path))
        expect(response.status, path).to.equal(200)
        expect(response.headers.get('access-control-allow-origin')).to.equal('*')
        expect(response.headers.get('cache-control')).to.equal('public, max-age=3600')
        expect(await response.json()).to.deep.equal(document)
      }
    })
    it("auth.resource does not serve another resource's document", async () => {
      expect((await auth.resource(at(`${ROOT}/other`))).status).to.equal(404)
    })
    it('auth.resource responds to HEAD without a body, and to a matching ETag with 304', async () => {
      const head = await auth.resource(at(ROOT, { method: 'HEAD' }))
      expect(head.status).to.equal(200)
      expect(await head.text()).to.equal('')
      const etag = head.headers.get('etag') ?? ''
      expect((await auth.resource(at(ROOT, { headers: { 'if-none-match': etag } }))).status).to.equal(304)
    })
    it('auth.resource responds with 404 if OAuth is disabled', async () => {
      const open = createMcpAdapter({ router: notes })
      expect((await open.auth.resource(at(ROOT))).status).to.equal(404)
      expect((await open.auth.cors(at('/mcp', { method: 'OPTIONS' }))).status).to.equal(204)
    })
    it('auth.cors permits the document to every origin, and MCP only to permitted origins', async () => {
      const preflight = { origin: 'https://evil.example', 'access-control-request-method': 'GET' }
      const asked = { method: 'OPTIONS', headers: { ...preflight, host: 'localhost' } }
      expect((await auth.cors(at(ROOT, asked))).status).to.equal(204)
      expect((await auth.cors(at('/mcp', asked))).status).to.equal(403)
    })
  })
})

describe('mcp: every option of the adapter', () => {
  for (const [option, value] of Object.entries({
    sessions: true,
    streams: { max: 5, maxPerOwner: 2 },
    allowedOrigins: '*',
    allowedHosts: ['mcp.example.com'],
    listOnlyPermitted: true,
    toolsets: { read: ['echo'] },
    unknownArguments: 'reject',
    maxBodyBytes: 1,
    bodyTimeoutMs: 1,
    cache: { ttlMs: 1 },
    requestStateSecret: 'x'.repeat(32),
    recordPayloads: true,
    recordClientAddress: true,
    recordSpans: false,
    knownClients: ['my-client'],
    confirmations: { store: { use: () => true } },
  })) {
    it(`${option} may be given, or be undefined`, () => {
      for (const given of [value, undefined])
        expect(() =>
          createMcpAdapter({ router: notes, [option]: given } as CreateMcpAdapterOptions),
        ).not.to.throw()
    })
  }
})
