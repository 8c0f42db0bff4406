import {
  type JSONRPCMessage,
  McpServer,
  ResourceTemplate,
  type Transport,
} from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { watchMessages } from '../../../src/mcp/sdk/watch-messages.ts'

describe('templates of a server of the application', () => {
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
    watchMessages(server, {})
    const ask = await connected(server)
    const later = add('later')
    expect((await ask('resources/read', { uri: 'later://1-2-3' })).result.contents[0].text).to.equal('later')
    for (const { match } of [first, later]) expect(match).not.to.equal(own)
  })
})
