import { expect } from 'chai'
import { lazySchema } from '../../../src/mcp/router/lazy-schema.ts'

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

  it('lazySchema() accepts every value if the JSON Schema cannot be compiled', async () => {
    expect(await validate({ type: 'nonsense' }, 5)).to.deep.equal({ value: 5 })
  })
})
