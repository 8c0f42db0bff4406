// A protected server with everything that keeps state about requests: rejections by address, accepted tokens, DPoP
// nonces, resources derived from the host, and envelopes.
import { once } from 'node:events'
import express from 'express'
import { z } from 'zod'
import { mcpAuth } from '../../../src/express/mcp-auth.ts'
import { mcpServer } from '../../../src/express/mcp-server.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { cachedVerifier } from '../../../src/oauth/verifiers/cached.ts'
import { jwtVerifier } from '../../../src/oauth/verifiers/jwt.ts'
import { createTestIssuer } from '../../../src/testing/test-issuer.ts'
import { reportReady } from '../../support/attacks/resource-report.ts'

const resource = 'https://mcp.example.com/mcp'
const issuer = createTestIssuer({ issuer: 'https://auth.example.com', audience: resource })
const router = KitMcpRouter.create().tool(
  'length',
  { description: 'Returns the length of a text', input: z.object({ text: z.string() }) },
  ({ text }) => String(text.length),
)
const adapter = createMcpAdapter({
  router,
  maxBodyBytes: 256 * 1024,
  bodyTimeoutMs: Number(process.env.BODY_TIMEOUT_MS ?? 30_000),
  oauth: {
    issuer: issuer.issuer,
    resource,
    verifyToken: cachedVerifier(jwtVerifier(issuer.verifierOptions)),
    dpop: { mode: 'allowed', nonce: true },
    rateLimit: { points: 100, durationSeconds: 3_600 },
  },
})

const app = express()
app.set('env', 'test')
// The test sets the client address in X-Forwarded-For.
app.set('trust proxy', 'loopback')
app.get('/token', async (_req, res) => void res.send(await issuer.issueToken()))
app.use(mcpServer(adapter))
// A gate that derives its resource from the host and the path.
app.use(mcpAuth({ issuer: issuer.issuer, verifyToken: async () => undefined }))

const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
reportReady(server)
