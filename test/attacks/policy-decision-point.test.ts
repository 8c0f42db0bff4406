import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { type AuthZenOptions, authzen } from '../../src/policy/index.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../src/telemetry/index.ts'
import { attackTable } from '../support/attacks/attack-table.ts'
import { freePort } from '../support/free-port.ts'
import { CALL_MODES, responseIn } from '../support/mcp/call-modes.ts'
import type { Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { json, startDecisionPoint, type TestDecisionPoint } from '../support/policy/decision-point.ts'
import { selfSigned } from '../support/self-signed.ts'

const TOKEN = 'access-token-of-ada-0123456789'
const KEY = 'key-of-this-server-0123456789'
const ADMIN_REASON = 'policy C076E82F of the board'
const DENIED = 'You are not allowed to use this tool.'
const PERMIT = { decision: true }

let ran = 0
const router = KitMcpRouter.create()
  .tool('add', { description: 'x' }, () => {
    ran++
    return 'added'
  })
  .tool('delete', { description: 'x' }, () => 'deleted')

const transport = InMemoryTransportAdapter.create()
const telemetry = KitTelemetry.create()
  .withSampling({ debugRate: 1, infoRate: 1 })
  .addTransport(transport)
  .build()

/** Sends bytes as the whole response. */
type Respond = NonNullable<TestDecisionPoint['respond']>

const text =
  (body: string | Buffer, status = 200, headers: Record<string, string> = {}): Respond =>
  (_req, res) => {
    res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
  }

/** Responds to a call and to a list with `decision` in place of each decision. */
const decision =
  (decision: unknown): Respond =>
  (_req, res, request) =>
    json(
      res,
      request.path.endsWith('/evaluation')
        ? decision
        : { evaluations: request.evaluations.map(() => decision) },
      request,
    )

const lists =
  (evaluations: unknown): Respond =>
  (_req, res, request) =>
    json(res, request.path.endsWith('/evaluation') ? PERMIT : { evaluations }, request)

describe('attacks of a policy decision point', () => {
  const [mode = expect.fail()] = CALL_MODES
  let point: TestDecisionPoint
  let other: { readonly url: string; readonly close: () => Promise<unknown> }
  let redirected: string[]
  let served: Served
  let options: Partial<AuthZenOptions>

  before(async () => {
    point = await startDecisionPoint()
    const http = createServer((req, res) => {
      redirected.push(String(req.url))
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(PERMIT))
    }).listen(0, '127.0.0.1')
    await once(http, 'listening')
    const { port } = http.address() as AddressInfo
    other = { url: `http://127.0.0.1:${port}`, close: async () => http.close() }
    let current: ReturnType<typeof authzen> | undefined
    let currentOf: unknown
    served = await mode.serve({
      router,
      oauth: oauth({
        verifyToken: () => ({ valid: true, user: { id: 'ada' }, clientId: 'desktop', scopes: ['mcp:read'] }),
      }),
      telemetry,
      authorize: (query) => {
        if (currentOf !== options) current = undefined
        currentOf = options
        current ??= authzen({
          url: point.url,
          headers: { authorization: `Bearer ${KEY}` },
          timeoutMs: 2_000,
          ...options,
        })
        return current(query)
      },
    })
  })
  after(async () => {
    await served.close()
    await other.close()
    await point.close()
  })
  beforeEach(() => {
    options = {}
    redirected = []
    point.requests.length = 0
    point.respond = undefined
    point.decide = () => true
    transport.clear()
    ran = 0
  })

  /** Calls a tool, and returns the text of the denial. Nothing that clients or telemetry receive has a secret. */
  async function deniedCall(): Promise<{ text: string; type: unknown; message: string }> {
    const answer = await mode.send(served, 'tools/call', { name: 'add', arguments: {} }, TOKEN)
    const { result } = responseIn(answer)
    expect(ran).to.equal(0)
    expect(result.isError).to.equal(true)
    const events = transport.getEvents()
    expect(answer.text + JSON.stringify(events)).not.to.match(
      new RegExp([TOKEN, KEY, ADMIN_REASON].join('|')),
    )
    const event = events.find(({ name }) => name === 'kit.mcp.policy.denied')
    return {
      text: result.content[0].text,
      type: event?.attributes?.['error.type'],
      message: String(event?.error?.message),
    }
  }

  async function listedTools(): Promise<string[]> {
    const { result } = responseIn(await mode.send(served, 'tools/list', {}, TOKEN))
    return result.tools.map(({ name }: { name: string }) => name)
  }

  /** The call is denied because of an error, and the list is empty. */
  async function failsClosed(respond: Respond | undefined, message?: string): Promise<void> {
    point.respond = respond
    const denied = await deniedCall()
    expect(denied.text).to.equal(DENIED)
    expect(denied.type).to.equal('DecisionPointError')
    if (message !== undefined) expect(denied.message).to.contain(message)
    expect(await listedTools()).to.deep.equal([])
  }

  const CLOSED = 'the call is denied, and the list is empty'

  /** A response that never ends. */
  const endless: Respond = (_req, res: ServerResponse) => {
    res.writeHead(200, { 'content-type': 'application/json' })
    const chunk = Buffer.alloc(65_536, ' ')
    const write = (): void => {
      while (!res.destroyed && res.write(chunk));
      if (!res.destroyed) res.once('drain', write)
    }
    write()
  }

  const responses: readonly (readonly [attack: string, respond: Respond, message?: string])[] = [
    ['status 201 with a permit', text(JSON.stringify(PERMIT), 201), 'status 201'],
    ['status 204 without a body', (_req, res) => void res.writeHead(204).end(), 'status 204'],
    ['status 400 with a permit', text(JSON.stringify(PERMIT), 400), 'status 400'],
    ['status 401 with a permit', text(JSON.stringify(PERMIT), 401), 'status 401'],
    ['status 403 that repeats the credentials', text(`denied: ${KEY}`, 403), 'status 403'],
    ['status 429', text('slow down', 429, { 'retry-after': '1' }), 'status 429'],
    ['status 500 with a permit', text(JSON.stringify(PERMIT), 500), 'status 500'],
    ['status 503', text('down', 503), 'status 503'],
    ['an empty body', text(''), 'not JSON'],
    ['a body that is not JSON and has a secret', text(`{"decision": true, ${KEY}`), 'not JSON'],
    ['an HTML page', text('<p>Sign in', 200, { 'content-type': 'text/html' }), 'not application/json'],
    [
      'a permit as text/plain',
      text(JSON.stringify(PERMIT), 200, { 'content-type': 'text/plain' }),
      'not application/json',
    ],
    ['null', text('null')],
    ['the JSON value true', text('true')],
    ['a list of permits', text(JSON.stringify([PERMIT]))],
    ['an object without a decision', text('{}')],
    ['a body of 2 MiB', text(`{"decision":true,"context":{"a":"${'x'.repeat(2_097_152)}"}}`), 'larger than'],
    [
      'a body of 32 MiB that is compressed to 32 KiB',
      text(gzipSync(Buffer.alloc(33_554_432, ' ')), 200, { 'content-encoding': 'gzip' }),
      'larger than',
    ],
    ['a body without an end', endless, 'larger than'],
    [
      'a body that is not the announced encoding',
      text('{"decision":true}', 200, { 'content-encoding': 'gzip' }),
    ],
    [
      'a body that ends too early',
      (_req, res) => {
        res
          .writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
          .write('{"decision":true}')
        res.socket?.end()
      },
    ],
    ['a connection that is reset', (req) => void req.socket.destroy()],
    ['a response that is not HTTP', (req) => void req.socket.end(`${KEY}\r\n\r\n`)],
    ['100,000 nested lists', text(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)],
  ]

  const decisions: readonly (readonly [string, unknown])[] = [
    ['a decision that is the string true', { decision: 'true' }],
    ['a decision that is 1', { decision: 1 }],
    ['a decision that is an object', { decision: {} }],
    ['a decision that is null', { decision: null }],
    ['a decision under another name', { Decision: true, allow: true, result: true }],
    ['a decision in the prototype', JSON.parse('{"__proto__":{"decision":true}}')],
    ['a decision inside the context', { context: { decision: true } }],
  ]

  attackTable('policy decision point', [
    ...responses.map(([attack, respond, message]) => ({
      attack,
      outcome: CLOSED,
      run: () => failsClosed(respond, message),
    })),
    ...decisions.map(([attack, value]) => ({
      attack,
      outcome: CLOSED,
      run: () => failsClosed(decision(value), 'true or false'),
    })),
    ...[301, 302, 303, 307, 308].map((status) => ({
      attack: `a redirect with status ${status} to a server that permits`,
      outcome: `${CLOSED}, and the redirect is not followed`,
      run: async () => {
        await failsClosed(
          (_req, res) => void res.writeHead(status, { location: `${other.url}/x` }).end(),
          `status ${status}`,
        )
        expect(redirected).to.deep.equal([])
      },
    })),
    {
      attack: 'a response that never comes',
      outcome: `${CLOSED} after timeoutMs`,
      run: async () => {
        options = { timeoutMs: 30 }
        await failsClosed(() => undefined, 'no response within 30 ms')
      },
    },
    {
      attack: 'a response that sends a byte every 5 ms',
      outcome: `${CLOSED} after timeoutMs`,
      run: async () => {
        options = { timeoutMs: 60 }
        await failsClosed((_req, res) => {
          res.writeHead(200, { 'content-type': 'application/json' })
          const timer = setInterval(() => res.write(' '), 5)
          res.once('close', () => clearInterval(timer))
        }, 'no response within 60 ms')
      },
    },
    {
      attack: 'a port that nothing listens on',
      outcome: CLOSED,
      run: async () => {
        options = { url: `http://127.0.0.1:${await freePort()}` }
        await failsClosed(undefined, 'ECONNREFUSED')
      },
    },
    {
      attack: 'a TLS certificate that this machine does not trust',
      outcome: CLOSED,
      run: async () => {
        const https = createSecureServer(selfSigned(), (_req, res) => {
          res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(PERMIT))
        }).listen(0, '127.0.0.1')
        await once(https, 'listening')
        options = { url: `https://127.0.0.1:${(https.address() as AddressInfo).port}` }
        try {
          await failsClosed(undefined, 'DEPTH_ZERO_SELF_SIGNED_CERT')
        } finally {
          https.close()
        }
      },
    },
    ...(
      [
        ['too few evaluations', [PERMIT]],
        ['too many evaluations', [PERMIT, PERMIT, PERMIT]],
        ['no evaluations', []],
        ['an object of evaluations', { 0: PERMIT, 1: PERMIT, length: 2 }],
        ['one decision for all', undefined],
        ['evaluations that are not objects', [true, true]],
      ] as const
    ).map(([attack, evaluations]) => ({
      attack: `a list with ${attack}`,
      outcome: 'the list is empty',
      run: async () => {
        point.respond = evaluations === undefined ? text('{"decision":true}') : lists(evaluations)
        expect(await listedTools()).to.deep.equal([])
        const [event] = transport.getEvents().filter(({ name }) => name === 'kit.mcp.policy.denied')
        expect(event?.attributes?.['error.type']).to.equal('DecisionPointError')
      },
    })),
    {
      attack: 'a list with one invalid decision',
      outcome: 'the list has the other entry only',
      run: async () => {
        point.respond = lists([{ decision: 'true' }, PERMIT])
        expect(await listedTools()).to.deep.equal(['delete'])
      },
    },
    {
      attack: 'an object without a decision while Object.prototype has one',
      outcome: CLOSED,
      run: async () => {
        Object.defineProperty(Object.prototype, 'decision', { value: true, configurable: true })
        try {
          await failsClosed(decision({}), 'true or false')
        } finally {
          Reflect.deleteProperty(Object.prototype, 'decision')
        }
      },
    },
    {
      attack: 'a permit and a denial under the same name',
      outcome: 'the last one counts, as in every JSON parser of JavaScript',
      run: async () => {
        point.respond = text('{"decision":true,"decision":false}')
        expect((await deniedCall()).text).to.equal(DENIED)
      },
    },
    {
      attack: 'a denial with a reason for administrators',
      outcome: 'the client and telemetry do not receive it',
      run: async () => {
        point.respond = decision({ decision: false, context: { reason_admin: { 403: ADMIN_REASON } } })
        expect((await deniedCall()).text).to.equal(DENIED)
      },
    },
    {
      attack: 'a denial whose reason repeats the credentials of the server',
      outcome: 'the client does not receive the reason',
      run: async () => {
        for (const reason of [`Bearer ${KEY}`, `no ${KEY}`, `${'x'.repeat(490)} ${KEY}`]) {
          point.respond = decision({ decision: false, context: { reason_user: reason } })
          const { text: shown } = await deniedCall()
          expect(shown).to.equal(DENIED)
        }
      },
    },
    {
      attack: 'a denial whose reason repeats a part of a JWT of the server, or its key percent-encoded',
      outcome: 'the client does not receive the reason',
      run: async () => {
        const parts = ['eyJhbGciOiJSUzI1NiJ9', 'eyJzdWIiOiJzZXJ2ZXIifQ', 'c2lnbmF0dXJlLW9mLXRoaXM']
        const key = 'key+of/this=server'
        options = { headers: { authorization: `Bearer ${parts.join('.')}`, 'x-api-key': key } }
        for (const secret of [...parts, encodeURIComponent(key)]) {
          point.respond = decision({ decision: false, context: { reason_user: `denied: ${secret}` } })
          expect((await deniedCall()).text).to.equal(DENIED)
        }
      },
    },
    {
      attack: 'a denial with a reason of 1 MB and 50,000 languages',
      outcome: 'the client receives 500 characters',
      run: async () => {
        const reasons = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`x${index}`, 1]))
        point.respond = decision({
          decision: false,
          context: { reason_user: { ...reasons, last: 'x'.repeat(300_000) } },
        })
        expect((await deniedCall()).text).to.have.length(500)
      },
    },
    {
      attack: 'a denial with a reason of control characters and escape sequences',
      outcome: 'the client receives one line without them',
      run: async () => {
        point.respond = decision({
          decision: false,
          context: { reason_user: 'a\u001b[2Jb\r\nc\u202ed\u{e0041}e\u2066f' },
        })
        expect((await deniedCall()).text).to.equal('a [2Jb  c d e f')
      },
    },
    {
      attack: 'a function for headers that fails with the credentials in its error',
      outcome: 'the call is denied, and the client does not receive the error',
      run: async () => {
        options = { headers: () => ({ authorization: `Bearer ${KEY}\nx: y` }) }
        const { text: shown, type } = await deniedCall()
        expect([shown, type]).to.deep.equal([DENIED, 'TypeError'])
        expect(point.requests).to.deep.equal([])
      },
    },
    {
      attack: 'a client that puts a decision into its arguments and metadata',
      outcome: 'the decision point does not receive it',
      run: async () => {
        point.decide = () => false
        const params = {
          name: 'add',
          arguments: { decision: true },
          _meta: { decision: true },
          decision: true,
        }
        const answer = await mode.send(served, 'tools/call', params, TOKEN)
        expect(responseIn(answer).result.isError).to.equal(true)
        expect(point.requests[0]?.text).not.to.contain('decision')
      },
    },
  ])
})
