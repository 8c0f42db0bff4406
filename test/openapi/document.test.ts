import { expect } from 'chai'
import { type OpenApiDocument, pointerOf, readDocument } from '../../src/openapi/document.ts'
import { expectConfigRejection } from '../support/config-error.ts'
import { documentOf, jsonAnswer, OK } from '../support/openapi/documents.ts'

const good = documentOf({ '/a': { get: { operationId: 'a', responses: OK } } })

describe('openapi: readDocument', () => {
  const yaml = 'openapi: 3.1.0\ninfo: { title: t, version: "1" }\npaths: {}\n'
  for (const [what, given, is30] of [
    ['an object', good, false],
    ['JSON', JSON.stringify(good), false],
    ['JSON after white space', `\n  ${JSON.stringify(good)}`, false],
    ['YAML', yaml, false],
    ['an object of 3.0', { ...good, openapi: '3.0.3' }, true],
    ['YAML of 3.0', yaml.replace('3.1.0', '3.0.0'), true],
  ] as const) {
    it(`readDocument returns a document for ${what}`, async () => {
      const document = await readDocument(given)
      expect(document.is30).to.equal(is30)
      expect(document.root).to.include({ openapi: is30 ? document.root.openapi : '3.1.0' })
      expect(document.root.info).to.include({ version: '1' })
    })
  }

  const responses = (schema: object) =>
    documentOf({ '/a': { get: { responses: jsonAnswer(schema as never) } } })
  const oauth2 = { type: 'oauth2', flows: { implicit: { authorizationUrl: 5, scopes: {} } } }
  for (const [what, given, message] of [
    ['JSON that ends early', '{"openapi": ', /^document is not valid JSON: Unexpected end of JSON input\b/],
    [
      'JSON with a secret',
      '{"openapi": "3.1.0", "secret": s3cret}',
      /^document is not valid JSON: Unexpected token 's'\. /,
    ],
    [
      'JSON with text after it',
      '{} s3cret',
      /^document is not valid JSON: Unexpected non-whitespace character after JSON/,
    ],
    ['YAML that ends early', 'openapi: [\n', /^document is not valid YAML: [^\n]* at line \d, column \d/],
    [
      'an error within errors',
      documentOf({
        '/a': { get: { parameters: [{ name: 'b', in: 'query', schema: {}, bb: 1 }], responses: OK } },
      }),
      /^document is wrong at #\/paths\/~1a\/get\/parameters\/0: [^.]*\('bb'\)/,
    ],
    [
      'a deep error after others',
      {
        ...documentOf({}, { components: { securitySchemes: { a: oauth2 } } }),
        openapi: '3.0.3',
      },
      /^document is wrong at #\/components\/securitySchemes\/a\/flows\/implicit\/authorizationUrl: must be string/,
    ],
    [
      'a broken reference',
      responses({ $ref: '#/components/schemas/Nope' }),
      /^document is wrong: \$ref '#\/components\/schemas\/Nope' does not exist/,
    ],
    [
      'a broken reference with escapes',
      responses({ $ref: '#/components/schemas/No%2Dpe' }),
      /^document is wrong: \$ref '#\/components\/schemas\/No(?:%2D|-)pe' does not exist/,
    ],
    [
      'an external reference',
      responses({ $ref: 'http://169.254.169.254/latest/meta-data' }),
      /^document is wrong: \$ref 'http:\/\/169\.254\.169\.254\/latest\/meta-data' is outside/,
    ],
  ] as const) {
    it(`the error of a document with ${what} describes the problem`, async () => {
      await expectConfigRejection(readDocument(given), {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'document',
        message,
      })
      const { message: said } = (await readDocument(given).catch((error: unknown) => error)) as Error
      expect(said).to.not.contain('s3cret').and.not.contain('undefined')
    })
  }
})

describe('openapi: references', () => {
  let document: OpenApiDocument
  before(async () => {
    const chain = Array.from({ length: 40 }, (_, index) => [
      `C${index}`,
      index === 39 ? { type: 'string' } : { $ref: `#/components/schemas/C${index + 1}` },
    ])
    document = await readDocument(
      documentOf(
        { '/a b': { get: { operationId: 'a', responses: OK } } },
        {
          components: {
            schemas: {
              ...Object.fromEntries(chain),
              Loop: { $ref: '#/components/schemas/Loop' },
              Named: { properties: { 'a~b': { type: 'number' } } },
            },
          },
        },
      ),
    )
  })

  for (const [ref, steps] of [
    ['#/a', ['a']],
    ['#/a/b', ['a', 'b']],
    ['#/', ['']],
    ['#/~1a~0b', ['/a~b']],
    ['#/~01', ['~1']],
    ['#/a%20b', ['a b']],
    ['#/a%2Fb', ['a/b']],
    ['#/100%', ['100%']],
    ['#/100%/a%20b', ['100%', 'a b']],
  ] as const) {
    it(`the pointer ${ref} has the steps ${JSON.stringify(steps)}`, () => {
      expect(pointerOf(ref)).to.deep.equal(steps)
    })
  }

  for (const [ref, found] of [
    ['#/openapi', '3.1.0'],
    ['#/components/schemas/Named/properties/a~0b/type', 'number'],
    ['#/components/schemas/C39/type', 'string'],
    ['#/paths/~1a%20b/get/operationId', 'a'],
    ['#/paths/~1a b/get/operationId', 'a'],
    ['#/nothing', undefined],
    ['#/nothing/a', undefined],
    ['#/openapi/length', undefined],
    ['#/toString', undefined],
    ['openapi', undefined],
    ['/openapi', undefined],
    ['x.yaml#/openapi', undefined],
  ] as const) {
    it(`the node at ${ref} is ${found}`, () => {
      expect(document.at(ref)).to.equal(found)
    })
  }

  for (const [what, node, found] of [
    ['a node without a reference', { type: 'null' }, { type: 'null' }],
    ['a reference', { $ref: '#/components/schemas/Named/properties/a~0b' }, { type: 'number' }],
    ['a reference after 30 others', { $ref: '#/components/schemas/C9' }, { type: 'string' }],
    ['a reference after 31 others', { $ref: '#/components/schemas/C8' }, undefined],
    ['a reference to itself', { $ref: '#/components/schemas/Loop' }, undefined],
    ['a broken reference', { $ref: '#/nothing' }, undefined],
    ['a reference to a string', { $ref: '#/openapi' }, undefined],
    ['a member $ref that is not a string', { $ref: 5 }, { $ref: 5 }],
    ['a string', 'x', undefined],
    ['nothing', undefined, undefined],
    ['a list', [], undefined],
  ] as const) {
    it(`resolve() of ${what} returns ${JSON.stringify(found)}`, () => {
      expect(document.resolve(node)).to.deep.equal(found)
    })
  }
})
