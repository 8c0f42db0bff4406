import { expect } from 'chai'
import { KitMcpConfigError } from '../../src/base/options/config-error.ts'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { documentOf, jsonAnswer, largeDocument, OK, petstore, toolsOf } from '../support/openapi/documents.ts'

const app = () => undefined
const good = documentOf({ '/a': { get: { operationId: 'a', responses: OK } } })

async function refusal(document: unknown, options: unknown = { app }) {
  const error = await toolsFromOpenApi(document as object, options as { app: typeof app }).catch(
    (thrown) => thrown,
  )
  expect(error).to.be.instanceOf(KitMcpConfigError)
  return error as KitMcpConfigError
}

const circular: { self?: unknown } = {}
circular.self = circular

describe('openapi: a wrong document', () => {
  for (const [what, document, message] of [
    ['nothing', undefined, /object or a string/],
    ['a list', [], /object or a string/],
    ['an empty object', {}, /'openapi' is missing/],
    ['Swagger 2', { swagger: '2.0', info: {}, paths: {} }, /of OpenAPI 3\.0 or 3\.1, not 2\.0/],
    ['OpenAPI 3.2', { ...good, openapi: '3.2.0' }, /not 3\.2\.0/],
    ['a version that is a number', { ...good, openapi: 3.1 }, /'openapi' is missing/],
    ['a path to a file', '/etc/hosts', /not its path or URL/],
    ['a URL', 'https://example.com/openapi.json', /not its path or URL/],
    ['broken JSON', '{"openapi": ', /is not valid JSON/],
    ['broken YAML', 'openapi: [\n', /is not valid YAML/],
    ['a YAML bomb', bomb(), /is not valid YAML/],
    ['objects in a circle', circular, /not dereferenced/],
    ['no paths at all', { openapi: '3.1.0', info: { title: 't', version: '1' } }, /at #: must/],
    [
      'an operationId that is a number',
      documentOf({ '/a': { get: { operationId: 4, responses: OK } } }),
      /at #\/paths\/~1a\/get\/operationId: must be string/,
    ],
    [
      'a parameter in no place',
      documentOf({ '/a': { get: { parameters: [{ name: 'b', in: 'paht', schema: {} }], responses: OK } } }),
      /at #\/paths\/~1a\/get\/parameters\/0/,
    ],
    [
      'the same of 3.0',
      {
        ...documentOf({
          '/a': { get: { parameters: [{ name: 'b', in: 'paht', schema: {} }], responses: OK } },
        }),
        openapi: '3.0.3',
      },
      /at #\/paths\/~1a\/get\/parameters\/0/,
    ],
    ['a member too many', documentOf({ '/a': { gett: {} } }), /at #\/paths\/~1a: .*'gett'/],
    [
      'a reference to a missing schema',
      documentOf({ '/a': { get: { responses: jsonAnswer({ $ref: '#/components/schemas/Nope' }) } } }),
      /\$ref '#\/components\/schemas\/Nope' does not exist/,
    ],
    [
      'a reference to another server',
      documentOf({ '/a': { get: { responses: jsonAnswer({ $ref: 'http://127.0.0.1:9/x.json#/a' }) } } }),
      /\$ref 'http:.*not fetched/,
    ],
    ['a reference to a file', documentOf({ '/a': { $ref: './a.yaml' } }), /\$ref '\.\/a\.yaml'.*not fetched/],
    [
      'a security scheme that is not there',
      documentOf({ '/a': { get: { security: [{ oauth: ['a'] }], responses: OK } } }),
      /at #\/paths\/~1a\/get: security scheme 'oauth'/,
    ],
  ] as [string, unknown, RegExp][]) {
    it(`the error of a wrong document names the place: ${what}`, async () => {
      const { code, option, message: said } = await refusal(document)
      expect({ code, option }).to.deep.equal({ code: 'MCP_CONFIG_INVALID_OPTION', option: 'document' })
      expect(said).to.match(message)
    })
  }

  it('a document with circular references leaves the operation out, or is rejected', async () => {
    const document = documentOf(
      {
        '/a': {
          get: { operationId: 'a', parameters: [{ $ref: '#/components/parameters/A' }], responses: OK },
        },
      },
      {
        components: {
          parameters: { A: { $ref: '#/components/parameters/B' }, B: { $ref: '#/components/parameters/A' } },
        },
      },
    )
    const tools = toolsOf(await toolsFromOpenApi(document, { app }))
    expect(tools.get('a').inputSchema.properties).to.deep.equal({})
  })

  it('a document with 100 000 levels is rejected or read', async () => {
    let schema: object = {}
    for (let depth = 0; depth < 100_000; depth++) schema = { not: schema }
    expect(
      (await refusal(documentOf({ '/a': { get: { responses: jsonAnswer(schema as any) } } }))).option,
    ).to.equal('document')
  })

  for (const [what, options, option, message] of [
    ['both', { app, baseUrl: 'https://a.example' }, 'baseUrl', /together with app/],
    ['http elsewhere', { baseUrl: 'http://a.example' }, 'baseUrl', /allowInsecureHttp/],
    ['a query', { baseUrl: 'https://a.example/?a=1' }, 'baseUrl', /query/],
    ['basePath with baseUrl', { baseUrl: 'https://a.example', basePath: '/v1' }, 'basePath', /baseUrl/],
    ['an invalid scope', { app, scopes: () => 'a b' }, 'scopes', /RFC 6749/],
    ['nothing included', { app, include: () => false }, 'include', /must select at least one operation/],
    ['a tag that is not there', { app, include: { tags: ['pets'] } }, 'include.tags', /Did you mean 'pet'\?/],
    [
      'an id that is not there',
      { app, include: { operationIds: ['getPetByID'] } },
      'include.operationIds',
      /Did you mean 'getPetById'/,
    ],
    ['nothing included', { app, include: () => false }, 'include', /must select at least one operation/],
  ] as const) {
    it(`a wrong option is rejected: ${what}`, async () => {
      const error = await refusal(petstore, options)
      expect(error.option).to.equal(option)
      expect(error.message).to.match(message)
    })
  }

  it('later changes of a document have no effect', async () => {
    const document = documentOf({ '/a': { get: { operationId: 'a', responses: OK } } })
    const router = await toolsFromOpenApi(document, { app })
    document.paths['/a'].get.operationId = 'b'
    expect([...toolsOf(router).keys()]).to.deep.equal(['a'])
  })

  for (const [what, routes] of [
    ['a hundred routes', 100],
    ['a thousand routes', 1000],
  ] as const) {
    it(`${what} become as many tools`, async () => {
      const tools = toolsOf(
        await toolsFromOpenApi(largeDocument(routes), { app, outputSchemas: routes < 500 }),
      )
      expect(tools.size).to.equal(routes)
    })
  }
})

function bomb(): string {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
  for (let level = 1; level < 12; level++) {
    const alias = `*a${level - 1}`
    lines.push(`a${level}: &a${level} [${Array(9).fill(alias).join(', ')}]`)
  }
  return lines.join('\n')
}
