import { InMemoryServerEventBus, McpServer, ResourceTemplate } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { configError } from '../support/mcp/config-error.ts'
import { onNode, type Served, web } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import {
  bearer,
  eventsOf,
  LEGACY,
  legacy,
  MODERN,
  modern,
  rpc,
  type WireAnswer,
} from '../support/mcp/wire.ts'

const SECRET = 'the salary of everybody'

/** Reads a path like a careless handler: decodes it again, and resolves it as a file system does. */
function careless(path: string): string {
  let decoded = path
  try {
    decoded = decodeURIComponent(path)
  } catch {
    // The path stays as it is.
  }
  const parts: string[] = []
  for (const part of (decoded.split(/[?#]/, 1)[0] as string).split(/[/\\]/)) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts.join('/') === 'private/salary' || parts.join('/') === 'café' ? SECRET : 'open'
}

const router = KitMcpRouter.create()
  .resourceTemplate(
    'private',
    { uriTemplate: 'files://private/{name}', scopes: ['mcp:admin'], complete: { name: () => [SECRET] } },
    () => SECRET,
  )
  .resourceTemplate(
    'any',
    {
      uriTemplate: 'files://{+path}',
      list: () => [
        { uri: 'files://public/menu', name: 'menu' },
        { uri: 'files://p%72ivate/salary', name: SECRET },
      ],
    },
    (_uri, { path }) => careless(path),
  )
  .resource('coffee', { uri: 'notes://café', scopes: ['mcp:admin'] }, () => SECRET)
  .resourceTemplate('note', { uriTemplate: 'notes://{name}' }, (_uri, { name }) => careless(name))
  .resource('web', { uri: 'https://notes.example.com/private', scopes: ['mcp:admin'] }, () => SECRET)
  .resourceTemplate('webs', { uriTemplate: 'https://{+rest}' }, (uri) =>
    uri.hostname === 'notes.example.com' && /^\/private\/?$/i.test(uri.pathname) ? SECRET : 'open',
  )
  .resource('opaque', { uri: 'urn:salary', scopes: ['mcp:admin'] }, () => SECRET)
  .resourceTemplate('urns', { uriTemplate: 'urn:{+name}' }, (_uri, { name }) =>
    decodeURIComponent(name) === 'salary' ? SECRET : 'open',
  )

const factory = () => {
  const server = new McpServer({ name: 'own', version: '1' })
  const read =
    (text: (uri: URL, value: string) => string) =>
    (uri: URL, variables?: Record<string, string | string[]>) => ({
      contents: [{ uri: uri.href, text: text(uri, String(Object.values(variables ?? {})[0] ?? '')) }],
    })
  const template = (uri: string) => new ResourceTemplate(uri, { list: undefined })
  const open = read((_uri, value) => careless(decodeURIComponent(value)))
  server.registerResource(
    'private',
    template('files://private/{name}'),
    {},
    read(() => SECRET),
  )
  server.registerResource('any', template('files://{+path}'), {}, open)
  server.registerResource('coffee', 'notes://caf%C3%A9', {}, (uri) => read(() => SECRET)(uri))
  server.registerResource('note', template('notes://{name}'), {}, open)
  server.registerResource('web', 'https://notes.example.com/private', {}, (uri) => read(() => SECRET)(uri))
  server.registerResource(
    'webs',
    template('https://{+rest}'),
    {},
    read((uri) =>
      uri.hostname === 'notes.example.com' && /^\/private\/?$/i.test(decodeURIComponent(uri.pathname))
        ? SECRET
        : 'open',
    ),
  )
  server.registerResource('opaque', 'urn:salary', {}, (uri) => read(() => SECRET)(uri))
  server.registerResource(
    'urns',
    template('urn:{+name}'),
    {},
    read((_uri, value) => (decodeURIComponent(value) === 'salary' ? SECRET : 'open')),
  )
  return server
}

const scopes = {
  resources: {
    'files://private/{name}': ['mcp:admin'],
    'notes://café': ['mcp:admin'],
    'https://notes.example.com/private': ['mcp:admin'],
    'urn:salary': ['mcp:admin'],
  },
}

const adapters: readonly { readonly name: string; readonly adapter: McpAdapter }[] = [
  { name: 'a KitMcpRouter', adapter: createMcpAdapter({ router, oauth: oauth() }) },
  { name: 'a router function', adapter: createMcpAdapter({ router: factory, scopes, oauth: oauth() }) },
]

function read(era: string, uri: string, token: string) {
  if (era === LEGACY) return legacy(rpc('resources/read', { uri }), bearer(token))
  const name = `=?base64?${Buffer.from(uri).toString('base64')}?=`
  return modern('resources/read', { uri }, { 'mcp-name': name, ...bearer(token) })
}

const OUTCOMES = {
  scope: 'the scope is required',
  refused: '-32602',
  open: 'served',
  safe: 'the secret is not served',
} as const

function expectOutcome(answer: WireAnswer, outcome: keyof typeof OUTCOMES): void {
  expect(answer.text).to.not.contain(SECRET)
  if (outcome === 'scope') {
    expect(answer.status).to.equal(403)
    expect(answer.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:admin"')
  } else if (outcome === 'refused') {
    expect(answer.status).to.equal(200)
    expect(answer.message.error.code).to.equal(-32_602)
  } else if (outcome === 'open') expect(answer.message.result.contents[0].text).to.equal('open')
}

const READS: readonly (readonly [uri: string, outcome: keyof typeof OUTCOMES])[] = [
  ['files://private/salary', 'scope'],
  ['files://public/menu', 'open'],
  ['files://p%72ivate/salary', 'scope'],
  ['files://%70%72%69%76%61%74%65/salary', 'scope'],
  ['files://private%2Fsalary', 'scope'],
  ['files://private%2fsalary', 'scope'],
  ['files://p%2572ivate/salary', 'scope'],
  ['files://private%252Fsalary', 'scope'],
  ['files://private/%73alary', 'scope'],
  ['files://private/x/../salary', 'scope'],
  ['files://private/x/%2e%2e/salary', 'scope'],
  ['files://private/x/.%2E/salary', 'scope'],
  ['files://private/./salary', 'scope'],
  ['files://private/%2e/salary', 'scope'],
  ['files://private/../../salary', 'scope'],
  ['files://private/x%2F..%2Fsalary', 'scope'],
  ['files://x%2F..%2Fprivate%2Fsalary', 'scope'],
  ['files://x%2F%2E%2E%2Fprivate%2Fsalary', 'scope'],
  ['files://x%5C..%5Cprivate%5Csalary', 'scope'],
  ['files://private%5Csalary', 'scope'],
  ['files://private//salary', 'scope'],
  ['files:///private/salary', 'scope'],
  ['files:////private/salary', 'scope'],
  ['files://private/salary/', 'scope'],
  ['files://private/salary#x', 'scope'],
  ['files://private/salary?', 'scope'],
  ['files://private/salary?x=1', 'scope'],
  ['files://ann@private/salary', 'scope'],
  ['files://ann:pw@private/salary', 'scope'],
  ['FILES://private/salary', 'scope'],
  ['fIlEs://p%72ivate/salary', 'scope'],
  [' files://private/salary', 'scope'],
  ['files://private/salary ', 'scope'],
  ['files://PRIVATE/salary', 'open'],
  ['files://private:80/salary', 'open'],
  ['files://pr\tivate/salary', 'refused'],
  ['files://private/sal\nary', 'refused'],
  ['files://private/sal\rary', 'refused'],
  ['\tfiles://private/salary', 'refused'],
  ['files://private/salary\n', 'refused'],
  ['files://private/sal\u0000ary', 'refused'],
  ['files://private/sal\u001Fary', 'refused'],
  ['files://private/sal\u007Fary', 'refused'],
  ['files://private/sal\u0085ary', 'refused'],
  ['fi\tles://private/salary', 'refused'],
  ['files://pr%09ivate/salary', 'scope'],
  ['files://private%0A/salary', 'scope'],
  ['files://private/%ZZ', 'scope'],
  ['files://private/%', 'scope'],
  ['files://%%37%30rivate/salary', 'safe'],
  ['files://private%C0%AFsalary', 'safe'],
  ['files://private/\uD800', 'scope'],
  ['notes://café', 'scope'],
  ['notes://caf%C3%A9', 'scope'],
  ['notes://caf%c3%a9', 'scope'],
  ['notes://caf%C3%A9/', 'safe'],
  ['notes://%63af%c3%A9', 'scope'],
  ['notes://caf%25C3%25A9', 'scope'],
  ['notes://cafe\u0301', 'open'],
  ['NOTES://café', 'scope'],
  ['https://notes.example.com/private', 'scope'],
  ['HTTPS://NOTES.EXAMPLE.COM/private', 'scope'],
  ['https://notes.example.com:443/private', 'scope'],
  ['https:notes.example.com/private', 'scope'],
  ['https:\\\\notes.example.com\\private', 'scope'],
  ['https://ann:pw@notes.example.com/private', 'scope'],
  ['https://%6eotes.example.com/private', 'scope'],
  ['https://ｎotes.example.com/private', 'scope'],
  ['https://notes。example.com/private', 'scope'],
  ['https://notes.exa\u00ADmple.com/private', 'safe'],
  ['https://notes.example.com/a\\..\\private', 'scope'],
  ['https://notes.example.com/p%72ivate#x', 'scope'],
  ['https://notes.example.com//private', 'scope'],
  ['https://other.example.com/private', 'open'],
  [`https://other.example.com/${'a'.repeat(8_192 - 26)}`, 'open'],
  ['urn:salary', 'scope'],
  ['URN:salary', 'scope'],
  ['urn:s%61lary', 'scope'],
  ['urn:salary#x', 'scope'],
  ['urn:other', 'open'],
  ['private/salary', 'refused'],
  ['//private/salary', 'refused'],
  ['', 'refused'],
  ['files', 'refused'],
  ['https://', 'refused'],
  ['https://a b/', 'refused'],
  [`https://${'\u4e00'.repeat(1_500)}/`, 'refused'],
  [`files://private/${'a'.repeat(10_000)}`, 'scope'],
  [`files://private%2F${'a'.repeat(10_000)}`, 'scope'],
  [`files://private/${'./'.repeat(4_000)}salary`, 'scope'],
]

describe('hostile URIs', function () {
  this.timeout(60_000)
  const entries: { readonly name: string; readonly served: Served }[] = []
  before(async () => {
    for (const { name, adapter } of adapters) {
      entries.push({ name: `${name}, web handler`, served: web(adapter.server) })
      entries.push({ name: `${name}, Node`, served: await onNode(mcpHandler(adapter)) })
    }
  })
  after(async () => {
    for (const { served } of entries) await served.close()
  })

  const shown = (uri: string): string => JSON.stringify(uri.length > 60 ? `${uri.slice(0, 60)}…` : uri)
  const onAllEntries = async (uri: string, outcome: keyof typeof OUTCOMES): Promise<void> => {
    for (const { name, served } of entries) {
      for (const era of [LEGACY, MODERN]) {
        const answer = await served.send(read(era, uri, 'reader'))
        try {
          expectOutcome(answer, outcome)
        } catch (error) {
          throw new Error(
            `${name}, ${era}: ${(error as Error).message} (${answer.status} ${answer.text.slice(0, 300)})`,
          )
        }
      }
    }
  }
  for (const [index, [uri, outcome]] of READS.entries())
    it(`reading resources by another spelling: ${index + 1}. ${shown(uri)}: ${OUTCOMES[outcome]}`, () =>
      onAllEntries(uri, outcome))

  const kit = adapters[0]?.adapter as McpAdapter
  const send = (method: string, params: object, token = 'reader') =>
    web(kit.server).send(legacy(rpc(method, params), bearer(token)))
  const listen = (uris: readonly unknown[], token = 'reader') =>
    web(kit.server).send(
      modern('subscriptions/listen', { notifications: { resourceSubscriptions: uris } }, bearer(token)),
    )
  const reference = (uri: string) => ({
    ref: { type: 'ref/resource', uri },
    argument: { name: 'name', value: '' },
  })
  const needsScope = (answer: WireAnswer): void => expectOutcome(answer, 'scope')
  const isRefused = (answer: WireAnswer): void => expectOutcome(answer, 'refused')

  for (const uri of ['files://p%72ivate/salary', 'files://private%2Fsalary', 'files://private/x/../salary']) {
    for (const method of ['resources/subscribe', 'resources/unsubscribe'])
      it(`other operations on resources: ${method} of ${uri}: ${OUTCOMES.scope}`, async () =>
        needsScope(await send(method, { uri })))

    it(`other operations on resources: subscriptions/listen to ${uri}: ${OUTCOMES.scope}`, async () =>
      needsScope(await listen(['files://public/menu', uri])))

    it(`other operations on resources: completion for ${uri}: ${OUTCOMES.scope}`, async () =>
      needsScope(await send('completion/complete', reference(uri))))
  }

  for (const uri of [
    'files://private/{name}',
    'FILES://private/{name}',
    'files://p%72ivate/{name}',
    'files://private/x/../{name}',
  ])
    it(`other operations on resources: completion of the template ${uri}: ${OUTCOMES.scope}`, async () =>
      needsScope(await send('completion/complete', reference(uri))))

  it(`other operations on resources: completion of a template with a tab: ${OUTCOMES.refused}`, async () =>
    isRefused(await send('completion/complete', reference('files://pri\tvate/{name}'))))

  for (const method of ['resources/subscribe', 'resources/unsubscribe'])
    it(`other operations on resources: ${method} of a URI with a tab: ${OUTCOMES.refused}`, async () =>
      isRefused(await send(method, { uri: 'files://pri\tvate/salary' })))

  it(`other operations on resources: subscriptions/listen to a URI with a tab: ${OUTCOMES.refused}`, async () =>
    isRefused(await listen(['files://pri\tvate/salary'])))

  it(`other operations on resources: subscriptions/listen to 1,025 URIs: ${OUTCOMES.refused}`, async () =>
    isRefused(await listen(Array.from({ length: 1_025 }, (_, index) => `files://a/${index}`))))

  it(`other operations on resources: subscriptions/listen to 500,000 URIs: ${OUTCOMES.refused}`, async () =>
    isRefused(await listen(new Array(500_000).fill('a:b'))))

  it('other operations on resources: a batch in which one URI has a tab: only that message is rejected', async () => {
    for (const { served } of entries) {
      const batch = ['files://public/menu', 'files://pri\tvate/salary'].map((uri, id) =>
        rpc('resources/read', { uri }, id),
      )
      const answer = await served.send(
        legacy(batch, { 'mcp-protocol-version': '2025-03-26', ...bearer('reader') }),
      )
      const byId = new Map(answer.messages.map((message) => [message.id, message]))
      expect(byId.get(0).result.contents[0].text).to.equal('open')
      expect(byId.get(1).error.code).to.equal(-32_602)
    }
  })

  it(`other operations on resources: a batch with an encoded URI after another message: ${OUTCOMES.scope}`, async () => {
    const batch = ['files://public/menu', 'files://p%72ivate/salary'].map((uri, id) =>
      rpc('resources/read', { uri }, id),
    )
    for (const { served } of entries)
      needsScope(
        await served.send(legacy(batch, { 'mcp-protocol-version': '2025-03-26', ...bearer('reader') })),
      )
  })

  it('other operations on resources: resources/list with an open template that lists resources of a scoped template: only a token with the scope sees them', async () => {
    const names = async (token: string) =>
      (await send('resources/list', {}, token)).message.result.resources.map(
        (one: { name: string }) => one.name,
      )
    expect(await names('reader'))
      .to.include('menu')
      .and.not.include(SECRET)
    expect(await names('admin')).to.include.members(['menu', SECRET])
  })

  it('other operations on resources: a subscription to an unknown URI of 1 MiB: the response does not repeat the URI', async () => {
    const answer = await send('resources/subscribe', { uri: `notes://a/${'b'.repeat(1_048_576)}` }, 'admin')
    expect(answer.message.error.code).to.equal(-32_602)
    expect(answer.text.length).to.be.below(2_000)
  })

  for (const era of [LEGACY, MODERN]) {
    it(`a reader with the scope gets the resource by every spelling of its URI, and the handler gets the canonical form (${era})`, async () => {
      const seen: unknown[] = []
      const recording = KitMcpRouter.create().resourceTemplate(
        'file',
        { uriTemplate: 'Files://p%72ivate/{name}', scopes: ['mcp:admin'] },
        (uri, variables) => {
          seen.push([uri.href, variables])
          return SECRET
        },
      )
      const { server } = createMcpAdapter({ router: recording, oauth: oauth() })
      for (const uri of [
        'files://private/caf%c3%a9',
        'FILES://p%72ivate/x/../café',
        ' files://private/c%61fé',
      ])
        expect((await web(server).send(read(era, uri, 'admin'))).text).to.contain(SECRET)
      expect(seen).to.deep.equal(new Array(3).fill(['files://private/caf%C3%A9', { name: 'café' }]))
    })
  }

  it('an update reaches a subscriber for every spelling of the URI', async () => {
    const eventBus = new InMemoryServerEventBus()
    const adapter = createMcpAdapter({ router, eventBus, oauth: oauth() })
    const aborting = new AbortController()
    const request = modern(
      'subscriptions/listen',
      { notifications: { resourceSubscriptions: ['notes://café', 'notes://caf%c3%a9', 'NOTES://b'] } },
      bearer('admin'),
    )
    const response = await adapter.server(
      new Request('http://localhost:3000/mcp', {
        method: 'POST',
        headers: request.headers as Record<string, string>,
        body: request.body as string,
        signal: aborting.signal,
      }),
    )
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    const readUntil = async (count: number): Promise<any[]> => {
      while (eventsOf(text).length < count)
        text += Buffer.from((await reader.read()).value ?? []).toString('utf8')
      return eventsOf(text)
    }
    await readUntil(1)
    adapter.notify.resourceUpdated('notes://caf%C3%A9')
    eventBus.publish({ kind: 'resource_updated', uri: 'Notes://caf%c3%A9' })
    adapter.notify.resourceUpdated('notes://%62')
    adapter.notify.resourceUpdated('notes://other')
    adapter.notify.resourceUpdated('not a URI')
    adapter.notify.resourceUpdated('notes://b')
    const events = await readUntil(5)
    expect(events[0].params.notifications.resourceSubscriptions).to.deep.equal([
      'notes://caf%C3%A9',
      'notes://b',
    ])
    expect(events.slice(1).map(({ params }) => params.uri)).to.deep.equal([
      'notes://caf%C3%A9',
      'notes://caf%C3%A9',
      'notes://b',
      'notes://b',
    ])
    aborting.abort()
    await reader.cancel().catch(() => undefined)
  })

  for (const [first, second] of [
    ['notes://café', 'notes://caf%c3%a9'],
    ['notes://a', 'NOTES://%61'],
    ['https://example.com', 'https://EXAMPLE.com:443/'],
    ['files://a/b', 'files://a/x/../b'],
  ] as const) {
    it(`declaring both ${first} and ${second} is a configuration error`, () => {
      const declared = KitMcpRouter.create().resource('a', { uri: first }, () => 'x')
      expect(configError(() => declared.resource('b', { uri: second }, () => 'x')).option).to.equal(
        'resource',
      )
      const option = { resources: { [first]: [], [second]: ['mcp:admin'] } }
      expect(configError(() => createMcpAdapter({ router: factory, scopes: option })).message).to.contain(
        'same URI',
      )
    })
  }
  for (const [first, second] of [
    ['notes://café/{id}', 'notes://caf%c3%a9/{id}'],
    ['NOTES://a/{id}{?q}', 'notes://%61/{id}{?q}'],
    ['https://example.com{?q}', 'https://EXAMPLE.com/{?q}'],
  ] as const) {
    it(`declaring both templates ${first} and ${second} is a configuration error`, () => {
      const declared = KitMcpRouter.create().resourceTemplate('a', { uriTemplate: first }, () => 'x')
      const again = () => declared.resourceTemplate('b', { uriTemplate: second }, () => 'x')
      expect(configError(again).option).to.equal('resourceTemplate')
    })
  }
  for (const uri of ['notes://a\tb', 'notes://a\u0000b', `notes://${'a'.repeat(8_193)}`, 'notes']) {
    it(`declaring ${shown(uri)} is a configuration error`, () => {
      expect(configError(() => KitMcpRouter.create().resource('a', { uri }, () => 'x')).option).to.equal(
        'uri',
      )
    })
  }
  for (const uriTemplate of [
    'notes://a\t/{b}',
    'notes://a/{b}/../c',
    'notes://a/%zz/{b}',
    'notes://a b/{c}',
  ]) {
    it(`declaring the template ${shown(uriTemplate)} is a configuration error`, () => {
      const declare = () => KitMcpRouter.create().resourceTemplate('a', { uriTemplate }, () => 'x')
      expect(configError(declare).option).to.equal('uriTemplate')
    })
  }
})
