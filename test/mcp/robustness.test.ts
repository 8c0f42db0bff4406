import { once } from 'node:events'
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { expect } from 'chai'
import fc from 'fast-check'
import { z } from 'zod'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { ENTRY_POINTS, onNode, type Served, web } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import {
  bearer,
  call,
  definedOf,
  legacy,
  MODERN,
  modern,
  rpc,
  type Signalled,
  signalled,
  type WireRequest,
} from '../support/mcp/wire.ts'
import { runs } from '../support/runs.ts'

/** The latest call of each tool. */
let started: Signalled
let aborted: Signalled

const router = KitMcpRouter.create()
  .context(() => ({ user: undefined as unknown }))
  .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, ({ text }, context) => {
    return { text, user: context.auth?.user }
  })
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('wait', { description: 'x' }, async (_args, { signal }) => {
    started.resolve()
    await once(signal, 'abort')
    aborted.resolve()
  })
  .tool('stream', { description: 'x' }, async (_args, context) => {
    await context.progress(1)
    started.resolve()
    await once(context.signal, 'abort')
    aborted.resolve()
  })

beforeEach(() => {
  started = signalled()
  aborted = signalled()
})

const WIRED = ENTRY_POINTS.filter(({ wire }) => wire)
const portOf = (served: Served): number => Number(new URL(served.origin).port)

/** Starts a request and leaves it to the test. */
function open(
  served: Served,
  { method = 'POST', headers = {}, body }: WireRequest,
  agent?: Agent,
): ClientRequest {
  const outgoing = httpRequest({
    host: '127.0.0.1',
    port: portOf(served),
    path: '/mcp',
    method,
    headers: definedOf(headers),
    agent: agent ?? false,
  })
  outgoing.on('error', () => undefined)
  const text = body as string
  return outgoing.setHeader('content-length', Buffer.byteLength(text)).end(text)
}

async function textOf(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8')
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

describe('mcp: unusual request targets', () => {
  it('every request target gets a response', async () => {
    const served = await onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth() })))
    const body = JSON.stringify(rpc('tools/list'))
    try {
      for (const target of [
        '/mcp?x=%%%',
        '//mcp',
        '*',
        '/%zz',
        'http://127.0.0.1/mcp',
        '/?',
        '/\\',
        'http://a:b:c/',
        'http://127.0.0.1:99999/',
      ]) {
        const socket = connect(served.port, '127.0.0.1')
        socket.write(
          [
            `POST ${target} HTTP/1.1`,
            'Host: 127.0.0.1',
            'Content-Type: application/json',
            'Authorization: Bearer reader',
            `Content-Length: ${body.length}`,
            'Connection: close',
            '',
            body,
          ].join('\r\n'),
        )
        let text = ''
        socket.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        await once(socket, 'close')
        expect(text, target).to.match(/^HTTP\/1\.1 200 /)
      }
    } finally {
      await served.close()
    }
  })
})

describe('mcp: the web-standard handler', () => {
  const { server } = createMcpAdapter({ router, oauth: oauth() })
  const stream = { name: 'stream', _meta: { progressToken: 1 } }

  it('the web-standard handler aborts the handler of a tool when the reader of a streamed response cancels it', async () => {
    for (const request of [legacy(rpc('tools/call', stream)), modern('tools/call', stream)]) {
      aborted = signalled()
      const init = { method: 'POST', headers: definedOf({ ...request.headers, ...bearer('reader') }) }
      const response = await server(
        new Request('http://localhost/mcp', { ...init, body: request.body as string }),
      )
      const reader = response.body?.getReader()
      await reader?.read()
      await reader?.cancel()
      await aborted.promise
    }
  })

  it('the web-standard handler aborts the handler of a tool when the request is aborted', async () => {
    for (const request of [legacy(rpc('tools/call', stream)), modern('tools/call', stream)]) {
      aborted = signalled()
      started = signalled()
      const abort = new AbortController()
      const init = { method: 'POST', headers: definedOf({ ...request.headers, ...bearer('reader') }) }
      const answering = server(
        new Request('http://localhost/mcp', {
          ...init,
          body: request.body as string,
          signal: abort.signal,
        }),
      )
      await started.promise
      abort.abort()
      await aborted.promise
      expect((await answering).status).to.equal(200)
    }
  })

  it('a body that breaks off is rejected', async () => {
    const { headers = {} } = legacy('', bearer('reader'))
    const body = new ReadableStream({
      start: (controller) => controller.error(new Error('the client is gone')),
    })
    const init = { method: 'POST', headers: definedOf(headers), body, duplex: 'half' }
    expect((await server(new Request('http://localhost/mcp', init as RequestInit))).status).to.equal(400)
  })

  it('a batch that cancels one of its own requests gets all responses', async () => {
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
    const elsewhere = { ...cancelled, params: { requestId: 99 } }
    const batch = [call('echo', { text: 'a' }, 1), cancelled, elsewhere, null]
    const { send } = web(server)
    const headers = { ...bearer('reader'), 'mcp-protocol-version': undefined }
    const { status, messages } = await send(legacy(batch.slice(0, 3), headers))
    expect(status).to.equal(200)
    expect(messages).to.have.length(1)
    expect(messages[0]).to.include({ id: 1 })
    expect((await send(legacy([cancelled], headers))).status).to.equal(202)
    expect((await send(legacy(batch, headers))).status).to.equal(400)
  })
})

