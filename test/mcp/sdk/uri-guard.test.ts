import {
  type JSONRPCMessage,
  McpServer,
  ResourceTemplate,
  type Transport,
} from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { guardTemplates } from '../../../src/mcp/sdk/uri-guard.ts'

describe('guardTemplates()', () => {
  /** Connects a server, and returns what it answers to a message. */
  async function connected(server: McpServer) {
    const waiting: ((message: JSONRPCMessage) => void)[] = []
    const transport = {
      start: async () => {},
      close: async () => {},
      send: async (message: JSONRPCMessage) => waiting.shift()?.(message),
    } as Transport
    await server.connect(transport)
    let id = 0
    return (method: string, params: object) =>
      new Promise<any>((resolve) => {
        waiting.push(resolve)
        transport.onmessage?.({ jsonrpc: '2.0', id: ++id, method, params } as JSONRPCMessage)
      })
  }

  it('a template that is added after the connection matches in linear time', async () => {
    const server = new McpServer({ name: 'notes', version: '1' })
    const add = (name: string) => {
      const template = new ResourceTemplate(`${name}://{a}-{b}-{c}`, { list: undefined })
      server.registerResource(name, template, {}, (uri) => ({ contents: [{ uri: uri.href, text: name }] }))
      return template.uriTemplate
    }
    const first = add('first')
    const own = first.match
    guardTemplates(server)
    expect(first.match).not.to.equal(own)
    const ask = await connected(server)
    const later = add('later')
    expect((await ask('resources/read', { uri: 'later://1-2-3' })).result.contents[0].text).to.equal('later')
    expect(later.match).not.to.equal(own)
  })
})
