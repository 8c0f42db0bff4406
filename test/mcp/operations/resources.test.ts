import { expect } from 'chai'
import fc from 'fast-check'
import { createMcpAdapter, KitMcpRouter, KitToolError, mcpHandler } from '../../../src/index.ts'
import type { ResourceConfig } from '../../../src/mcp/router/resource.ts'
import { checkUriTemplate } from '../../../src/mcp/router/uris/uri-template.ts'
import { CLIENT_KINDS, type Connected, errorOf } from '../../support/mcp/clients.ts'
import { configError } from '../../support/mcp/config-error.ts'
import { onNode, serving, web } from '../../support/mcp/entry-points.ts'
import { modern } from '../../support/mcp/wire.ts'

const TEXT: ResourceConfig = {
  uri: 'notes://text',
  title: 'Text',
  description: 'A text',
  size: 5_000_000_000,
  annotations: { audience: ['user'], priority: 1 },
  icons: [{ src: 'https://example.com/text.png' }],
  _meta: { 'example.com/kind': 'text' },
}
const router = KitMcpRouter.create()
  .context(() => ({ owner: 'ann' }))
  .resource('text', TEXT, (uri, { context }) => `${uri.href} of ${context.owner}`)
  .resource('markdown', { uri: 'notes://markdown', mimeType: 'text/markdown' }, async () => '# title')
  .resource('bytes', { uri: 'notes://bytes' }, () => new Uint8Array([0, 1, 255]))
  .resource('slice', { uri: 'notes://slice', mimeType: 'image/png' }, () =>
    new Uint8Array([9, 0, 1, 255, 9]).subarray(1, 4),
  )
  .resource('json', { uri: 'notes://json' }, () => ({ contents: 3 }))
  .resource('whole', { uri: 'notes://whole' }, () => ({
    contents: [
      { uri: 'notes://whole#1', text: 'one' },
      { uri: 'notes://whole#2', text: 'two' },
    ],
  }))
  .resource('absent', { uri: 'notes://absent' }, () => undefined)
  .resource('refuses', { uri: 'notes://refuses' }, () => {
    throw new KitToolError('not today')
  })
  .resource('breaks', { uri: 'notes://breaks' }, () => {
    throw new Error('database password')
  })
  .resource('function', { uri: 'notes://function' }, () => () => undefined)
  .resourceTemplate(
    'note',
    {
      uriTemplate: 'notes://of/{owner}/{id}',
      title: 'A note',
      description: 'A note of a person',
      mimeType: 'text/plain',
      list: ({ context }) => [
        { uri: `notes://of/${context.owner}/1`, name: 'first' },
        { uri: `notes://of/${context.owner}/2`, name: 'second', mimeType: 'text/html' },
      ],
      complete: { id: (value, { arguments: others }) => [`${value}1-${others.owner}`] },
    },
    (_uri, { owner, id }, { context }) => (id === 'none' ? undefined : `${owner}|${id}|${context.owner}`),
  )
  .resourceTemplate('search', { uriTemplate: 'notes://search{?q,limit}' }, (_uri, variables) => variables)
  .resourceTemplate('path', { uriTemplate: 'notes://files/{+path}' }, (_uri, variables) => variables)
  .resourceTemplate('tags', { uriTemplate: 'notes://tags/{tags*}' }, (_uri, variables) => variables)

