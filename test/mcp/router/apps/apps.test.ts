import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import {
  EXTENSION_ID,
  RESOURCE_MIME_TYPE,
  RESOURCE_URI_META_KEY,
} from '@modelcontextprotocol/ext-apps/server'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect } from 'chai'
import { createMcpAdapter, mcpHandler } from '../../../../src/index.ts'
import { Instrumentation } from '../../../../src/mcp/instrumentation/instrumentation.ts'
import {
  APP_MIME_TYPE,
  APPS_EXTENSION,
  CSP_RULES,
  OLD_URI_META_KEY,
  PERMISSION_RULES,
} from '../../../../src/mcp/router/apps/app.ts'
import { KitMcpRouter, tableOf } from '../../../../src/mcp/router/router.ts'
import { StdioConnection } from '../../../../src/mcp/stdio/stdio-connection.ts'
import { expectConfigError } from '../../../support/config-error.ts'
import { CLIENT_KINDS, type Connected } from '../../../support/mcp/clients.ts'
import { onNode, type Served } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import {
  bearer,
  call,
  initialization,
  LEGACY,
  legacy,
  MODERN,
  modern,
  rpc,
} from '../../../support/mcp/wire.ts'
import { keepingEvents } from '../../../support/telemetry/recording.ts'

const HTML = '<!doctype html><title>é</title><script>"</script>"</script>'
const CSP = {
  connectDomains: ['https://api.example.com', 'wss://live.example.com:8443'],
  resourceDomains: ['https://*.example.com'],
  frameDomains: [],
  baseUriDomains: ['http://localhost:3000'],
}
const UI = {
  csp: CSP,
  permissions: { camera: {}, clipboardWrite: {} },
  domain: 'a904794854a047f6.claudemcpcontent.com',
  prefersBorder: false,
}
const done = () => 'done'
const create = () => KitMcpRouter.create()

const router = create()
  .app('chart', {
    html: HTML,
    title: 'A chart',
    description: 'Shows sales',
    _meta: { 'example.com/kind': 'chart' },
    ...UI,
  })
  .app('own', { html: HTML, uri: 'ui://sales/own.html', scopes: ['mcp:admin'] })
  .app('shared', { html: HTML })
  .app('open', { html: HTML })
  .app('free', { html: HTML, scopes: [] })
  .tool('pay', { description: 'x', app: 'free', scopes: ['mcp:admin'] }, done)
  .tool(
    'sales',
    { description: 'x', app: 'chart', scopes: ['mcp:write'], _meta: { 'example.com/a': 1 } },
    done,
  )
  .tool('wipe', { description: 'x', app: 'chart', scopes: ['mcp:admin', 'mcp:write'] }, done)
  .tool('refresh', { description: 'x', app: 'own', visibility: ['app'] }, done)
  .tool('save', { description: 'x', app: 'shared', scopes: ['mcp:write'] }, done)
  .tool('list', { description: 'x', app: 'shared' }, done)
  .tool('search', { description: 'x', app: 'open', public: true }, done)
  .tool('plain', { description: 'x', visibility: ['model', 'app'] }, done)

const INVALID = 'MCP_CONFIG_INVALID_OPTION' as const
const UNKNOWN = 'MCP_CONFIG_UNKNOWN_OPTION' as const
const app = (config: object) => create().app('chart', { html: HTML, ...config } as never)
const file = (path: unknown, more: object = {}) => create().app('chart', { file: path, ...more } as never)
const built = (made: KitMcpRouter) => createMcpAdapter({ router: made })

type Row = readonly [what: string, build: () => unknown, message: RegExp, code?: typeof UNKNOWN]