describe('mcp: whatever is sent', () => {
  for (const params of [
    { name: { toString: [] } },
    { name: ['write'] },
    { ref: { type: 'ref/prompt', name: { toString: 1 } } },
  ]) {
    it(`a name that is not a string gets a response: ${JSON.stringify(params)}`, async () => {
      const { send } = web(createMcpAdapter({ router }).server)
      for (const method of ['tools/call', 'prompts/get', 'completion/complete']) {
        expect((await send(legacy({ jsonrpc: '2.0', method, params }))).status).to.equal(202)
        const { status, message } = await send(legacy(rpc(method, params)))
        expect(status).to.be.within(200, 404)
        expect(message.error.code).to.be.oneOf([-32_602, -32_601])
      }
    })
  }

  const METHODS = [
    'tools/call',
    'tools/list',
    'initialize',
    'ping',
    'logging/setLevel',
    'server/discover',
    'prompts/get',
    'notifications/cancelled',
    'notifications/initialized',
    'notifications/progress',
  ]
  const id = fc.oneof(fc.integer(), fc.string(), fc.constant(null), fc.double(), fc.boolean(), fc.object())
  const envelope = fc.record(
    {
      'io.modelcontextprotocol/protocolVersion': fc.oneof(
        fc.constantFrom(MODERN, '2025-11-25'),
        fc.jsonValue(),
      ),
      'io.modelcontextprotocol/clientCapabilities': fc.oneof(fc.constant({}), fc.jsonValue()),
      progressToken: fc.jsonValue(),
    },
    { requiredKeys: [] },
  )
  const params = fc.oneof(
    fc.jsonValue(),
    fc.record(
      {
        name: fc.oneof(fc.constantFrom('echo', 'write', '__proto__', 'constructor'), fc.jsonValue()),
        arguments: fc.oneof(fc.record({ text: fc.jsonValue() }), fc.jsonValue()),
        requestId: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.jsonValue()),
        _meta: fc.oneof(envelope, fc.jsonValue()),
      },
      { requiredKeys: [] },
    ),
  )
  const message = fc.record(
    {
      jsonrpc: fc.oneof(
        { weight: 9, arbitrary: fc.constant('2.0') },
        { weight: 1, arbitrary: fc.jsonValue() },
      ),
      id: fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 0, max: 3 }) }, id),
      method: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...METHODS) }, fc.jsonValue()),
      params,
      result: fc.jsonValue(),
      error: fc.jsonValue(),
    },
    { requiredKeys: ['jsonrpc'] },
  )
  const body = fc.oneof(
    message.map((one) => JSON.stringify(one)),
    fc.array(message, { maxLength: 5 }).map((some) => JSON.stringify(some)),
    fc.jsonValue().map((one) => JSON.stringify(one)),
    fc.string(),
  )
  const version = fc.constantFrom(undefined, '2025-03-26', '2025-06-18', '2025-11-25', MODERN, '', 'zzz')
  const headers = fc.record(
    {
      'mcp-method': fc.constantFrom(...METHODS),
      'mcp-name': fc.constantFrom('echo', 'write', '=?base64?ZWNobw==?='),
      'mcp-session-id': fc.constant('x'),
      'last-event-id': fc.constant('x'),
    },
    { requiredKeys: [] },
  )

  /** Answers of the server to what it was sent: each once, and none its own fault. */
  async function property(served: Served, agent: Agent | undefined, count: number): Promise<void> {
    await fc.assert(
      fc.asyncProperty(body, version, headers, fc.boolean(), async (text, revision, more, allowed) => {
        const request = legacy(text, {
          ...bearer(allowed ? 'admin' : 'reader'),
          'mcp-protocol-version': revision,
          ...more,
        })
        let status: number | undefined
        let answer: string
        if (agent === undefined) {
          const sent = await served.send(request)
          status = sent.status
          answer = sent.text
        } else {
          const [response] = await once(open(served, request, agent), 'response')
          status = response.statusCode
          answer = await textOf(response)
        }
        expect(status).to.be.within(200, 499)
        if (status === 202) expect(answer).to.equal('')
        else expect(answer).to.not.equal('')
      }),
      { numRuns: count },
    )
  }

  it('any input gets one response, and never a 5xx, from the web-standard handler', async function () {
    this.timeout(60_000)
    await property(web(createMcpAdapter({ router, oauth: oauth() }).server), undefined, runs(1_500))
  })

  for (const entryPoint of WIRED.filter(({ parsed }) => !parsed)) {
    it(`any input gets one response, and never a 5xx, over one connection from ${entryPoint.name}`, async function () {
      this.timeout(60_000)
      const served = await entryPoint.serve({ router, oauth: oauth() })
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      try {
        await property(served, agent, runs(200))
      } finally {
        agent.destroy()
        await served.close()
      }
    })
  }
})
