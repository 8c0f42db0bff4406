import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import express from 'express'
import { z } from 'zod'
import { createMcpAdapter, jwtVerifier, KitMcpConfigError, KitMcpRouter, mcpServer } from '../../src/index.ts'
import { callTool, createTestIssuer } from '../../src/testing/index.ts'

describe('callTool()', () => {
  const resource = 'http://127.0.0.1:3000/mcp'
  const issuer = createTestIssuer({ audience: resource })
  const router = KitMcpRouter.create()
    .tool(
      'greet',
      {
        description: 'Greets',
        input: z.object({ name: z.string() }),
        output: z.object({ text: z.string() }),
      },
      ({ name }) => ({ text: `Hello, ${name}!` }),
    )
    .tool('fail', { description: 'Fails', scopes: ['mcp:admin'] }, () => {
      throw new Error('No')
    })
  const oauth = {
    issuer: issuer.issuer,
    resource,
    scopes: ['mcp:read'],
    verifyToken: jwtVerifier(issuer.verifierOptions),
  }
  const app = express().use(mcpServer(createMcpAdapter({ router, oauth })))
  const tokenFor = (...scopes: string[]) => issuer.issueToken({ scopes })

  it('returns the text and the structured result of a tool of an application', async () => {
    const { status, text, result } = await callTool(
      app,
      'greet',
      { name: 'Ada' },
      { token: await tokenFor('mcp:read') },
    )
    expect({ status, text }).to.deep.equal({ status: 200, text: '{"text":"Hello, Ada!"}' })
    expect(result?.structuredContent).to.deep.equal({ text: 'Hello, Ada!' })
  })

  it('returns the result of a server that runs, for its URL', async () => {
    const server = createServer(app).listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
      const { result } = await callTool(
        new URL(url),
        'greet',
        { name: 'Bob' },
        { token: await tokenFor('mcp:read') },
      )
      expect(result?.structuredContent).to.deep.equal({ text: 'Hello, Bob!' })
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })

  const REFUSED = [
    ['without a token', [], undefined, 401, /resource_metadata=/],
    ['with a token that lacks a scope', ['mcp:read'], '/mcp', 403, /scope="mcp:read mcp:admin"/],
    ['at another path', ['mcp:read'], '/other', 404, /^$/],
  ] as const
  for (const [what, scopes, path, expected, challenge] of REFUSED) {
    it(`a call ${what} has the status ${expected}, the challenge, and no result`, async () => {
      const token = scopes.length > 0 ? await tokenFor(...scopes) : undefined
      const { status, headers, result } = await callTool(app, 'fail', {}, { token, path })
      expect({ status, result }).to.deep.equal({ status: expected, result: undefined })
      expect(headers.get('WWW-Authenticate') ?? '').to.match(challenge)
    })
  }

  const INVALID = [
    ['a server that is an object', {}, {}, 'server must be an application such as express(), or a URL'],
    ['an unknown option', app, { tokens: 'x' }, 'tokens'],
  ] as const
  for (const [what, server, options, message] of INVALID) {
    it(`${what} is a KitMcpConfigError that names it`, async () => {
      const error = await callTool(server as never, 'greet', {}, options as never).catch(
        (reason: unknown) => reason,
      )
      expect(error).to.be.instanceOf(KitMcpConfigError)
      expect((error as Error).message).to.contain(message)
    })
  }
})
