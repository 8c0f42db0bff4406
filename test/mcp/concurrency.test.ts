import { once } from 'node:events'
import { Agent, request as httpRequest, type RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import { isDeepStrictEqual } from 'node:util'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { z } from 'zod'
import { KitMcpRouter, mcpAuth, mcpCors, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import type { OAuthOptions, VerifiedToken, VerifyToken } from '../../src/oauth/options.ts'
import type { KitTelemetryManager, TelemetryEnvelope } from '../../src/telemetry/index.ts'
import { bearer, call, definedOf, eventsOf, legacy, listen, modern } from '../support/mcp/wire.ts'
import { runs } from '../support/runs.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'

const REQUESTS = runs(2_000)
const TOKENS = runs(200)

interface App {
  user?: { id: string }
  asked?: string
}

/** Lets others go first, as often as chance says. */
async function dawdle(): Promise<void> {
  for (let turns = Math.floor(Math.random() * 6); turns > 0; turns--) await new Promise(setImmediate)
}

const grant = (bearerToken: string): VerifiedToken<{ id: string }> => ({
  valid: true,
  user: { id: `user of ${bearerToken}` },
  clientId: `client of ${bearerToken}`,
  scopes: ['mcp:read'],
})

/** Looks every token up anew. */
const fresh: VerifyToken<App, { id: string }> = async ({ bearerToken, context }) => {
  if (bearerToken === undefined) return undefined
  context.context.asked = bearerToken
  await dawdle()
  return grant(bearerToken)
}

/** Gives all requests with one token one promise, and so one result. */
function remembering(): VerifyToken<App, { id: string }> {
  const known = new Map<string, Promise<VerifiedToken<{ id: string }>>>()
  return ({ bearerToken, context }) => {
    if (bearerToken === undefined) return undefined
    context.context.asked = bearerToken
    const found = known.get(bearerToken) ?? dawdle().then(() => grant(bearerToken))
    known.set(bearerToken, found)
    return found
  }
}

/** An adapter whose one tool tells what it knows of its caller, before and after others had their turn. */
function adapterWith(
  verifyToken: OAuthOptions<App>['verifyToken'],
  telemetry: KitTelemetryManager,
): McpAdapter {
  const router = KitMcpRouter.create()
    .context(async (): Promise<App> => {
      await dawdle()
      return {}
    })
    .tool('whoami', { description: 'x', input: z.object({ n: z.number() }) }, async ({ n }, context) => {
      const before = context.context.user?.id
      await dawdle()
      telemetry.emit('test.seen', { attributes: { n, user: context.context.user?.id } })
      await dawdle()
      const { auth } = context
      const { asked, user } = context.context
      return { n, before, asked, user: user?.id, auth: { ...auth }, token: auth?.token }
    })
  const oauth: OAuthOptions<App, { id: string }> = {
    issuer: 'https://auth.example.com',
    scopes: ['mcp:read'],
    verifyToken,
    onVerified: async ({ context, user }) => {
      await dawdle()
      if (user !== undefined) context.context.user = user
    },
  }
  return createMcpAdapter({ router, oauth, telemetry })
}

interface Setting {
  readonly name: string
  readonly makeVerifier: () => VerifyToken<App, { id: string }>
  readonly serve: (adapter: McpAdapter) => RequestListener
}

const SETTINGS: readonly Setting[] = [
  {
    name: 'Express, and a verifier that is asked every time',
    makeVerifier: () => fresh,
    serve: (adapter) => {
      const route = [mcpCors(), mcpAuth(adapter), mcpHandler(adapter)] as RequestHandler[]
      return express().use('/mcp', ...route)
    },
  },
  {
    name: 'the web-standard handler, and a verifier that remembers',
    makeVerifier: remembering,
    serve: ({ server }) => {
      const handle = toNodeHandler({ fetch: (request) => server(request) })
      return (req, res) => void handle(req as never, res as never)
    },
  },
]

interface Answer {
  readonly status: number | undefined
  readonly said: unknown
}

async function ask(port: number, agent: Agent, n: number, token: string): Promise<Answer> {
  const args = { n }
  const { headers = {}, body } =
    n % 2 === 0
      ? legacy(call('whoami', args, n), bearer(token))
      : modern('tools/call', { name: 'whoami', arguments: args }, bearer(token))
  const outgoing = httpRequest({
    host: '127.0.0.1',
    port,
    path: '/mcp',
    method: 'POST',
    agent,
    headers: definedOf(headers),
  })
  outgoing.end(body)
  const [response] = await once(outgoing, 'response')
  const answer = await text(response)
  const streamed = response.headers['content-type']?.startsWith('text/event-stream')
  const message = streamed ? eventsOf(answer).at(-1) : JSON.parse(answer)
  return { status: response.statusCode, said: JSON.parse(message.result.content[0].text) }
}

describe(`mcp: ${REQUESTS} requests at once with ${TOKENS} tokens`, function () {
  this.timeout(60_000)
  for (const { name, makeVerifier, serve } of SETTINGS) {
    it(`concurrent requests each see their own user, in responses and in events: ${name}`, async () => {
      const { telemetry, transport } = keepingEvents()
      const { port, close } = await listen(serve(adapterWith(makeVerifier(), telemetry)))
      const agent = new Agent({ keepAlive: true, maxSockets: 250 })
      try {
        const tokens = Array.from({ length: REQUESTS }, (_, n) => `token${(n * 7) % TOKENS}`)
        const answers = await Promise.all(tokens.map((token, n) => ask(port, agent, n, token)))
        const wrong = answers.filter((answer, n) => !isDeepStrictEqual(answer, ownAnswer(n, tokens[n] ?? '')))
        expect(wrong).to.deep.equal([])
      } finally {
        agent.destroy()
        await close()
      }
      await telemetry.flush()
      expectOwnActors(transport.getEvents())
    })
  }
})

/** The expected response to request `n`, without data of other requests. */
function ownAnswer(n: number, token: string): Answer {
  const { user, clientId, scopes } = grant(token)
  const auth = { clientId, scopes, extra: {}, user }
  return { status: 200, said: { n, before: user?.id, asked: token, user: user?.id, auth, token } }
}

/** Each request is a session of its own, and everything in it is about the user that its tool saw. */
function expectOwnActors(events: readonly TelemetryEnvelope[]): void {
  const sessions = new Map<string, TelemetryEnvelope[]>()
  for (const event of events) {
    const known = sessions.get(event.sessionId)
    if (known === undefined) sessions.set(event.sessionId, [event])
    else known.push(event)
  }
  expect(sessions.size).to.equal(REQUESTS)
  const numbers = new Set<unknown>()
  for (const own of sessions.values()) {
    const seen = own.filter(({ name }) => name === 'test.seen')
    expect(seen).to.have.length(1)
    numbers.add(seen[0]?.attributes?.n)
    const names = own.map(({ name }) => name).sort()
    expect(names).to.deep.equal([
      'kit.mcp.auth.accepted',
      'kit.mcp.request.completed',
      'kit.mcp.tool.completed',
      'test.seen',
    ])
    for (const { actor } of own) expect(actor).to.deep.equal({ type: 'user', id: seen[0]?.attributes?.user })
  }
  expect(numbers.size).to.equal(REQUESTS)
}
