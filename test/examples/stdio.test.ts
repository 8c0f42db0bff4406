import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect } from 'chai'

const file = fileURLToPath(new URL('../../examples/stdio.js', import.meta.url))

describe('the example of stdio', () => {
  it('a client that starts the example calls its tools, also the one with a scope', async () => {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [file],
      env: { USER: 'ada' },
      stderr: 'ignore',
    })
    const client = new Client({ name: 'test', version: '1.0.0' })
    await client.connect(transport)
    try {
      const added = await client.callTool({ name: 'add', arguments: { numbers: [1, 2, 3] } })
      expect(added.content).to.deep.equal([{ type: 'text', text: '6' }])
      const { content } = await client.callTool({ name: 'whoami', arguments: {} })
      expect(content).to.deep.equal([{ type: 'text', text: 'the local user ada' }])
    } finally {
      await client.close()
    }
  })
})
