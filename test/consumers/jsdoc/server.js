import express from 'express'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpAuth, mcpHandler } from 'mcp-gatekit'
import { createTestIssuer } from 'mcp-gatekit/testing'
import { z } from 'zod'

/** @typedef {import('mcp-gatekit').OAuthOptions} OAuthOptions */

const issuer = createTestIssuer()

/** @type {OAuthOptions} */
const oauth = {
  issuer: issuer.issuer,
  resource: issuer.audience,
  scopes: ['mcp:read'],
  verifyToken: jwtVerifier(issuer.verifierOptions),
}
/** @type {OAuthOptions} */
export const misspelled = {
  ...oauth,
  // @ts-expect-error The option is misspelled.
  scope: ['mcp:read'],
}

const router = KitMcpRouter.create().tool(
  'greet',
  { description: 'Greets', input: z.object({ name: z.string() }) },
  ({ name }) => `Hello, ${name.trim()}`,
)
const adapter = createMcpAdapter({ router, oauth })
const app = express()
app.use('/mcp', mcpAuth(adapter), mcpHandler(adapter))
const server = app.listen(0, '127.0.0.1', async () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  const token = await issuer.issueToken({ scopes: ['mcp:read'] })
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/mcp`, token }))
})
