import { expect } from 'chai'
import { lazySchema } from '../../../../src/mcp/router/schemas/lazy-schema.ts'

describe('lazySchema()', () => {
  const validate = (schema: object, value: unknown) =>
    lazySchema(schema as Parameters<typeof lazySchema>[0])['~standard'].validate(value)

  it('lazySchema() accepts a value that matches the JSON Schema', async () => {
    expect(await validate({ type: 'object', required: ['a'] }, { a: 1 })).to.deep.equal({ value: { a: 1 } })
  })

  it('lazySchema() rejects a value that does not match the JSON Schema', async () => {
    const result = await validate({ type: 'object', required: ['a'] }, {})
    expect(result.issues).to.have.length.above(0)
  })

  it('lazySchema() has the JSON Schema of its input and its output, unchanged', () => {
    const schema = { type: 'object' } as const
    const standard = lazySchema(schema)['~standard'] as unknown as {
      readonly jsonSchema: { input(): unknown; output(): unknown }
    }
    expect(standard.jsonSchema.input()).to.equal(schema)
    expect(standard.jsonSchema.output()).to.equal(schema)
  })

  it('lazySchema() accepts every value if the JSON Schema cannot be compiled', async () => {
    expect(await validate({ type: 'nonsense' }, 5)).to.deep.equal({ value: 5 })
  })
})
