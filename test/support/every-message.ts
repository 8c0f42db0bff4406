import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import fc from 'fast-check'
import { KitTelemetry, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { endpointOf } from '../../src/mcp/endpoint-of.ts'
import { listen } from './listen.ts'
import { definedOf } from './mcp/wire.ts'
import { type FuzzedRequest, fuzzedRequests, fuzzRouter } from './message-fuzz.ts'

interface PlainResponse {
  readonly status: number
  readonly type: string
  readonly text: string
  /** Further headers that a path could forget. */
  readonly more: readonly unknown[]
}

const MORE = ['cache-control', 'x-accel-buffering', 'www-authenticate']

function adapter(direct: boolean, observed = false): McpAdapter {
  const telemetry = KitTelemetry.create()
    .addTransport({ type: 'none', handle: () => undefined })
    .build()
  const made = createMcpAdapter({ router: fuzzRouter, ...(observed && { telemetry, recordPayloads: true }) })
  const service = endpointOf(made)
  if (service === undefined) throw new Error('no service')
  service.sdkHandler.usesFastPath = direct
  return made
}

const plainResponse = (status: number, header: (name: string) => unknown, said: string): PlainResponse => ({
  status,
  type: String(header('content-type') ?? ''),
  text: said.replace(/Reference: [\w-]+/g, 'Reference: …'),
  more: MORE.map(header),
})

async function askFunction({ server }: McpAdapter, { body, headers }: FuzzedRequest): Promise<PlainResponse> {
  const init = {
    method: 'POST',
    headers: definedOf(headers),
    body: typeof body === 'string' ? body : new Uint8Array(body),
  }
  const response = await server(new Request('http://localhost/mcp', init))
  return plainResponse(response.status, (name) => response.headers.get(name), await response.text())
}

/**
 * Expects the fast path and the SDK path to respond to each of `count` random requests once, and identically, with and
 * without telemetry.
 * @param seed Random if omitted; a failure prints it.
 */
export async function fuzzServingPaths(count: number, seed?: number): Promise<void> {
  const ways = [adapter(true), adapter(false), adapter(true, true), adapter(false, true)]
  await fc.assert(
    fc.asyncProperty(fuzzedRequests, async (request) => {
      const answers = await Promise.all(ways.map((way) => askFunction(way, request)))
      const [first, ...others] = answers as [PlainResponse, ...PlainResponse[]]
      expectOneAnswer(request, first)
      for (const other of others) expect(inOrder(other)).to.deep.equal(inOrder(first))
    }),
    { numRuns: count, ...(seed !== undefined && { seed }) },
  )
}

/** Does the same over sockets. Each path has its own connection, which must stay in sync. */
export async function fuzzSockets(count: number, seed?: number): Promise<void> {
  const agents = [
    new Agent({ keepAlive: true, maxSockets: 1 }),
    new Agent({ keepAlive: true, maxSockets: 1 }),
  ] as const
  const servers = await Promise.all([true, false].map((direct) => listen(mcpHandler(adapter(direct)))))
  const ask = async (way: 0 | 1, { body, headers }: FuzzedRequest): Promise<PlainResponse> => {
    const { port = 0 } = servers[way] ?? {}
    const outgoing = httpRequest({
      host: '127.0.0.1',
      port,
      path: '/mcp',
      method: 'POST',
      agent: agents[way],
      headers: { ...definedOf(headers), 'content-length': Buffer.byteLength(body) },
    })
    outgoing.end(body)
    const [response] = await once(outgoing, 'response')
    return plainResponse(response.statusCode, (name) => response.headers[name], await text(response))
  }
  try {
    await fc.assert(
      fc.asyncProperty(fuzzedRequests, async (request) => {
        const answers = await Promise.all([ask(0, request), ask(1, request)])
        expectOneAnswer(request, answers[0])
        expect(inOrder(answers[0])).to.deep.equal(inOrder(answers[1]))
      }),
      { numRuns: count, ...(seed !== undefined && { seed }) },
    )
  } finally {
    for (const agent of agents) agent.destroy()
  }
}

// The responses to a batch arrive in any order.
const inOrder = (answer: PlainResponse): PlainResponse => ({
  ...answer,
  text: answer.text.split('\n').sort().join('\n'),
})

/** Returns the messages of a response, from JSON or from an event stream. */
function messagesOf({ type, text: said }: PlainResponse): any[] {
  if (!type.startsWith('text/event-stream')) return [JSON.parse(said)]
  return said
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice('data: '.length)))
}

const parsed = (body: string | Buffer): unknown => {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** Expects one HTTP response without an internal error, with one message for each request id and no other messages. */
function expectOneAnswer({ body }: FuzzedRequest, answer: PlainResponse): void {
  expect(answer.status).to.be.within(200, 499)
  expect(answer.text).not.to.contain('a secret')
  if (answer.status === 202) {
    expect(answer.text).to.equal('')
    expect(askedIds(body), 'a request was taken for a notification').to.deep.equal([])
    return
  }
  const messages = messagesOf(answer)
  const answers = messages.filter((message) => !('method' in message))
  for (const one of answers) expect('result' in one !== 'error' in one).to.equal(true)
  if (answer.status === 200) {
    expect(answers.map(({ id }) => JSON.stringify(id)).sort()).to.deep.equal(askedIds(body).sort())
    return
  }
  expect(messages).to.have.length(1)
  expect(messages[0]).to.have.nested.property('error.code')
  expect(JSON.stringify(messages[0].id ?? null)).to.be.oneOf(['null', ...askedIds(body)])
}

/** Returns the ids of the requests in a body, as JSON. */
function askedIds(body: string | Buffer): string[] {
  return [parsed(body)].flat().flatMap((message) => {
    const { id, method } = (message ?? {}) as { id?: unknown; method?: unknown }
    const isRequest = (typeof id === 'string' || typeof id === 'number') && typeof method === 'string'
    return isRequest ? [JSON.stringify(id)] : []
  })
}
