import Ajv2020Module from 'ajv/dist/2020.js'
import { expect } from 'chai'
import { type OpenApiToolOptions, toolsFromOpenApi } from '../../src/openapi/index.ts'
import { documentOf, jsonAnswer, largeDocument, OK, petstore, toolsOf } from '../support/openapi/documents.ts'

const app = () => undefined
const Ajv2020 = Ajv2020Module.default

const bodyOf = (schema: object): object => ({ content: { 'application/json': { schema } } })

/** The tool of one POST with this body schema, and this answer. */
async function toolOf(schema: object, { version = '3.1.0', answer = OK, components = {} } = {}) {
  const document = documentOf(
    { '/a': { post: { operationId: 'a', requestBody: bodyOf(schema), responses: answer } } },
    { openapi: version, components: { schemas: components } },
  )
  return toolsOf(await toolsFromOpenApi(document, { app })).get('a')
}

async function left(document: object | string, options: Partial<OpenApiToolOptions> = {}) {
  const leftOut: [string, string][] = []
  const router = await toolsFromOpenApi(document, {
    app,
    onLeftOut: ({ method, path, why }) => leftOut.push([`${method} ${path}`, why]),
    ...options,
  })
  return { tools: toolsOf(router), leftOut }
}

describe('openapi: schemas', () => {
  for (const [how, onLeftOut] of [
    [
      'throws',
      () => {
        throw new Error('angry')
      },
    ],
    ['rejects', () => Promise.reject(new Error('angry'))],
  ] as const)
    it(`toolsFromOpenApi rejects with the error of an onLeftOut that ${how}`, async () => {
      const document = documentOf({ '/a': { trace: { responses: OK }, get: { responses: OK } } })
      const error = await left(document, { onLeftOut }).catch((thrown: Error) => thrown)
      expect(error).to.have.property('message', 'angry')
    })

  for (const [what, given, expected] of [
    ['nullable', { type: 'string', nullable: true }, { type: ['string', 'null'] }],
    [
      'a nullable enum',
      { type: 'string', enum: ['a'], nullable: true },
      { type: ['string', 'null'], enum: ['a', null] },
    ],
    ['nullable: false', { type: 'string', nullable: false }, { type: 'string' }],
    [
      'nullable without a type',
      { allOf: [{ type: 'string' }], nullable: true },
      { anyOf: [{ allOf: [{ type: 'string' }] }, { type: 'null' }] },
    ],
    ['nullable of anything', { nullable: true }, {}],
    [
      'exclusiveMinimum: true',
      { type: 'number', minimum: 1, exclusiveMinimum: true },
      { type: 'number', exclusiveMinimum: 1 },
    ],
    [
      'exclusiveMaximum: true',
      { type: 'number', maximum: 9, exclusiveMaximum: true },
      { type: 'number', exclusiveMaximum: 9 },
    ],
    [
      'exclusiveMinimum: false',
      { type: 'number', minimum: 1, exclusiveMinimum: false },
      { type: 'number', minimum: 1 },
    ],
    ['an example', { type: 'string', example: 'a' }, { type: 'string', examples: ['a'] }],
    ['int64', { type: 'integer', format: 'int64' }, { type: 'integer' }],
    ['byte', { type: 'string', format: 'byte' }, { type: 'string', contentEncoding: 'base64' }],
    ['uuid', { type: 'string', format: 'uuid' }, { type: 'string', format: 'uuid' }],
    ['an invalid pattern', { type: 'string', pattern: '(?i)a' }, { type: 'string' }],
    [
      'what is for others',
      { type: 'object', xml: { name: 'a' }, 'x-own': 1, externalDocs: { url: 'http://a' } },
      { type: 'object' },
    ],
    [
      'nested schemas',
      { type: 'array', items: { type: 'object', additionalProperties: { type: 'string', nullable: true } } },
      { type: 'array', items: { type: 'object', additionalProperties: { type: ['string', 'null'] } } },
    ],
  ] as [string, object, object][]) {
    it(`a schema of OpenAPI 3.0 becomes JSON Schema 2020-12: ${what}`, async () => {
      const { inputSchema } = await toolOf(given, { version: '3.0.3' })
      expect(inputSchema.properties.body).to.deep.equal(expected)
    })
  }

  it('keywords of OpenAPI 3.0 next to a reference are ignored', async () => {
    const components = { A: { type: 'string', nullable: true } }
    const given = { type: 'array', items: { $ref: '#/components/schemas/A', nullable: true, maxLength: 1 } }
    const { inputSchema } = await toolOf(given, { version: '3.0.3', components })
    expect(inputSchema.properties.body).to.deep.equal({ type: 'array', items: { $ref: '#/$defs/A' } })
    expect(inputSchema.$defs).to.deep.equal({ A: { type: ['string', 'null'] } })
  })

  it('schemas of OpenAPI 3.1 do not change', async () => {
    const schema = {
      type: ['string', 'null'],
      exclusiveMinimum: 1,
      prefixItems: [{ const: 1 }],
      if: true,
      examples: ['a'],
    }
    expect((await toolOf(schema)).inputSchema.properties.body).to.deep.equal(schema)
  })

  it('schemas refer to definitions in $defs, also recursively', async () => {
    const components = {
      Node: {
        type: 'object',
        properties: {
          next: { $ref: '#/components/schemas/Node' },
          other: { $ref: '#/components/schemas/Leaf' },
        },
      },
      Leaf: { type: 'string' },
      Unused: { type: 'number' },
    }
    const { inputSchema, outputSchema } = await toolOf(
      { $ref: '#/components/schemas/Node', description: 'the root' },
      { components, answer: jsonAnswer({ type: 'array', items: { $ref: '#/components/schemas/Node' } }) },
    )
    expect(inputSchema.properties.body).to.deep.equal({ $ref: '#/$defs/Node', description: 'the root' })
    expect(inputSchema.$defs).to.deep.equal({
      Node: {
        type: 'object',
        properties: { next: { $ref: '#/$defs/Node' }, other: { $ref: '#/$defs/Leaf' } },
      },
      Leaf: { type: 'string' },
    })
    expect(outputSchema.$defs).to.have.all.keys('Node', 'Leaf')
    const validate = new Ajv2020().compile(inputSchema)
    expect(validate({ body: { next: { next: { other: 'a' } } } })).to.equal(true)
    expect(validate({ body: { next: { next: { other: 1 } } } })).to.equal(false)
  })

  it('definitions with similar names get different names', async () => {
    const components = {
      'a.b': {
        properties: {
          x: { $ref: '#/paths/~1a/post/requestBody/content/application~1json/schema/properties/x' },
        },
      },
    }
    const { inputSchema } = await toolOf(
      { properties: { x: { type: 'string' }, y: { $ref: '#/components/schemas/a.b' } } },
      { components },
    )
    expect(inputSchema.$defs).to.have.all.keys('a.b', 'x')
    new Ajv2020({ strict: false }).compile(inputSchema)
  })

  it('readOnly properties are left out of inputs, and writeOnly properties out of outputs', async () => {
    const schema = {
      type: 'object',
      required: ['id', 'name', 'secret'],
      properties: {
        id: { type: 'string', readOnly: true },
        name: { type: 'string' },
        secret: { type: 'string', writeOnly: true },
      },
    }
    const { inputSchema, outputSchema } = await toolOf(schema, { answer: jsonAnswer(schema) })
    expect(inputSchema.properties.body).to.deep.include({ required: ['name', 'secret'] })
    expect(inputSchema.properties.body.properties).to.have.all.keys('name', 'secret')
    expect(outputSchema).to.deep.include({ required: ['id', 'name'] })
    expect(outputSchema.properties).to.have.all.keys('id', 'name')
  })

  it('schemas that are too large are cut, and stay valid', async () => {
    const { tools } = await left(largeDocument(300, 1000))
    const { outputSchema } = tools.get('getThing0')
    expect(JSON.stringify(outputSchema).length).to.be.below(110_000)
    expect(Object.values(outputSchema.$defs).at(-1)).to.deep.equal({
      $comment: 'left out: the schema is too large',
    })
    new Ajv2020({ strict: false }).compile(outputSchema)
  })

  for (const [what, responses, expected] of [
    ['one JSON answer', jsonAnswer({ type: 'object' }), { type: 'object' }],
    [
      'two JSON answers',
      {
        ...jsonAnswer({ type: 'object' }),
        201: { description: '', content: { 'application/vnd.api+json': { schema: { type: 'array' } } } },
      },
      { anyOf: [{ type: 'object' }, { type: 'array' }] },
    ],
    [
      'an answer without a body beside it',
      { ...jsonAnswer({ type: 'object' }), 204: { description: '' } },
      undefined,
    ],
    [
      'no answer but an error',
      { default: { description: '', content: { 'application/json': { schema: {} } } } },
      undefined,
    ],
    [
      'text',
      { 200: { description: '', content: { 'text/plain': { schema: { type: 'string' } } } } },
      undefined,
    ],
  ] as [string, object, object | undefined][]) {
    it(`the output schema of a tool: ${what}`, async () => {
      const { outputSchema } = await toolOf({}, { answer: responses as typeof OK })
      expect(outputSchema).to.deep.equal(expected)
    })
  }

  for (const version of ['3.0.3', '3.1.0']) {
    it(`an output schema that is only a reference is inlined (${version})`, async () => {
      const Node = { type: 'object', properties: { next: { $ref: '#/components/schemas/Node' } } }
      const Twice = { $ref: '#/components/schemas/Node' }
      const next = { $ref: '#/$defs/Node' }
      const answer = jsonAnswer({ $ref: '#/components/schemas/Twice' })
      const { outputSchema } = await toolOf({}, { version, answer, components: { Node, Twice } })
      expect(outputSchema).to.deep.equal({
        type: 'object',
        properties: { next },
        $defs: { Node: { type: 'object', properties: { next } } },
      })
    })
  }

  it('an output schema with keywords next to a reference keeps the reference', async () => {
    const Any = { type: 'object' }
    const answer = jsonAnswer({ $ref: '#/components/schemas/Any', required: ['id'] })
    const { outputSchema } = await toolOf({}, { answer, components: { Any } })
    expect(outputSchema).to.deep.equal({ $ref: '#/$defs/Any', required: ['id'], $defs: { Any } })
  })

  it('outputSchemas: false leaves output schemas out', async () => {
    const document = documentOf({ '/a': { get: { responses: jsonAnswer({ type: 'object' }) } } })
    const { tools } = await left(document, { outputSchemas: false })
    expect(tools.get('get_a')).to.not.have.property('outputSchema')
  })
})

