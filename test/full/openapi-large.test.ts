import { expect } from 'chai'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { largeDocument, toolsOf } from '../support/openapi/documents.ts'

describe('openapi: a document of 20 MB', () => {
  it('an OpenAPI 3.0.3 document of 20 MB, whose schemas are converted, is loaded', async function () {
    this.timeout(240_000)
    const text = JSON.stringify({ ...largeDocument(26_000), openapi: '3.0.3' })
    expect(text.length).to.be.greaterThan(20_000_000)
    const router = await toolsFromOpenApi(text, {
      app: () => undefined,
      include: ({ path }) => /0\/\{id\}$/.test(path),
    })
    expect(toolsOf(router).size).to.equal(2600)
  })
})
