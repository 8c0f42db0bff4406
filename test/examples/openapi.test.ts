import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'chai'
import { createTestIssuer } from '../../src/testing/index.ts'
import { startExample } from '../support/examples/run.ts'
import { listen } from '../support/listen.ts'

describe('the example openapi.ts', () => {
  it('openapi.ts serves routes as tools to authorized users until SIGTERM', async () => {
    const { origin: issuer } = await listen((req, res) => {
      res.setHeader('Content-Type', 'application/json')
      const metadata = { issuer, jwks_uri: `${issuer}/jwks`, response_types_supported: ['code'] }
      res.end(JSON.stringify(req.url === '/jwks' ? signing.jwks : metadata))
    })
    const audience = 'http://127.0.0.1/mcp'
    const signing = createTestIssuer({ issuer, audience })
    const example = startExample('openapi', { ISSUER: issuer, RESOURCE: audience, PORT: '0' })
    const [, port] = /port: (\d+)/.exec(await example.said(/port: \d+/)) ?? []
    const origin = `http://127.0.0.1:${port}`
    expect((await fetch(`${origin}/ready`)).status).to.equal(200)

    const client = new Client({ name: 'test', version: '1' })
    const token = await signing.issueToken({ sub: 'ada', scopes: ['orders:read'] })
    const headers = { authorization: `Bearer ${token}` }
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${origin}/mcp`), { requestInit: { headers } }),
    )
    const order = await client.callTool({ name: 'getOrder', arguments: { id: 'o1' } })
    expect(order.structuredContent).to.deep.equal({ id: 'o1', customer: 'ada', state: 'shipped' })

    // The event stream of the client would keep the server open if the server did not end it.
    example.process.kill('SIGTERM')
    expect((await example.ended).exitCode).to.equal(0)
    await client.close()
  })

  it('openapi.ts does not start without an authorization server', async () => {
    const { exitCode, stderr } = await startExample('openapi', { ISSUER: '', RESOURCE: '' }).ended
    expect(exitCode).to.equal(1)
    expect(stderr).to.match(/KitMcpConfigError: issuer/)
  })
})
