import { expect } from 'chai'
import express from 'express'
import fc from 'fast-check'
import { tableOf } from '../../src/mcp/router/router.ts'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { encodePairs, encodePath, joinPairs } from '../../src/openapi/parameter-style.ts'
import { documentOf, OK } from '../support/openapi/documents.ts'

const LIST = ['blue', 'black', 'brown']
const OBJECT = { R: 100, G: 200, B: 150 }

describe('openapi: parameters as OpenAPI writes them', () => {
  for (const [style, explode, value, expected] of [
    ['simple', false, 'blue', 'blue'],
    ['simple', false, LIST, 'blue,black,brown'],
    ['simple', true, LIST, 'blue,black,brown'],
    ['simple', false, OBJECT, 'R,100,G,200,B,150'],
    ['simple', true, OBJECT, 'R=100,G=200,B=150'],
    ['label', false, 'blue', '.blue'],
    ['label', false, LIST, '.blue,black,brown'],
    ['label', true, LIST, '.blue.black.brown'],
    ['label', false, OBJECT, '.R,100,G,200,B,150'],
    ['label', true, OBJECT, '.R=100.G=200.B=150'],
    ['matrix', false, '', ';color'],
    ['matrix', false, 'blue', ';color=blue'],
    ['matrix', false, LIST, ';color=blue,black,brown'],
    ['matrix', true, LIST, ';color=blue;color=black;color=brown'],
    ['matrix', false, OBJECT, ';color=R,100,G,200,B,150'],
    ['matrix', true, OBJECT, ';R=100;G=200;B=150'],
    ['simple', false, 'a/b c?#%', 'a%2Fb%20c%3F%23%25'],
    ['simple', false, "!'()*", '%21%27%28%29%2A'],
    ['simple', false, true, 'true'],
    ['simple', false, '\uD800', '%EF%BF%BD'],
  ] as const) {
    it(`a path parameter of style ${style}${explode ? '*' : ''}: ${JSON.stringify(value)} is ${expected}`, () =>
      expect(encodePath({ name: 'color', style, explode }, value)).to.equal(expected))
  }

  for (const [style, explode, value, expected, allowReserved] of [
    ['form', true, '', 'color='],
    ['form', true, 'blue', 'color=blue'],
    ['form', false, LIST, 'color=blue,black,brown'],
    ['form', true, LIST, 'color=blue&color=black&color=brown'],
    ['form', false, OBJECT, 'color=R,100,G,200,B,150'],
    ['form', true, OBJECT, 'R=100&G=200&B=150'],
    ['form', true, [], ''],
    ['form', false, [], ''],
    ['form', false, { a: undefined }, ''],
    ['form', true, null, 'color='],
    ['spaceDelimited', false, LIST, 'color=blue%20black%20brown'],
    ['spaceDelimited', false, OBJECT, 'color=R%20100%20G%20200%20B%20150'],
    ['spaceDelimited', true, LIST, 'color=blue&color=black&color=brown'],
    ['pipeDelimited', false, LIST, 'color=blue%7Cblack%7Cbrown'],
    ['pipeDelimited', false, OBJECT, 'color=R%7C100%7CG%7C200%7CB%7C150'],
    ['deepObject', true, OBJECT, 'color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150'],
    [
      'deepObject',
      true,
      { a: { b: 1 }, c: ['x', 'y'], d: undefined },
      'color%5Ba%5D%5Bb%5D=1&color%5Bc%5D=x&color%5Bc%5D=y',
    ],
    ['form', true, 'a&b=c#d+e', 'color=a%26b%3Dc%23d%2Be'],
    ['form', true, 'a/b:c?d@e!f,g;[h]&i=j#k+l', 'color=a/b:c?d@e!f,g;[h]%26i%3Dj%23k%2Bl', true],
    ['form', false, [{ a: 1 }], 'color=%7B%22a%22%3A1%7D'],
  ] as const) {
    it(`a query parameter of style ${style}${explode ? '*' : ''}: ${JSON.stringify(value)} is ${expected}`, () =>
      expect(
        joinPairs(
          encodePairs({ name: 'color', style, explode, allowReserved: allowReserved === true }, value),
        ),
      ).to.equal(expected))
  }

  it('serialized parameters are parsed back to the same values', () => {
    const text = fc.string({ unit: 'grapheme' })
    const style = fc.constantFrom('form', 'spaceDelimited', 'pipeDelimited', 'deepObject')
    fc.assert(
      fc.property(text, text, fc.boolean(), style, (name, value, allowReserved, style) => {
        const pairs = encodePairs({ name, style, explode: true, allowReserved }, value)
        const read = new URL(`http://a/?${joinPairs(pairs)}`)
        expect(read.hash).to.equal('')
        expect([...read.searchParams]).to.deep.equal([[name, value]])
      }),
    )
    fc.assert(
      fc.property(fc.array(text, { minLength: 1 }), (list) => {
        const pairs = encodePairs({ name: 'a', style: 'form', explode: true }, list)
        expect(new URL(`http://a/?${joinPairs(pairs)}`).searchParams.getAll('a')).to.deep.equal(list)
        const [[, joined] = []] = encodePairs({ name: 'a', style: 'pipeDelimited', explode: false }, list)
        expect(joined?.split('%7C').map(decodeURIComponent)).to.have.length.at.least(list.length)
      }),
    )
    fc.assert(
      fc.property(fc.constantFrom('simple', 'label', 'matrix'), text, (style, value) => {
        const encoded = encodePath({ name: 'a', style, explode: false }, value)
        const raw = { simple: encoded, label: encoded.slice(1), matrix: encoded.replace(/^;a=?/, '') }[style]
        expect(decodeURIComponent(raw as string)).to.equal(value)
        expect(encoded).to.not.match(/[/?#\\%](?![0-9A-F]{2})/)
      }),
    )
  })

  describe('at a real route', () => {
    const app = express()
    app.use(express.urlencoded({ extended: true }), express.json())
    app.all(/.*/, (req, res) => {
      const { host: _host, accept: _accept, 'user-agent': _agent, ...headers } = req.headers
      res.json({ url: req.originalUrl, query: req.query, headers, body: req.body })
    })

    async function send(parameter: object, value: unknown, path = '/echo') {
      const document = documentOf({
        [path]: { get: { operationId: 'echo', parameters: [parameter], responses: OK } },
      })
      const table = tableOf(await toolsFromOpenApi(document, { app }))
      const { definition, handler } = table.tools.get('echo') as any
      const [argument] = Object.keys(definition.inputSchema.properties)
      const result = await handler({ [argument as string]: value }, { signal: new AbortController().signal })
      expect(result.isError, JSON.stringify(result)).to.equal(undefined)
      return JSON.parse(result.content[0].text)
    }
    const query = (rest: object = {}) => ({ name: 'color', in: 'query', schema: {}, ...rest })

    for (const [what, parameter, value, expected] of [
      ['form', query(), LIST, { query: { color: LIST } }],
      ['form of an object', query(), OBJECT, { query: { R: '100', G: '200', B: '150' } }],
      ['form, not exploded', query({ explode: false }), LIST, { query: { color: 'blue,black,brown' } }],
      [
        'spaceDelimited',
        query({ style: 'spaceDelimited', explode: false }),
        LIST,
        { query: { color: 'blue black brown' } },
      ],
      [
        'spaceDelimited by default is not exploded',
        query({ style: 'spaceDelimited' }),
        LIST,
        { query: { color: 'blue black brown' } },
      ],
      ['pipeDelimited', query({ style: 'pipeDelimited' }), LIST, { query: { color: 'blue|black|brown' } }],
      [
        'JSON content',
        { name: 'color', in: 'query', content: { 'application/json': { schema: {} } } },
        OBJECT,
        { query: { color: JSON.stringify(OBJECT) } },
      ],
      [
        'a name with brackets',
        query({ name: 'color[]' }),
        LIST,
        { url: '/echo?color%5B%5D=blue&color%5B%5D=black&color%5B%5D=brown' },
      ],
      [
        'a header',
        { name: 'X-Color', in: 'header', schema: {} },
        LIST,
        { headers: { 'x-color': 'blue,black,brown' } },
      ],
      [
        'a header of an object',
        { name: 'X-Color', in: 'header', explode: true, schema: {} },
        OBJECT,
        { headers: { 'x-color': 'R=100,G=200,B=150' } },
      ],
      [
        'a cookie',
        { name: 'color', in: 'cookie', schema: {} },
        'blue; admin=1',
        { headers: { cookie: 'color=blue%3B%20admin%3D1' } },
      ],
    ] as [string, object, unknown, object][]) {
      it(`a route receives the argument as OpenAPI serializes it: ${what}`, async () => {
        const seen = await send(parameter, value)
        for (const [member, wanted] of Object.entries(expected)) {
          if (member === 'headers') expect(seen.headers).to.include(wanted)
          else expect(seen[member]).to.deep.equal(wanted)
        }
      })
    }

    it('a route receives an object in the style deepObject', async () => {
      // Express 5 reads no brackets; its older parser, and others, do.
      const { url } = await send(query({ style: 'deepObject', explode: true }), OBJECT)
      expect(url).to.equal('/echo?color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150')
    })

    it('a path of two parameters in one segment', async () => {
      const { url } = await send(
        { name: 'color', in: 'path', required: true, schema: {} },
        'a/../b',
        '/echo/x{color}.json',
      )
      expect(url).to.equal('/echo/xa%2F..%2Fb.json')
    })
  })
})