/** Wrong definitions by the option that the error names. The code is `INVALID` unless the row says otherwise. */
const WRONG: Readonly<Record<string, readonly Row[]>> = {
  "html of app 'chart'": [
    [
      'html of more than maxBytes bytes',
      () => app({ html: '<é', maxBytes: 2 }),
      /more than 2 bytes\. Make .* raise maxBytes/,
    ],
    [
      'html of more than 1 MiB without maxBytes',
      () => app({ html: `<p>${'a'.repeat(1_048_576)}` }),
      /more than 1048576 bytes/,
    ],
  ],
  "file of app 'chart'": [
    ['an app with html and file', () => file('a.html', { html: HTML }), /together with html\. Remove one/],
  ],
  "_meta of app 'chart'": [
    ['_meta of an app with ui', () => app({ _meta: { ui: {} } }), /must not contain 'ui'.* Set csp/],
  ],
  "_meta of tool 'a'": [
    [
      '_meta of a tool with ui and app',
      () => create().tool('a', { description: 'x', app: 'chart', _meta: { ui: {} } }, done),
      /must not contain 'ui' together.* Remove 'ui'/,
    ],
  ],
  "app of tool 'a'": [
    [
      'a tool with an app that does not exist',
      () => built(create().tool('a', { description: 'x', app: 'chart' }, done)),
      /name of an app .*received 'chart'\. Add the app/,
    ],
    [
      'a tool with a resource as app',
      () =>
        built(
          create()
            .resource('chart', { uri: 'ui://chart' }, done)
            .tool('a', { description: 'x', app: 'chart' }, done),
        ),
      /name of an app/,
    ],
  ],
  "app 'chart'": [
    ['an app that no tool names', () => built(app({})), /not named by any tool\. Set app: 'chart'/],
  ],
  "scopes of app 'chart'": [
    [
      'an app whose tools need different scopes',
      () =>
        built(
          app({})
            .tool('a', { description: 'x', app: 'chart', scopes: ['one'] }, done)
            .tool('b', { description: 'x', app: 'chart', scopes: ['two'] }, done),
        ),
      /must be set, because its tools 'a' and 'b' need different scopes\. Set them/,
    ],
  ],
  app: [
    [
      'two apps with the same name',
      () => app({}).app('chart', { html: HTML, uri: 'ui://other' }),
      /'chart' is already registered/,
    ],
    [
      'two apps with the same URI',
      () => app({}).app('other', { html: HTML, uri: 'ui://chart' }),
      /URI 'ui:\/\/chart', which is already registered/,
    ],
    [
      'two merged apps with the same URI',
      () => create().merge('a', app({})).merge('b', app({})),
      /'b_chart' has the URI 'ui:\/\/chart', which is already/,
    ],
  ],
}

interface Definition {
  readonly name: string
  readonly _meta?: any
}

const named = (list: readonly Definition[], name: string): any => list.find((one) => one.name === name)

