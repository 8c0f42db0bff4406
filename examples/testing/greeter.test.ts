import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'chai'
import express, { type Express } from 'express'
import {
  createMcpAdapter,
  jwtVerifier,
  KitMcpRouter,
  mcpAuth,
  mcpHandler,
  type VerifyToken,
} from 'mcp-gatekit'
import { KitTelemetry, type KitTelemetryManager } from 'mcp-gatekit/telemetry'
import { createTelemetryRecorder, createTestIssuer } from 'mcp-gatekit/testing'
import request from 'supertest'
import { z } from 'zod'

const resource = 'https://greeter.test/mcp'

/** Creates the server under test. In production, pass a verifier for the real issuer and a manager with real transports. */
function createGreeter(issuer: string, verifyToken: VerifyToken, telemetry: KitTelemetryManager) {
  const router = KitMcpRouter.create()
    .tool('greet', { description: 'Greets someone', input: z.object({ name: z.string() }) }, ({ name }) => {
      telemetry.emit('greeter.greeted', { attributes: { name, email: `${name}@example.com` } })
      return `Hello, ${name}!`
    })
    .tool('forget', { description: 'Forgets all names', scopes: ['mcp:admin'] }, () => 'Who?')
  const oauth = { issuer, resource, scopes: ['mcp:read'], verifyToken }
  const adapter = createMcpAdapter({ router, oauth, telemetry })
  const app: Express = express().use('/mcp', mcpAuth(adapter), mcpHandler(adapter))
  return { app, adapter }
}

describe('greeter', () => {
  // The verifier already has the key of this issuer, so no server and no network are needed.
  const issuer = createTestIssuer({ audience: resource })
  const recorder = createTelemetryRecorder()
  // Every event is kept. The redaction is that of the application, because the test covers it too.
  const telemetry = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })
    .withRedaction({ denylistKeys: ['email'] })
    .addTransport(recorder)
    .build()
  const { app, adapter } = createGreeter(issuer.issuer, jwtVerifier(issuer.verifierOptions), telemetry)

  const call = (name: string, args: object = {}) =>
    request(app)
      .post('/mcp')
      .set('MCP-Protocol-Version', '2025-11-25')
      .send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })

  beforeEach(() => recorder.clear())

  it('a call returns the greeting and emits who greeted whom', async () => {
    const token = await issuer.issueToken({ sub: 'ada', scopes: ['mcp:read'] })
    await call('greet', { name: 'Bob' })
      .auth(token, { type: 'bearer' })
      .expect(200, /Hello, Bob!/)

    const greeted = recorder.expectEvent('greeter.greeted', {
      actor: { type: 'user', id: 'ada' },
      attributes: { name: 'Bob', email: undefined },
    })
    recorder.expectEvent('kit.mcp.tool.completed', {
      sessionId: greeted.sessionId,
      attributes: { 'gen_ai.tool.name': 'greet', duration_ms: (ms: number) => ms >= 0 },
    })
    recorder.expectNoEvent('kit.mcp.tool.failed')
    const written = JSON.stringify(recorder.events())
    for (const secret of [token, 'Bob@example.com']) expect(written).to.not.contain(secret)
  })

  it('a call without a token gets a 401 that names the metadata document', async () => {
    await call('greet', { name: 'Bob' })
      .expect(401)
      .expect('WWW-Authenticate', /resource_metadata="https:\/\/greeter\.test\/\.well-known\//)
    recorder.expectEvent('kit.mcp.auth.refused', { level: 'info', attributes: { reason: 'missing' } })
    recorder.expectNoEvent('greeter.greeted')
  })

  const otherIssuer = createTestIssuer({ audience: resource })
  const refused = [
    { what: 'an expired token', from: issuer, options: { expiresIn: -1 }, reason: 'expired' },
    {
      what: 'a token for another server',
      from: issuer,
      options: { audience: 'https://other.test/mcp' },
      reason: 'wrong_resource',
    },
    { what: 'a token of another issuer', from: otherIssuer, options: {}, reason: 'invalid' },
  ]
  for (const { what, from, options, reason } of refused) {
    it(`${what} gets a 401`, async () => {
      const token = await from.issueToken({ scopes: ['mcp:read'], ...options })
      await call('greet', { name: 'Bob' }).auth(token, { type: 'bearer' }).expect(401)
      recorder.expectEvent('kit.mcp.auth.refused', { attributes: { reason } })
      expect(JSON.stringify(recorder.events())).to.not.contain(token)
    })
  }

  it('a token without the scope of the tool gets a 403 that lists all scopes', async () => {
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    await call('forget')
      .auth(token, { type: 'bearer' })
      .expect(403)
      .expect('WWW-Authenticate', /error="insufficient_scope", scope="mcp:read mcp:admin"/)
  })

  it('the official client lists and calls the tools', async () => {
    const authorization = `Bearer ${await issuer.issueToken({ scopes: ['mcp:read', 'mcp:admin'] })}`
    const client = new Client({ name: 'test', version: '1.0.0' })
    await client.connect(
      new StreamableHTTPClientTransport(new URL(resource), {
        // Calls the adapter as a function, without a socket.
        fetch: (url, init) => adapter.server(new Request(url, init)),
        requestInit: { headers: { authorization } },
      }),
    )
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).to.deep.equal(['greet', 'forget'])
    expect(await client.callTool({ name: 'forget' })).to.deep.include({
      content: [{ type: 'text', text: 'Who?' }],
    })
    await client.close()
  })
})