describe('openapi: tools', () => {
  it('the pet store becomes the expected tools', async () => {
    const { tools, leftOut } = await left(petstore)
    expect([...tools.keys()]).to.deep.equal([
      ...[
        'addPet',
        'updatePet',
        'findPetsByStatus',
        'findPetsByTags',
        'getPetById',
        'updatePetWithForm',
        'deletePet',
      ],
      ...['getInventory', 'placeOrder', 'getOrderById', 'deleteOrder'],
      ...['createUser', 'createUsersWithListInput', 'loginUser', 'logoutUser'],
      ...['getUserByName', 'updateUser', 'deleteUser'],
    ])
    expect(leftOut).to.deep.equal([
      ['POST /pet/{petId}/uploadImage', 'its body is of type application/octet-stream'],
    ])
    expect(tools.get('findPetsByStatus')).to.deep.equal({
      name: 'findPetsByStatus',
      title: 'Finds Pets by status',
      description: 'Multiple status values can be provided with comma separated strings',
      annotations: { readOnlyHint: true },
      inputSchema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          status: {
            type: 'string',
            enum: ['available', 'pending', 'sold'],
            default: 'available',
            description: 'Status values that need to be considered for filter',
          },
        },
      },
      outputSchema: {
        type: 'array',
        items: { $ref: '#/$defs/Pet' },
        $defs: tools.get('findPetsByTags').outputSchema.$defs,
      },
      scopes: ['write:pets', 'read:pets'],
    })
    expect(tools.get('deletePet').annotations).to.deep.equal({
      readOnlyHint: false,
      idempotentHint: true,
      destructiveHint: true,
    })
    expect(tools.get('updatePet').annotations).to.deep.equal({ readOnlyHint: false, idempotentHint: true })
    expect(tools.get('getPetById')).to.deep.include({ scopes: ['write:pets', 'read:pets'] })
    expect(tools.get('getInventory').scopes).to.deep.equal([])
    for (const { inputSchema, outputSchema } of tools.values()) {
      const ajv = new Ajv2020({ strict: true, formats: { 'date-time': true } })
      ajv.compile(inputSchema)
      if (outputSchema !== undefined) ajv.compile(outputSchema)
    }
  })

  it('tools have unique names that every client accepts', async () => {
    const get = (operationId?: string) => ({ get: { ...(operationId && { operationId }), responses: OK } })
    const long = 'x'.repeat(80)
    const { tools } = await left(
      documentOf({
        '/a': get('meta/root'),
        '/b': get('meta root'),
        '/c/{id}/d': { ...get(), parameters: [{ name: 'id', in: 'path', required: true, schema: {} }] },
        '/': get(),
        '/e': get('läuft'),
        '/f': get('日本'),
        '/g': get(long),
        '/h': get(`${long}!`),
      }),
    )
    expect([...tools.keys()]).to.deep.equal([
      ...[
        'meta_root',
        'meta_root_2',
        'get_c_id_d',
        'get',
        'l_uft',
        'get_f',
        'x'.repeat(64),
        `${'x'.repeat(62)}_2`,
      ],
    ])
  })

  it('arguments have unique names that every client accepts', async () => {
    const schema = { type: 'string' }
    const { tools } = await left(
      documentOf({
        '/a/{id}': {
          parameters: [
            { name: 'id', in: 'path', required: true, schema },
            { name: 'filter[name]', in: 'query', description: 'from the path', schema },
          ],
          post: {
            operationId: 'a',
            parameters: [
              { name: 'id', in: 'query', required: true, schema },
              {
                name: 'filter[name]',
                in: 'query',
                description: 'from the operation',
                deprecated: true,
                schema,
              },
              { name: 'filter_name_', in: 'query', schema },
              { name: 'body', in: 'query', schema },
              ...['Authorization', 'accept', 'Cookie', 'X-Forwarded-For', 'Content-Length', 'Host'].map(
                (name) => ({ name, in: 'header', schema }),
              ),
            ],
            requestBody: { description: 'what to write', required: true, ...bodyOf(schema) },
            responses: OK,
          },
        },
      }),
    )
    expect(tools.get('a').inputSchema).to.deep.equal({
      type: 'object',
      additionalProperties: false,
      required: ['id', 'query_id', 'requestBody'],
      properties: {
        id: schema,
        filter_name_: { ...schema, description: 'from the operation' },
        query_id: schema,
        filter_name__2: schema,
        body: schema,
        requestBody: { ...schema, description: 'what to write' },
      },
    })
  })

  it('operations that cannot be tools are left out, with the reason', async () => {
    const content = (type: string) => ({ content: { [type]: { schema: {} } } })
    const { tools, leftOut } = await left(
      documentOf({
        '/a': { post: { requestBody: content('multipart/form-data'), responses: OK } },
        '/b': { post: { requestBody: content('application/merge-patch+json'), responses: OK } },
        '/c/{id}': { get: { responses: OK } },
        '/d': {
          get: {
            parameters: [
              { name: 'q', in: 'query', required: true, content: { 'application/xml': { schema: {} } } },
            ],
            responses: OK,
          },
        },
        '/e': {
          get: {
            parameters: [{ name: 'q', in: 'query', content: { 'application/xml': { schema: {} } } }],
            responses: OK,
          },
          options: { responses: OK },
        },
        '/f': { post: { requestBody: { content: {} }, responses: OK } },
      }),
    )
    expect([...tools.keys()]).to.deep.equal(['post_b', 'get_e'])
    expect(leftOut).to.deep.equal([
      ['POST /a', 'its body is of type multipart/form-data'],
      ['GET /c/{id}', "the path parameter 'id' is not described"],
      ['GET /d', "the parameter 'q' has content of type application/xml"],
      ['OPTIONS /e', 'OPTIONS is about the connection, not the data'],
      ['POST /f', 'its body is of type unknown'],
    ])
  })

  it('deprecated operations are marked, and every tool has a description', async () => {
    const { tools } = await left(
      documentOf({
        '/a': { get: { deprecated: true, responses: OK } },
        '/b': { summary: 'B', get: { responses: OK } },
      }),
    )
    expect(tools.get('get_a')).to.include({ description: 'Deprecated. GET /a' })
    expect(tools.get('get_b')).to.include({ title: 'B', description: 'B' })
  })

  describe('and their scopes', () => {
    const securitySchemes = {
      oauth: { type: 'oauth2', flows: {} },
      oidc: { type: 'openIdConnect', openIdConnectUrl: 'https://a.example/.well-known' },
      key: { type: 'apiKey', name: 'k', in: 'header' },
      bearer: { type: 'http', scheme: 'bearer' },
    }
    const scopesOf = async (
      security: object[] | undefined,
      options: Partial<OpenApiToolOptions> = {},
      root: object = {},
    ) => {
      const operation = { operationId: 'a', responses: OK, ...(security !== undefined && { security }) }
      const { tools } = await left(
        documentOf({ '/a': { get: operation } }, { components: { securitySchemes }, ...root }),
        options,
      )
      return tools.get('a').scopes
    }

    for (const [what, security, expected] of [
      ['none', undefined, []],
      ['one scheme', [{ oauth: ['a', 'b'] }], ['a', 'b']],
      ['two schemes at once', [{ oauth: ['a'], oidc: ['b', 'a'], key: [] }], ['a', 'b']],
      ['alternatives, one without scopes', [{ key: [] }, { oauth: ['a'] }, { oidc: ['b'] }], ['a']],
      ['an alternative that asks for nothing', [{ oauth: ['a'] }, {}], []],
      ['none for this operation', [], []],
      ['roles of no OAuth scheme', [{ bearer: ['read:users', 'public'] }], []],
      ['offline_access', [{ oauth: ['offline_access', 'a'] }], ['a']],
    ] as [string, object[] | undefined, string[]][]) {
      it(`the scopes of a tool are ${JSON.stringify(expected)} if its operation requires: ${what}`, async () =>
        expect(await scopesOf(security)).to.deep.equal(expected))
    }

    it('scopes come from the root if the operation has none', async () =>
      expect(await scopesOf(undefined, {}, { security: [{ oauth: ['a'] }] })).to.deep.equal(['a']))

    it('a mapping can rename, multiply, and drop scopes', async () => {
      const scopes = (scope: string) => ({ a: 'pets:read', b: ['x', 'y'] })[scope]
      expect(await scopesOf([{ oauth: ['a', 'b', 'c'] }], { scopes })).to.deep.equal(['pets:read', 'x', 'y'])
    })

    it('scopes: false gives tools no scopes', async () =>
      expect(await scopesOf([{ oauth: ['a'] }], { scopes: false })).to.deep.equal([]))
  })

  describe('that are included', () => {
    for (const [what, include, expected] of [
      ['by tag', { tags: ['store'] }, ['getInventory', 'placeOrder', 'getOrderById', 'deleteOrder']],
      ['by id', { operationIds: ['addPet', 'getPet*'] }, ['addPet', 'getPetById']],
      ['by a star in the middle', { operationIds: ['get*By*e'] }, ['getUserByName']],
      [
        'by path',
        { paths: ['/user/*'] },
        ['createUsersWithListInput', 'loginUser', 'logoutUser', 'getUserByName', 'updateUser', 'deleteUser'],
      ],
      ['by several rules', { tags: ['pet'], paths: ['/pet'] }, ['addPet', 'updatePet']],
      [
        'by a function',
        ({ method, tags }: any) => method === 'DELETE' && tags.includes('pet'),
        ['deletePet'],
      ],
    ] as [string, OpenApiToolOptions['include'], string[]][]) {
      it(`operations are included ${what}`, async () => {
        const { tools } = await left(petstore, { include })
        expect([...tools.keys()]).to.deep.equal(expected)
      })
    }

    for (const pattern of [
      'getUser*serByName',
      'get*User*serByName',
      'get*By*By*',
      '*Name*Name',
      'getUserByName*e',
    ])
      it(`operations are not included by ${pattern}, whose parts would overlap`, async () => {
        const error = await left(petstore, { include: { operationIds: [pattern] } }).catch((thrown) => thrown)
        expect(String(error)).to.include(`has '${pattern}', which does not match anything in the document`)
      })
  })
})
