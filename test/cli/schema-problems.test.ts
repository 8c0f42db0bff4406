import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { expect } from 'chai'
import fc from 'fast-check'
import { checkTools, schemaProblems } from '../../cli/doctor/checks/tools.ts'

const property = (a: unknown, more = {}) => ({ type: 'object', properties: { a }, ...more })

/** Schemas with the problem that `doctor` reports, or without one. The validator of the official client decides. */
const SCHEMAS: readonly (readonly [what: string, schema: object, problem?: RegExp])[] = [
  ['no properties', { type: 'object' }],
  ['a boolean schema', property(true)],
  ['a list of types', property({ type: ['string', 'null'] })],
  ['a pattern for names', { type: 'object', patternProperties: { '^x-': { type: 'string' } } }],
  ['a reference to a definition', property({ $ref: '#/$defs/a%20b' }, { $defs: { 'a b': {} } })],
  ['a reference to an old definition', property({ $ref: '#/definitions/a' }, { definitions: { a: {} } })],
  ['a reference to a property', property({}, { not: { $ref: '#/properties/a' } })],
  ['a name with a slash and a tilde', property({ $ref: '#/$defs/~1~0' }, { $defs: { '/~': {} } })],
  ['a recursion', property({ $ref: '#' })],
  ['a reference to a name', property({ $ref: '#n' }, { $defs: { n: { $anchor: 'n' } } })],
  [
    'a reference to an identifier',
    property({ $ref: 'https://a.example/n' }, { $defs: { n: { $id: 'https://a.example/n' } } }),
  ],
  ['a reference to draft-07', property({ $ref: 'http://json-schema.org/draft-07/schema' })],
  ['a definition that nothing uses', property({}, { $defs: { n: { type: 'text' } } })],
  ['a constant that looks like a schema', property({ const: { pattern: '\\:', type: 'text' } })],
  ['a property that is named like a keyword', property({}, { properties: { pattern: {}, type: {} } })],
  ['a list of schemas for items', property({ type: 'array', items: [{ type: 'string' }] })],
  [
    'a reference without a target',
    property({ $ref: '#/$defs/b' }, { $defs: { a: {} } }),
    /^\$ref at #\/properties\/a is #\/\$defs\/b, expected a part of the schema$/,
  ],
  ['a reference to another host', property({ $ref: 'https://a.example/n' }), /^\$ref at/],
  ['a reference that is a number', property({ $ref: 5 }), /^\$ref at .* is 5, expected a string$/],
  [
    'an invalid class in a pattern',
    property({ pattern: '^[\\w-.]+$' }),
    /^pattern at #\/properties\/a is .*, expected a regular expression with the flag u$/,
  ],
  ['an invalid escape in a pattern', property({ pattern: '\\:' }), /^pattern at/],
  [
    'a pattern that is a number',
    property({ type: 'string', pattern: 5 }),
    /^pattern at .*, expected a string$/,
  ],
  [
    'an invalid pattern for names',
    { type: 'object', patternProperties: { '\\:': { type: 'string' } } },
    /^patternProperties at #/,
  ],
  ['an unknown type', property({ type: 'text' }), /^type at #\/properties\/a is text, expected a JSON type$/],
  ['an unknown type in a list', property({ type: ['string', 'text'] }), /^type at/],
  ['a type that is a number', property({ type: 5 }), /^type at/],
  [
    'additionalProperties that is a string',
    { type: 'object', additionalProperties: 'no' },
    /^additionalProperties at # is no, expected a schema$/,
  ],
  [
    'a problem in the names of properties',
    { type: 'object', propertyNames: { pattern: '\\:' } },
    /^pattern at #\/propertyNames is/,
  ],
  ['an empty enum', property({ enum: [] }), /^enum at .*, expected an array with a value$/],
  ['required as in draft 3', property({ required: true }), /^required at .* is true, expected an array$/],
  [
    'a limit as in draft 4',
    property({ type: 'number', minimum: 1, exclusiveMinimum: true }),
    /^exclusiveMinimum at .* is true, expected a number$/,
  ],
  ['a length that is a string', property({ type: 'string', maxLength: '5' }), /^maxLength at/],
  [
    'properties in a list',
    { type: 'object', properties: [] },
    /^properties at # is \[\], expected an object$/,
  ],
  ['anyOf that is not a list', { type: 'object', anyOf: {} }, /^anyOf at #/],
  [
    'a problem in items',
    property({ type: 'array', items: { type: 'text' } }),
    /^type at #\/properties\/a\/items is/,
  ],
  [
    'a problem in a union',
    property({ anyOf: [{ type: 'string' }, { type: 'text' }] }),
    /^type at #\/properties\/a\/anyOf is/,
  ],
  [
    'a problem in a definition that is used',
    property({ $ref: '#/$defs/a' }, { $defs: { a: { type: 'text' } } }),
    /^type at #\/\$defs\/a is/,
  ],
]

describe('schemaProblems()', () => {
  for (const [what, schema, problem] of SCHEMAS) {
    it(`${problem === undefined ? 'accepts' : 'rejects'} ${what}, like the official client`, () => {
      const compile = () => new AjvJsonSchemaValidator().getValidator(schema as never)
      if (problem === undefined) expect(compile).not.to.throw()
      else expect(compile).to.throw()
      const problems = schemaProblems(schema)
      expect(problems).to.have.length(problem === undefined ? 0 : 1)
      if (problem !== undefined) expect(problems[0]).to.match(problem)
    })
  }

  it('reports every problem', () => {
    expect(schemaProblems(property({ type: 'a', enum: [] }, { required: 5 }))).to.have.length(3)
  })

  it('a broken input is named next to a broken output', () => {
    const broken = property({ type: 'text' })
    const seen = checkTools([{ name: 'one', inputSchema: broken, outputSchema: broken }], '')?.seen
    expect(seen).to.match(/one, outputSchema: .*one, inputSchema: /)
  })

  it('never throws, also for a schema that is nested deeply', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => void schemaProblems(value)))
    let deep: object = { type: 'text' }
    for (let depth = 0; depth < 100_000; depth++) deep = { not: deep }
    expect(schemaProblems(deep)).to.have.length(1)
    expect(schemaProblems(undefined)).to.deep.equal([])
  })
})
