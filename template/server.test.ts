import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { jwtVerifier } from 'mcp-gatekit'
import { createTestIssuer } from 'mcp-gatekit/testing'
import { createApp } from './app.ts'

const resource = 'http://127.0.0.1:3000/mcp'
const issuer = createTestIssuer({ audience: resource })

describe('the server', () => {
  let server: Server

  before(async () => {
    const verifyToken = jwtVerifier(issuer.verifierOptions)
    const app = createApp({ issuer: issuer.issuer, resource, verifyToken })
    server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  after(() => server.close())

  /** Calls a tool with a token that has the given scopes, or without a token. */
  async function call(tool: string, scopes?: readonly string[]): Promise<Response> {
    const token = scopes && (await issuer.issueToken({ scopes }))
    const params = { name: tool, arguments: { name: 'Ada' } }
    return fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    })
  }

  it('a request without a token gets a 401 with the URL of the metadata', async () => {
    const { status, headers } = await call('greet')
    assert.equal(status, 401)
    assert.match(headers.get('WWW-Authenticate') ?? '', /resource_metadata="http:/)
  })

  it('a token with mcp:read can call greet', async () => {
    const response = await call('greet', ['mcp:read'])
    assert.equal(response.status, 200)
    assert.match(await response.text(), /Hello, Ada!/)
  })

  it('a token without mcp:write gets a 403 that names the required scopes', async () => {
    const { status, headers } = await call('forget', ['mcp:read'])
    assert.equal(status, 403)
    assert.match(headers.get('WWW-Authenticate') ?? '', /scope="mcp:read mcp:write"/)
    assert.equal((await call('forget', ['mcp:read', 'mcp:write'])).status, 200)
  })
})
