import { expect } from 'chai'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { callTools } from '../support/openapi/document-calls.ts'
import { toolsOf } from '../support/openapi/documents.ts'
import { realDocuments } from '../support/openapi/real-documents.ts'

describe('openapi: every tool of real documents', function () {
  this.timeout(300_000)

  const rows: (readonly (string | number)[])[] = []
  after(() => {
    console.log('\n| document | tools | left out | ms | KB listed | answered | not as promised | refused |')
    console.log('|---|---|---|---|---|---|---|---|')
    for (const row of rows) console.log(`| ${row.join(' | ')} |`)
  })

  for (const document of realDocuments) {
    it(`every tool of ${document.name} can be called, in process and over HTTP`, async () => {
      const { name, text, tools, leftOut } = document
      // Load everything that is loaded only once before the measurement.
      await toolsFromOpenApi(realDocuments[0]?.text ?? '', { app: () => undefined })
      const startedAt = performance.now()
      const router = await toolsFromOpenApi(text, { app: () => undefined, scopes: false })
      const ms = Math.round(performance.now() - startedAt)
      const listedKb = Math.round(JSON.stringify([...toolsOf(router).values()]).length / 1e3)

      const counts = await callTools(document, { http: false, step: 1 })
      // Over HTTP, the schemas are the same.
      await callTools(document, { http: true, step: 10 })
      const { answered, notAsPromised, refused } = counts
      expect(answered + notAsPromised + refused).to.equal(tools)
      rows.push([name, tools, leftOut.length, ms, listedKb, answered, notAsPromised, refused])
    })
  }
})