describe('mcp: resources', () => {
  const served = serving(() => onNode(mcpHandler(createMcpAdapter({ router }))))

  for (const { name, connect } of CLIENT_KINDS) {
    describe(name, () => {
      let connected: Connected
      beforeEach(async () => {
        connected = await connect(served().origin)
      })
      afterEach(async () => connected.close())

      it('a client lists resources, including those of templates', async () => {
        const { resources } = await connected.client.listResources()
        expect(resources[0]).to.deep.include({ name: 'text', ...TEXT })
        expect(resources.slice(-2)).to.deep.equal([
          { uri: 'notes://of/ann/1', name: 'first', mimeType: 'text/plain' },
          { uri: 'notes://of/ann/2', name: 'second', mimeType: 'text/html' },
        ])
        expect(resources).to.have.length(12)
      })

      it('a client lists templates with their descriptions', async () => {
        const { resourceTemplates } = await connected.client.listResourceTemplates()
        expect(resourceTemplates).to.deep.equal([
          {
            name: 'note',
            uriTemplate: 'notes://of/{owner}/{id}',
            title: 'A note',
            description: 'A note of a person',
            mimeType: 'text/plain',
          },
          { name: 'search', uriTemplate: 'notes://search{?q,limit}' },
          { name: 'path', uriTemplate: 'notes://files/{+path}' },
          { name: 'tags', uriTemplate: 'notes://tags/{tags*}' },
        ])
      })

      for (const [uri, content] of [
        ['notes://text', { mimeType: 'text/plain', text: 'notes://text of ann' }],
        ['notes://markdown', { mimeType: 'text/markdown', text: '# title' }],
        ['notes://bytes', { mimeType: 'application/octet-stream', blob: 'AAH/' }],
        ['notes://slice', { mimeType: 'image/png', blob: 'AAH/' }],
        ['notes://json', { mimeType: 'application/json', text: '{"contents":3}' }],
        ['notes://of/bob/7', { mimeType: 'text/plain', text: 'bob|7|ann' }],
        ['notes://of/b%20b/%2Fetc', { mimeType: 'text/plain', text: 'b b|/etc|ann' }],
        ['notes://search?q=a%26b&limit=5', { mimeType: 'application/json', text: '{"q":"a&b","limit":"5"}' }],
        ['notes://files/a/b/c', { mimeType: 'application/json', text: '{"path":"a/b/c"}' }],
        ['notes://tags/red,blue', { mimeType: 'application/json', text: '{"tags":["red","blue"]}' }],
        ['notes://tags/red', { mimeType: 'application/json', text: '{"tags":["red"]}' }],
      ] as const) {
        it(`a client reads ${uri}`, async () => {
          const { contents } = await connected.client.readResource({ uri })
          expect(contents).to.deep.equal([{ uri, ...content }])
        })
      }

      it('a complete result is sent unchanged', async () => {
        const { contents } = await connected.client.readResource({ uri: 'notes://whole' })
        expect(contents.map((one: { text: string }) => one.text)).to.deep.equal(['one', 'two'])
      })

      for (const [uri, code, words] of [
        ['notes://unknown', -32_602, /not found/i],
        ['notes://absent', -32_602, /not found/i],
        ['notes://of/bob/none', -32_602, /not found/i],
        ['notes://of/bob/%', -32_602, /not found/i],
        [`notes://of/bob/${'x'.repeat(8192)}`, -32_602, /not found/i],
        ['no uri', -32_602, /not valid/],
        ['notes://refuses', -32_603, /not today/],
        ['notes://breaks', -32_603, /Reading the resource failed\. Reference: [0-9a-f-]{36}$/],
        ['notes://function', -32_603, /Reading the resource failed\. Reference: /],
      ] as const) {
        it(`a client receives the problem of ${uri.slice(0, 30)}`, async () => {
          const error = await errorOf(connected.client.readResource({ uri }))
          expect(error.code).to.equal(code)
          expect(error.message).to.match(words).and.not.contain('password')
        })
      }

      it('variables are completed by other variables', async () => {
        const { completion } = await connected.client.complete({
          ref: { type: 'ref/resource', uri: 'notes://of/{owner}/{id}' },
          argument: { name: 'id', value: '2' },
          context: { arguments: { owner: 'bob' } },
        })
        expect(completion.values).to.deep.equal(['21-bob'])
      })

      it('a template without completers has no suggestions, and an unknown template is an error', async () => {
        const complete = (uri: string) =>
          connected.client.complete({
            ref: { type: 'ref/resource', uri },
            argument: { name: 'id', value: '' },
          })
        for (const uri of ['notes://search{?q,limit}', 'notes://text'])
          expect((await complete(uri)).completion.values).to.deep.equal([])
        expect((await errorOf(complete('notes://{nothing}'))).code).to.equal(-32_602)
      })
    })
  }

  it('a template that fails to list is an error with a reference', async () => {
    const broken = KitMcpRouter.create().resourceTemplate(
      'note',
      {
        uriTemplate: 'notes://{id}',
        list: () => {
          throw new Error('database password')
        },
      },
      () => 'x',
    )
    const { message } = await web(createMcpAdapter({ router: broken }).server).send(modern('resources/list'))
    expect(message.error).to.include({ code: -32_603 })
    expect(message.error.message).to.match(/^Listing the resources failed\. Reference: /)
  })

  describe('wrong use', () => {
    const resource = (name: unknown, config: object = { uri: 'notes://a' }, handler: unknown = () => 'x') =>
      KitMcpRouter.create().resource(name as string, config as never, handler as () => string)
    const template = (uriTemplate: unknown, config: object = {}) =>
      KitMcpRouter.create().resourceTemplate(
        'a',
        { uriTemplate: uriTemplate as string, ...config },
        () => 'x',
      )
    for (const [what, act, option, words] of [
      ['a bad name', () => resource('a\u0007b'), 'resource', '1 to 128'],
      ['no name', () => resource(''), 'resource', '1 to 128'],
      [
        'metadata that cannot be sent',
        () => resource('a', { uri: 'notes://a', _meta: { act: () => 'x' } }),
        "_meta of resource 'a'",
        'JSON values',
      ],
      [
        'a duplicate name',
        () => resource('a').resource('a', { uri: 'notes://b' }, () => 'x'),
        'resource',
        'already registered',
      ],
      [
        'a duplicate URI',
        () => resource('a').resource('b', { uri: 'notes://a' }, () => 'x'),
        'resource',
        "'b' has the URI 'notes://a', which is already registered",
      ],
      [
        'a duplicate template',
        () => template('notes://{id}').resourceTemplate('b', { uriTemplate: 'notes://{id}' }, () => 'x'),
        'resourceTemplate',
        'already registered',
      ],
    ] as const) {
      it(`a resource or template is rejected: ${what}`, () => {
        const error = configError(act)
        expect(error.option).to.equal(option)
        expect(error.message).to.contain(words)
      })
    }
  })

  it('values that were put into a template are found in its URI', () => {
    const { match } = checkUriTemplate('test', 'notes://{owner}/x{/id}{?q}')
    const part = fc.string({ minLength: 1, unit: 'grapheme' })
    fc.assert(
      fc.property(part, part, part, (owner, id, q) => {
        const [a, b, c] = [owner, id, q].map(encodeURIComponent)
        expect(match(`notes://${a}/x/${b}?q=${c}`)).to.deep.equal({ owner, id, q })
      }),
    )
  })
})
