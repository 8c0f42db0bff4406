import { createServer } from 'node:http'
import express, { type RequestHandler } from 'express'
import { auth } from 'express-oauth2-jwt-bearer'
import type { JSONWebKeySet } from 'jose'
import { mcpAuth } from '../src/express/mcp-auth.ts'
import { Gate, type GateRequest } from '../src/oauth/gate.ts'
import { RequestContext } from '../src/oauth/inputs.ts'
import { resolveOAuthOptions, type VerifyToken } from '../src/oauth/options.ts'
import { cachedVerifier } from '../src/oauth/verifiers/cached.ts'
import { jwtVerifier } from '../src/oauth/verifiers/jwt.ts'
import type { Contestant } from './contestants.ts'
import { ISSUER, RESOURCE, startIssuer } from './issue-token.ts'
import { measureLoad } from './load.ts'
import { printRatios } from './report.ts'

const LIBRARY = 'express-oauth2-jwt-bearer'
const CALLS_PER_ROUND = 4_000
const ROUNDS = 9

/** The environment variable that passes the public key to the processes of the contestants. */
const JWKS = 'MCP_GATEKIT_BENCH_JWKS'

/** One Express route behind each verifier, with RS256 tokens. */
export const contestants: Record<string, Contestant> = {
  'bare Express': () => app(),
  [LIBRARY]: () => app(library()),
  'mcp-gatekit jwtVerifier': () => app(mcpAuth(gateOptions(gatekit()))),
  'mcp-gatekit cachedVerifier(jwtVerifier)': () => app(mcpAuth(gateOptions(cachedVerifier(gatekit())))),
}

function app(...gates: RequestHandler[]) {
  const served = express()
  served.use('/mcp', ...gates, (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end('{"ok":true}')
  })
  return createServer(served)
}

const keys = (): JSONWebKeySet => JSON.parse(process.env[JWKS] ?? '')
const library = () => auth({ issuer: ISSUER, audience: RESOURCE, publicKey: keys() })
const gatekit = () => jwtVerifier({ issuer: ISSUER, resource: RESOURCE, publicKey: keys() })
const gateOptions = (verifyToken: VerifyToken<any, any>) => ({
  issuer: ISSUER,
  resource: RESOURCE,
  scopes: ['mcp:read'],
  verifyToken,
})

/** (d) Measures the verification of a JWT with and without a cache, over Express and in process. */
export async function benchVerifiers(): Promise<void> {
  const issuer = await startIssuer('RS256')
  process.env[JWKS] = JSON.stringify(issuer.jwks)
  const token = await issuer.issue()
  const figures = await measureLoad({
    module: new URL(import.meta.url),
    path: '/mcp',
    names: Object.keys(contestants),
    request: { headers: { authorization: `Bearer ${token}` } },
    expectStatus: 200,
  })
  printRatios('(d) JWT, RS256, over Express', figures.rounds, LIBRARY, 'requests/s', figures.cpu)
  printRatios('(d) JWT, RS256, in process', await measureInProcess(token), LIBRARY, 'calls/s')
}

/** Measures calls per second without HTTP, one call after the other. The contestants take turns. */
async function measureInProcess(token: string): Promise<Record<string, number[]>> {
  const calls: Record<string, () => Promise<unknown>> = {
    [LIBRARY]: libraryCall(token),
    'mcp-gatekit gate, jwtVerifier': gateCall(token, gatekit()),
    'mcp-gatekit gate, cachedVerifier(jwtVerifier)': gateCall(token, cachedVerifier(gatekit())),
  }
  const figures: Record<string, number[]> = Object.fromEntries(Object.keys(calls).map((name) => [name, []]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, call] of Object.entries(calls)) {
      const started = performance.now()
      for (let done = 0; done < CALLS_PER_ROUND; done++) await call()
      // The first round warms up.
      if (round > 0) figures[name]?.push((CALLS_PER_ROUND * 1000) / (performance.now() - started))
    }
  }
  return figures
}

function libraryCall(token: string): () => Promise<unknown> {
  const middleware = library()
  return async () => {
    const request = {
      headers: { authorization: `Bearer ${token}` },
      method: 'POST',
      protocol: 'https',
      originalUrl: '/mcp',
      get: () => 'mcp.example.com',
      is: () => false,
    }
    await middleware(request as never, {} as never, (error?: unknown) => {
      if (error !== undefined) throw error
    })
  }
}

/** A request as `mcpAuth` describes it. An object literal with a getter would take a tenth of the time of a verification. */
class McpPost implements GateRequest {
  readonly authorization: string
  readonly method = 'POST'
  readonly origin = 'https://mcp.example.com'
  readonly path = '/mcp'

  constructor(token: string) {
    this.authorization = `Bearer ${token}`
  }

  get request(): Request {
    return new Request(RESOURCE)
  }
}

function gateCall(token: string, verifyToken: VerifyToken<any, any>): () => Promise<unknown> {
  const gate = new Gate(
    resolveOAuthOptions(gateOptions(verifyToken)),
    [],
    (request) => new RequestContext(request, {}),
  )
  return async () => {
    const decision = await gate.authenticate(new McpPost(token))
    if (decision.outcome !== 'accepted') throw new Error(decision.outcome)
  }
}
