import { expect } from 'chai'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { callTools } from '../support/openapi/document-calls.ts'
import { toolsOf } from '../support/openapi/documents.ts'
import { realDocuments } from '../support/openapi/real-documents.ts'

/** The documents that take the least time. */
const SENT_OVER_HTTP = ['Petstore', 'STAPI']

describe('openapi: real documents', () => {
  for (const document of realDocuments) {
    const { name, text, tools: expected, leftOut: expectedLeftOut } = document

    it(`become tools that models take: ${name}`, async () => {
      const leftOut: string[] = []
      const router = await toolsFromOpenApi(text, {
        app: () => undefined,
        onLeftOut: ({ why }) => leftOut.push(why),
      })
      expect(leftOut).to.deep.equal(expectedLeftOut)
      const tools = toolsOf(router)
      expect(tools.size).to.equal(expected)
      for (const [tool, { inputSchema, description }] of tools) {
        expect(tool).to.match(/^[\w-]{1,64}$/)
        expect(description, tool).to.be.a('string').and.not.equal('')
        for (const argument of Object.keys(inputSchema.properties))
          expect(argument, tool).to.match(/^[\w.-]{1,64}$/)
      }
    })

    // In test/full, all of them are called, and those of every document over HTTP as well.
    const step = Math.ceil(expected / 10)
    for (const http of SENT_OVER_HTTP.includes(name) ? [false, true] : [false]) {
      it(`answer calls ${http ? 'over HTTP' : 'in process'}: ${name}`, async () => {
        const { answered, notAsPromised, refused } = await callTools(document, { http, step })
        expect(answered).to.be.at.least((answered + notAsPromised + refused) * 0.7)
      })
    }
  }
})
