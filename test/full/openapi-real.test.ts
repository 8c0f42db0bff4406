import { expect } from 'chai'
import { callTools } from '../support/openapi/document-calls.ts'
import { realDocuments } from '../support/openapi/real-documents.ts'

describe('openapi: every tool of real documents', function () {
  this.timeout(300_000)

  for (const document of realDocuments) {
    it(`every tool of ${document.name} can be called, in process and over HTTP`, async () => {
      const counts = await callTools(document, { http: false, step: 1 })
      // Over HTTP, the schemas are the same.
      await callTools(document, { http: true, step: 10 })
      const { answered, notAsPromised, refused } = counts
      expect(answered + notAsPromised + refused).to.equal(document.tools)
    })
  }
})
