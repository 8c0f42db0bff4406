import { McpServer, Server } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { z } from 'zod'
import { type AuthInfo, createMcpAdapter, type ServerFactory } from '../../src/index.ts'
import { ENTRY_POINTS, type Served, serving, web } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy, modern, rpc } from '../support/mcp/wire.ts'

/** An existing server of the official SDK. */
const existing: ServerFactory = ({ auth }) => {
  const server = new McpServer({ name: 'existing', version: '3.2.1' })
  server.registerTool(
    'greet',
    { description: 'Greets', inputSchema: z.object({ name: z.string() }) },
    async ({ name }, sdk) => ({
      content: [{ type: 'text', text: `${name} / ${auth?.user?.id} / ${sdk.http?.authInfo?.token}` }],
    }),
  )
  server.registerPrompt('hello', { description: 'Says hello' }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }],
  }))
  return server
}

describe('mcp: a function that makes a server of the official SDK', () => {
  for (const entryPoint of ENTRY_POINTS) {
    describe(entryPoint.name, () => {
      const served = serving(() => entryPoint.serve({ router: existing, oauth: oauth() }))
      const greet = { name: 'greet', arguments: { name: 'Ada' } }

      it('a router function serves the legacy era', async () => {
        const { status, message } = await served().send(
          legacy(call('greet', { name: 'Ada' }), bearer('reader')),
        )
        expect(status).to.equal(200)
        expect(message.result.content[0].text).to.equal('Ada / u1 / reader')
      })
      it('a router function serves 2026-07-28', async () => {
        const { status, message } = await served().send(modern('tools/call', greet, bearer('reader')))
        expect(status).to.equal(200)
        expect(message.result.content[0].text).to.equal('Ada / u1 / reader')
      })
      it('a router function has its own prompts', async () => {
        const { message } = await served().send(
          legacy(rpc('prompts/get', { name: 'hello' }), bearer('reader')),
        )
        expect(message.result.messages[0].content.text).to.equal('hello')
      })
      it('a router function is protected by OAuth', async () => {
        expect((await served().send(legacy(call('greet', { name: 'Ada' })))).status).to.equal(401)
        const refused = await served().send(modern('tools/call', greet, bearer('stranger')))
        expect(refused.status).to.equal(403)
        expect(refused.headers.get('www-authenticate')).to.contain('scope="mcp:read"')
      })
    })
  }

  const greeted = async (served: Served) => (await served.send(legacy(call('greet', { name: 'Ada' })))).status

  it('a router function is called once per request, without auth if OAuth is disabled', async () => {
    const seen: Parameters<ServerFactory>[0][] = []
    const router: ServerFactory = async (input) => {
      expectTypeOf(input.auth).toEqualTypeOf<AuthInfo<any> | undefined>()
      seen.push(input)
      return await existing(input)
    }
    const served = web(createMcpAdapter({ router }).server)
    expect(await greeted(served)).to.equal(200)
    expect(seen).to.have.length(1)
    expect(seen[0]).to.have.all.keys('context', 'request', 'era')
    expect(seen[0]?.context).to.deep.equal({})
    expect(seen[0]?.request.url).to.equal('http://localhost:3000/mcp')
    expect(await greeted(served)).to.equal(200)
    expect(seen).to.have.length(2)
  })

  for (const entryPoint of ENTRY_POINTS) {
    it(`a router function gets the same members as from createMcpHandler of the SDK: ${entryPoint.name}`, async () => {
      const seen: unknown[] = []
      const served = await entryPoint.serve({
        router: ({ era, auth, authInfo, request, requestInfo }) => {
          seen.push([era, auth !== undefined && authInfo === auth, requestInfo === request])
          return new McpServer({ name: 'any', version: '1' })
        },
        oauth: oauth(),
      })
      await served.send(legacy(rpc('ping'), bearer('reader')))
      await served.send(modern('server/discover', {}, bearer('reader')))
      await served.close()
      expect(seen).to.deep.equal([
        ['legacy', true, true],
        ['modern', true, true],
      ])
    })
  }

  it('a router function may return the low-level Server', async () => {
    const router: ServerFactory = () => {
      const server = new Server({ name: 'low', version: '1.0.0' }, { capabilities: { tools: {} } })
      server.setRequestHandler('tools/list', () => ({ tools: [] }))
      return server
    }
    const { message } = await web(createMcpAdapter({ router }).server).send(legacy(rpc('tools/list')))
    expect(message.result).to.deep.equal({ tools: [] })
  })

  for (const [title, router] of Object.entries<ServerFactory>({
    throws: () => {
      throw new Error('factory secret')
    },
    rejects: async () => {
      throw new Error('factory secret')
    },
    'returns no server': () => undefined as never,
  })) {
    it(`a router function that ${title} gets 500 without the cause`, async () => {
      const { send } = web(createMcpAdapter({ router }).server)
      for (const request of [legacy(rpc('tools/list')), modern('tools/list')]) {
        const answer = await send(request)
        expect(answer.status).to.equal(500)
        expect(answer.message.error.code).to.equal(-32603)
        expect(answer.text).not.to.contain('secret')
      }
    })
  }
})