describe('mcp/router: apps', () => {
  for (const [option, rows] of Object.entries(WRONG))
    for (const [what, build, message, code = INVALID] of rows)
      it(`${what} is a configuration error`, () => expectConfigError(build, { code, option, message }))

  it('the constants of apps are those of the reference implementation', () => {
    expect([APPS_EXTENSION, APP_MIME_TYPE, OLD_URI_META_KEY]).to.deep.equal([
      EXTENSION_ID,
      RESOURCE_MIME_TYPE,
      RESOURCE_URI_META_KEY,
    ])
    const { properties } = schemaOf('McpUiResourceMeta')
    expect(Object.keys(CSP_RULES)).to.have.members(Object.keys(properties.csp.properties))
    expect(Object.keys(PERMISSION_RULES)).to.have.members(Object.keys(properties.permissions.properties))
    expect(Object.keys(UI)).to.have.members(Object.keys(properties))
  })

  it('a file is read when the app is added, also through a URL', async () => {
    const url = new URL('../../../../../src/mcp/router/router.ts', import.meta.url)
    const made = file(url, { uri: 'ui://file' }).tool('a', { description: 'x', app: 'chart' }, done)
    await using served = await serve({ router: made })
    const { message } = await served.send(
      modern('resources/read', { uri: 'ui://file' }, uriHeader('ui://file')),
    )
    expect(message.result.contents[0].text).to.equal(readFileSync(url, 'utf8'))
  })

  for (const { name, connect } of CLIENT_KINDS) {
    describe(`for a ${name}`, () => {
      let served: Served
      let reader: Connected
      let writer: Connected
      before(async () => {
        served = await onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth() })))
        reader = await connect(served.origin, { token: 'reader' })
        writer = await connect(served.origin, { token: 'writer' })
      })
      after(async () => {
        await reader.close()
        await writer.close()
        await served.close()
      })

      it(`a ${name} sees that the server supports apps`, () => {
        expect(reader.client.getServerCapabilities().extensions).to.deep.equal({ [EXTENSION_ID]: {} })
      })

      it(`a ${name} finds the URI of an app in the metadata of its tools`, async () => {
        const { tools } = await reader.client.listTools()
        expect(named(tools, 'sales')._meta).to.deep.equal({
          'example.com/a': 1,
          ui: { resourceUri: 'ui://chart' },
          'ui/resourceUri': 'ui://chart',
        })
        expect(named(tools, 'refresh')._meta).to.deep.equal({
          ui: { resourceUri: 'ui://sales/own.html', visibility: ['app'] },
          'ui/resourceUri': 'ui://sales/own.html',
        })
        expect(named(tools, 'plain')._meta).to.deep.equal({ ui: { visibility: ['model', 'app'] } })
        const validate = new Ajv2020({ strict: false }).compile(schemaOf('McpUiToolMeta'))
        for (const { _meta } of tools) expect(validate(_meta.ui)).to.equal(true)
      })

      it(`a ${name} finds the metadata of an app in the list and in the content`, async () => {
        const { resources } = await reader.client.listResources()
        const meta = { 'example.com/kind': 'chart', ui: UI }
        expect(named(resources, 'chart')).to.deep.equal({
          name: 'chart',
          uri: 'ui://chart',
          title: 'A chart',
          description: 'Shows sales',
          mimeType: RESOURCE_MIME_TYPE,
          size: Buffer.byteLength(HTML),
          _meta: meta,
        })
        expect(named(resources, 'shared')).not.to.have.property('_meta')
        const { contents } = await writer.client.readResource({ uri: 'ui://chart' })
        expect(contents).to.deep.equal([
          { uri: 'ui://chart', mimeType: RESOURCE_MIME_TYPE, text: HTML, _meta: meta },
        ])
        const plain = await writer.client.readResource({ uri: 'ui://shared' })
        expect(plain.contents[0]).not.to.have.property('_meta')
        const validate = new Ajv2020({ strict: false }).compile(schemaOf('McpUiResourceMeta'))
        expect(validate(contents[0]._meta.ui), JSON.stringify(validate.errors)).to.equal(true)
      })
    })
  }

  describe('access', () => {
    let served: Served
    before(async () => {
      served = await serve({ router, oauth: oauth({ anonymous: true }) })
    })
    after(() => served.close())

    const WRITE = /scope="mcp:read mcp:write"/
    const ADMIN = /scope="mcp:read mcp:admin"/
    const READS: readonly (readonly [string, string | undefined, string, number, RegExp?])[] = [
      ['an app of tools with more and fewer scopes', 'reader', 'ui://chart', 403, WRITE],
      ['an app of tools with more and fewer scopes', 'writer', 'ui://chart', 200],
      ['an app with scopes of its own', 'writer', 'ui://sales/own.html', 403, ADMIN],
      ['an app with scopes of its own', 'admin', 'ui://sales/own.html', 200],
      ['an app of a tool without scopes', 'reader', 'ui://shared', 200],
      ['an app of a tool without scopes', undefined, 'ui://shared', 401],
      ['an app of a public tool', undefined, 'ui://open', 200],
      ['an app with an empty list of scopes', 'reader', 'ui://free', 200],
      ['an app with an empty list of scopes', undefined, 'ui://free', 401],
    ]
    for (const [what, token, uri, status, challenge] of READS)
      for (const era of [LEGACY, MODERN])
        it(`${what} is read by ${token ?? 'a request without a token'} in ${era} with ${status}`, async () => {
          const headers = token === undefined ? {} : bearer(token)
          const answer = await served.send(
            era === MODERN
              ? modern('resources/read', { uri }, { ...headers, ...uriHeader(uri) })
              : legacy(rpc('resources/read', { uri }), headers),
          )
          expect(answer.status).to.equal(status)
          if (status === 200) expect(answer.message.result.contents[0].text).to.equal(HTML)
          if (challenge !== undefined) expect(answer.headers.get('www-authenticate')).to.match(challenge)
        })
  })

  it('an app of a public tool with public: false needs a token', async () => {
    const made = create()
      .app('chart', { html: HTML, public: false })
      .tool('a', { description: 'x', app: 'chart', public: true }, done)
    await using served = await serve({ router: made, oauth: oauth({ anonymous: true }) })
    expect((await served.send(legacy(rpc('resources/read', { uri: 'ui://chart' })))).status).to.equal(401)
  })

  it('a merged app has the name with the prefix and the same URI, and stays the app of its tools', async () => {
    const inner = app({}).tool('a', { description: 'x', app: 'chart', scopes: ['mcp:write'] }, done)
    await using served = await serve({ router: create().merge('in', create().merge('mid', inner)) })
    const { message: listed } = await served.send(legacy(rpc('resources/list')))
    expect(listed.result.resources).to.have.length(1)
    expect(listed.result.resources[0]).to.include({ name: 'in_mid_chart', uri: 'ui://chart' })
    const { message: tools } = await served.send(legacy(rpc('tools/list')))
    expect(tools.result.tools[0]._meta.ui.resourceUri).to.equal('ui://chart')
  })

  it('a server with apps and tasks declares both extensions', async () => {
    const made = app({}).tool('a', { description: 'x', app: 'chart', task: 'optional' }, done)
    await using served = await serve({ router: made })
    const { message } = await served.send(modern('server/discover'))
    expect(message.result.capabilities.extensions).to.deep.equal({
      [EXTENSION_ID]: {},
      'io.modelcontextprotocol/tasks': {},
    })
  })

  it('a client over stdio sees that the server supports apps, and reads one', async () => {
    const input = new PassThrough()
    const output = new PassThrough()
    const lines = createInterface({ input: output })[Symbol.asyncIterator]()
    const ask = async (message: unknown): Promise<any> => {
      input.write(`${JSON.stringify(message)}\n`)
      return JSON.parse((await lines.next()).value).result
    }
    const { ended } = new StdioConnection({
      table: tableOf(router),
      serverInfo: { name: 'test', version: '1.0.0' },
      instructions: undefined,
      instrumentation: new Instrumentation(undefined),
      maxMessageBytes: 1_000_000,
      input,
      output,
    })
    const { capabilities } = await ask(initialization())
    expect(capabilities.extensions).to.deep.equal({ [EXTENSION_ID]: {} })
    const { contents } = await ask(rpc('resources/read', { uri: 'ui://chart' }))
    expect(contents[0]).to.deep.include({ mimeType: RESOURCE_MIME_TYPE, text: HTML })
    input.end()
    await ended
  })

  it('a file in a runtime without node:fs is a configuration error that names html', () => {
    const { getBuiltinModule } = process
    process.getBuiltinModule = () => undefined as never
    try {
      expectConfigError(() => file('chart.html'), {
        code: INVALID,
        option: "file of app 'chart'",
        message: /cannot be read in this runtime\. Set html instead\./,
      })
    } finally {
      process.getBuiltinModule = getBuiltinModule
    }
  })

  it('a server without apps does not declare the extension', async () => {
    await using served = await serve({ router: create().tool('a', { description: 'x' }, done) })
    const { message } = await served.send(modern('server/discover'))
    expect(message.result.capabilities).not.to.have.property('extensions')
  })

  it('reading an app runs middleware and emits the events of a resource', async () => {
    const { telemetry, transport: events } = keepingEvents()
    const seen: string[] = []
    const made = app({})
      .tool('a', { description: 'x', app: 'chart' }, done)
      .use(async ({ kind, name }, next) => {
        seen.push(`${kind} ${name}`)
        return await next()
      })
    await using served = await serve({ router: made, telemetry })
    await served.send(legacy(rpc('resources/read', { uri: 'ui://chart' })))
    await served.send(legacy(call('a')))
    await telemetry.shutdown()
    expect(seen).to.deep.equal(['resource chart', 'tool a'])
    const read = events
      .getEvents()
      .find(({ attributes }) => attributes?.['mcp.method.name'] === 'resources/read')
    expect(read?.name).to.equal('kit.mcp.request.completed')
    expect(read?.attributes).to.include({ 'mcp.resource.uri': 'ui://chart' })
    expect(JSON.stringify(events.getEvents())).not.to.contain('<!doctype')
  })
})

/** The header of revision 2026-07-28 that repeats the URI. */
function uriHeader(uri: string): Record<string, string> {
  return { 'mcp-name': uri }
}

async function serve(setup: Parameters<typeof createMcpAdapter>[0]): Promise<Served & AsyncDisposable> {
  const served = await onNode(mcpHandler(createMcpAdapter(setup)))
  return { ...served, [Symbol.asyncDispose]: () => served.close() }
}

function schemaOf(name: string): any {
  const path = createRequire(import.meta.url).resolve('@modelcontextprotocol/ext-apps/schema.json')
  return JSON.parse(readFileSync(path, 'utf8')).$defs[name]
}
