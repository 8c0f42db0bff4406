import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpCors, mcpHandler } from '../../src/index.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { failuresOf, findingOf, look, problemsOf, startTarget } from '../support/cli/doctor-target.ts'
import { listen } from '../support/listen.ts'

/** The methods that a server with public operations serves without a token. */
const DISCOVERY = ['initialize', 'notifications/initialized', 'ping', 'server/discover', 'tools/list']

interface Behavior {
  /** The `securitySchemes` of the tool. */
  readonly schemes?: readonly object[]
  /** Ignores the token of a request for a public operation. */
  readonly ignoresTokens?: true
  /** Sends the challenge of a refused call with status 200, in the result. */
  readonly challengesInResult?: true
}

/** Starts a server whose lists are public and whose only tool requires a token. */
async function startPublicServer({ schemes, ignoresTokens, challengesInResult }: Behavior) {
  const { issuer } = await startTarget()
  const app = express()
  app.set('env', 'test')
  const { origin } = await listen(app)
  const resource = `${origin}/mcp`
  const tokens = createTestIssuer({ issuer, audience: resource })
  const router = KitMcpRouter.create().tool(
    'greet',
    { description: 'Greets', ...(schemes !== undefined && { _meta: { securitySchemes: schemes } }) },
    () => 'Hello!',
  )
  const verifyToken = jwtVerifier(tokens.verifierOptions)
  const adapter = createMcpAdapter({ router, oauth: { issuer, resource, scopes: ['mcp:read'], verifyToken } })
  const handlers = { open: mcpHandler(createMcpAdapter({ router })), guarded: mcpHandler(adapter) }
  const serve: RequestHandler = (req, res, next) => {
    const method = req.method === 'POST' ? req.body?.method : undefined
    const anonymous = req.headers.authorization === undefined || ignoresTokens === true
    if (anonymous && method === 'tools/call' && challengesInResult === true) {
      const result = { isError: true, content: [], _meta: { 'mcp/www_authenticate': ['Bearer'] } }
      res.json({ jsonrpc: '2.0', id: req.body.id, result })
      return
    }
    const kind = anonymous && DISCOVERY.includes(method) ? 'open' : 'guarded'
    handlers[kind](req, res, next)
  }
  app.use('/mcp', mcpCors(), express.json(), serve)
  app.use(protectedResourceRouter(adapter))
  return { url: new URL(resource), token: await tokens.issueToken({ scopes: ['mcp:read'] }), tokens }
}

const MARKED = [{ type: 'oauth2', scopes: ['mcp:read'] }]

describe('doctor, for a server with public and protected operations,', () => {
  it('reports no problems and checks the public operations, without a token', async () => {
    const { url } = await startPublicServer({ schemes: MARKED })
    const report = await look(url)
    expect(failuresOf(report)).to.deep.equal([])
    expect(findingOf(report, 'auth.required')?.seen).to.match(/calls get a 401: see public\.operations/)
    expect(findingOf(report, 'public.operations')).to.include({
      status: 'ok',
      seen: 'initialize and tools/list work without a token (1 tool, 0 of them marked as public); calls get a 401',
    })
    expect(findingOf(report, 'challenge.scope')?.seen).to.equal('mcp:read')
    expect(findingOf(report, 'metadata.resource')?.status).to.equal('ok')
    expect(findingOf(report, 'call.tools-list')?.seen).to.match(/^1 tool/)
  })

  it('reports no failures with a token', async () => {
    const { url, token } = await startPublicServer({ schemes: MARKED })
    const report = await look(url, { token })
    expect(failuresOf(report)).to.deep.equal([])
    expect(findingOf(report, 'public.operations')?.status).to.equal('ok')
    expect(findingOf(report, 'token.accepted')?.status).to.equal('ok')
  })

  it('finds a rejected token, although the server ignores tokens of public requests', async () => {
    const { url, tokens } = await startPublicServer({ schemes: MARKED, ignoresTokens: true })
    const report = await look(url, { token: await tokens.issueToken({ expiresIn: -60 }) })
    expect(problemsOf(report)).to.include.members(['public.operations: warn', 'token.accepted: fail'])
    expect(findingOf(report, 'public.operations')?.seen).to.match(
      /^tools\/list with an invalid token gets 200 text\/event-stream$/,
    )
  })

  it('warns about tools without securitySchemes', async () => {
    const { url } = await startPublicServer({})
    const report = await look(url)
    expect(failuresOf(report)).to.deep.equal([])
    expect(findingOf(report, 'public.operations')?.status).to.equal('warn')
    expect(findingOf(report, 'public.operations')?.seen).to.equal('1 of 1 tool without securitySchemes')
    expect(findingOf(report, 'public.operations')?.hint).to.match(/_meta\.securitySchemes/)
  })

  it('warns about a server that sends challenges only in results', async () => {
    const { url } = await startPublicServer({ schemes: MARKED, challengesInResult: true })
    const report = await look(url)
    expect(failuresOf(report)).to.deep.equal([])
    expect(findingOf(report, 'auth.required')?.status).to.equal('warn')
    expect(findingOf(report, 'auth.required')?.seen).to.match(/challenge in a response with status 200/)
    expect(findingOf(report, 'metadata.found')?.status).to.equal('ok')
    expect(findingOf(report, 'public.operations')?.status).to.equal('skip')
  })
})
