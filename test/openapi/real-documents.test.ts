import { expect } from 'chai'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { callTools } from '../support/openapi/document-calls.ts'
import { toolsOf } from '../support/openapi/documents.ts'
import { realDocuments } from '../support/openapi/real-documents.ts'

/** How the tools of a document are called here. In test/full, all tools of all documents are called in both ways. */
const CALLED: Readonly<Record<string, readonly ('in process' | 'over HTTP')[]>> = {
  Petstore: ['in process', 'over HTTP'],
  STAPI: ['in process', 'over HTTP'],
  // The schemas of the others take long to compile.
}

describe('openapi: real documents', () => {
  for (const document of realDocuments) {
    const { name, text, tools: expected, leftOut: expectedLeftOut } = document

    it(`a real document becomes tools that models accept: ${name}`, async () => {
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

    const step = Math.ceil(expected / 10)
    for (const way of CALLED[name] ?? []) {
      it(`the tools of a real document serve calls ${way}: ${name}`, async () => {
        const http = way === 'over HTTP'
        const { answered, notAsPromised, refused } = await callTools(document, { http, step })
        expect(answered).to.be.at.least((answered + notAsPromised + refused) * 0.7)
      })
    }
  }
})
