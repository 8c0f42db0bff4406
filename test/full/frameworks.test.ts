import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { createProject, type PageProject } from '../frameworks/page-programs.ts'
import { type RunningProgram, startProgram } from '../frameworks/running-program.ts'
import { MODERN } from '../support/mcp/wire.ts'

describe('the page about AWS Lambda, over the longest time of a call', function () {
  this.timeout(240_000)

  let project: PageProject | undefined
  let server: RunningProgram | undefined

  before(async () => {
    project = await createProject('frameworks.md#AWS Lambda')
    const script = fileURLToPath(new URL('../frameworks/serve-lambda.js', import.meta.url))
    server = await startProgram(process.execPath, [script, project.compiled('index.ts')])
  })
  after(async () => {
    await server?.stop()
    await project?.remove()
  })

  it('a subscription on AWS Lambda ends before API Gateway stops waiting', async () => {
    const { origin, issuer } = server as RunningProgram
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    const started = performance.now()
    const response = await fetch(`${origin}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': MODERN,
        'mcp-method': 'subscriptions/listen',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: {
          notifications: { toolsListChanged: true },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': MODERN,
            'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    })
    expect(response.status).to.equal(200)
    expect(await response.text()).to.include('notifications/subscriptions/acknowledged')
    expect(performance.now() - started).to.be.within(20_000, 30_000)
  })
})
