import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import { z } from 'zod'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { listen } from '../support/listen.ts'
import { call, definedOf, eventsOf, legacy, modern } from '../support/mcp/wire.ts'

const CALLS = 10_000
const SOCKETS = 500

/** The calls that have arrived. Each waits until all of them have arrived. */
let waiting: (() => void)[] = []

const router = KitMcpRouter.create().tool(
  'mirror',
  { description: 'x', input: z.object({ n: z.number(), together: z.number() }) },
  async ({ n, together }, { progress, request }) => {
    await progress(n)
    await new Promise<void>((resolve) => {
      waiting.push(resolve)
      if (waiting.length < together) return
      for (const release of waiting) release()
      waiting = []
    })
    return { n, asked: request.headers.get('x-number') }
  },
)

const asked = (n: number, together: number) => {
  const params = { name: 'mirror', arguments: { n, together }, _meta: { progressToken: n } }
  const headers = { 'x-number': `${n}` }
  return n % 2 === 0
    ? modern('tools/call', params, headers)
    : legacy({ ...call('mirror', {}, n), params }, headers)
}

/** Expects that call `n` gets its own progress, then its own result. */
function expectOwn(n: number, status: number | undefined, said: string): void {
  expect(status).to.equal(200)
  const messages = eventsOf(said)
  expect(messages).to.have.length(2)
  expect(messages[0].params).to.include({ progressToken: n, progress: n })
  expect(messages[1].id).to.equal(n % 2 === 0 ? 1 : n)
  expect(JSON.parse(messages[1].result.content[0].text)).to.deep.equal({ n, asked: `${n}` })
}

describe(`${CALLS} calls at once`, function () {
  this.timeout(120_000)

  it('all calls of the web-standard handler run at the same time, and each gets its own response', async () => {
    const { server } = createMcpAdapter({ router })
    await Promise.all(
      Array.from({ length: CALLS }, async (_, n) => {
        const { headers = {}, body } = asked(n, CALLS)
        const init = { method: 'POST', headers: definedOf(headers), body: body as string }
        const response = await server(new Request('http://localhost/mcp', init))
        expectOwn(n, response.status, await response.text())
      }),
    )
  })

  it(`all calls over ${SOCKETS} sockets run at the same time, and each gets its own response`, async () => {
    const { port } = await listen(mcpHandler(createMcpAdapter({ router })))
    const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS })
    try {
      await Promise.all(
        Array.from({ length: CALLS }, async (_, n) => {
          const { headers = {}, body } = asked(n, SOCKETS)
          const options = { host: '127.0.0.1', port, path: '/mcp', method: 'POST', agent }
          const outgoing = httpRequest({ ...options, headers: definedOf(headers) }).end(body)
          const [response] = await once(outgoing, 'response')
          expectOwn(n, response.statusCode, await text(response))
        }),
      )
    } finally {
      agent.destroy()
    }
  })
})
