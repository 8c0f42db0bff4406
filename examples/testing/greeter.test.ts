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
import { createTelemetryRecorder, createTestIssuer, expectNoLeak } from 'mcp-gatekit/testing'
import request from 'supertest'
import { z } from 'zod'

const resource = 'https://greeter.test/mcp'

/** What is tested. In production it gets a verifier of the real issuer, and a manager with real transports. */
function createGreeter(issuer: string, verifyToken: VerifyToken, telemetry: KitTelemetryManager) {
  const router = KitMcpRouter.create()
    .tool('greet', { description: 'Greets someone', input: z.object({ name: z.string() }) }, ({ name }) => {
      telemetry.emit('greeter.greeted', { attributes: { name, email: `${name}@example.com` } })
      return `Hello, ${name}!`
    })
    .tool('forget', { description: 'Forgets everybody', scopes: ['mcp:admin'] }, () => 'Who?')
  const oauth = { issuer, resource, scopes: ['mcp:read'], verifyToken }
  const adapter = createMcpAdapter({ router, oauth, telemetry })
  const app: Express = express().use('/mcp', mcpAuth(adapter), mcpHandler(adapter))
  return { app, adapter }
}

describe('greeter', () => {
  // An issuer whose key the verifier knows already: no server, no network.
  const issuer = createTestIssuer({ audience: resource })
  const recorder = createTelemetryRecorder()
  // Nothing is left to chance: every event is kept. Redaction is the application's, since it is tested, too.
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

  it('greets, and tells telemetry who was greeted by whom', async () => {
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
    expectNoLeak(recorder.events(), [token, 'Bob@example.com'])
  })

  it('asks for a token, and says where to get one', async () => {
    await call('greet', { name: 'Bob' })
      .expect(401)
      .expect('WWW-Authenticate', /resource_metadata="https:\/\/greeter\.test\/\.well-known\//)
    recorder.expectEvent('kit.mcp.auth.refused', { level: 'warn', attributes: { reason: 'missing' } })
    recorder.expectNoEvent('greeter.greeted')
  })

  const somebodyElse = createTestIssuer({ audience: resource })
  const refused = [
    { what: 'an expired token', from: issuer, options: { expiresIn: -1 }, reason: 'expired' },
    {
      what: 'a token for another server',
      from: issuer,
      options: { audience: 'https://other.test/mcp' },
      reason: 'wrong_resource',
    },
    { what: 'a token signed by somebody else', from: somebodyElse, options: {}, reason: 'invalid' },
  ]
  for (const { what, from, options, reason } of refused) {
    it(`refuses ${what}`, async () => {
      const token = await from.issueToken({ scopes: ['mcp:read'], ...options })
      await call('greet', { name: 'Bob' }).auth(token, { type: 'bearer' }).expect(401)
      recorder.expectEvent('kit.mcp.auth.refused', { attributes: { reason } })
      expectNoLeak(recorder.events(), token)
    })
  }

  it('names the scopes that a tool needs', async () => {
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    await call('forget')
      .auth(token, { type: 'bearer' })
      .expect(403)
      .expect('WWW-Authenticate', /error="insufficient_scope", scope="mcp:read mcp:admin"/)
  })

  it('serves the official client', async () => {
    const authorization = `Bearer ${await issuer.issueToken({ scopes: ['mcp:read', 'mcp:admin'] })}`
    const client = new Client({ name: 'test', version: '1.0.0' })
    await client.connect(
      new StreamableHTTPClientTransport(new URL(resource), {
        // The adapter as a function: what a client does, without a socket.
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
