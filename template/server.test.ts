import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { jwtVerifier } from 'mcp-gatekit'
import { callTool, createTestIssuer } from 'mcp-gatekit/testing'
import { createApp } from './app.ts'

const resource = 'http://127.0.0.1:3000/mcp'
const issuer = createTestIssuer({ audience: resource })
const verifyToken = jwtVerifier(issuer.verifierOptions)
const app = createApp({ issuer: issuer.issuer, resource, verifyToken })

describe('the server', () => {
  it('a request without a token gets a 401 with the URL of the metadata', async () => {
    const { status, headers } = await callTool(app, 'greet', { name: 'Ada' })
    assert.equal(status, 401)
    assert.match(headers.get('WWW-Authenticate') ?? '', /resource_metadata="http:/)
  })

  it('a token with mcp:read can call greet', async () => {
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    assert.equal((await callTool(app, 'greet', { name: 'Ada' }, { token })).text, 'Hello, Ada!')
  })

  it('a token without mcp:write gets a 403 that names the required scopes', async () => {
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    const { status, headers } = await callTool(app, 'forget', { name: 'Ada' }, { token })
    assert.equal(status, 403)
    assert.match(headers.get('WWW-Authenticate') ?? '', /scope="mcp:read mcp:write"/)
  })

  it('a token with both scopes can call forget', async () => {
    const token = await issuer.issueToken({ scopes: ['mcp:read', 'mcp:write'] })
    assert.equal((await callTool(app, 'forget', { name: 'Ada' }, { token })).status, 200)
  })
})
