import { isDeepStrictEqual } from 'node:util'
import { expect } from 'chai'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import { type Setup, serving } from '../support/mcp/entry-points.ts'
import { FRAMEWORKS, HOSTS, type Host, NESTED, serveWhole } from '../support/mcp/hosts.ts'
import { METADATA, notes, oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy, modern, rpc, type WireAnswer, type WireRequest } from '../support/mcp/wire.ts'
import { rawRequest } from '../support/raw-http.ts'

/** Beside the tokens of `oauth()`: what verifiers say of tokens that are not good enough, or could not say. */
const setup: Setup = {
  router: notes.context(({ request }) => {
    if (request.headers.has('x-no-context')) throw new Error('context secret')
    return {}
  }),
  maxBodyBytes: 1_000,
  oauth: oauth({
    verifyTimeoutMs: 10,
    verifyToken: (input) => {
      switch (input.bearerToken) {
        case 'expired':
          return { valid: true, expiresAt: 1, scopes: [] }
        case 'elsewhere':
          return { valid: true, resource: 'https://other.example.com/mcp', scopes: ['mcp:read'] }
        case 'unsaid':
          return { scopes: ['mcp:read'] } as never
        case 'down':
          throw new VerifierUnavailableError('secret of the verifier', { retryAfterSeconds: 7 })
        case 'hung':
          return new Promise(() => undefined)
        case 'broken':
          throw new Error('secret of the verifier')
        default:
          return oauth().verifyToken(input)
      }
    },
    onVerified: ({ request }) => {
      if (request.headers.has('x-no-hook')) throw new Error('hook secret')
    },
  }),
}

/** The visible parts of a response, without dates and headers of the connection. */
interface Essence {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

const OF_THE_CONNECTION = [
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'transfer-encoding',
  'x-powered-by',
]

function essence(answer: WireAnswer): Essence {
  const headers = [...answer.headers].filter(([name]) => !OF_THE_CONNECTION.includes(name))
  const json = answer.headers.get('content-type')?.startsWith('application/json') ?? false
  return {
    status: answer.status,
    headers: Object.fromEntries(headers),
    body: json && answer.text !== '' ? JSON.parse(answer.text) : answer.text,
  }
}

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'WWW-Authenticate,Mcp-Session-Id,MCP-Protocol-Version,Retry-After',
}
const JSON_HEADERS = { ...CORS, 'content-type': 'application/json', 'cache-control': 'no-store' }

function unauthorized(description: string): Essence {
  return {
    status: 401,
    headers: {
      ...JSON_HEADERS,
      'www-authenticate': `Bearer realm="mcp-server", error="invalid_token", scope="mcp:read", resource_metadata="${METADATA}", error_description="${description}"`,
    },
    body: { error: 'invalid_token', error_description: description },
  }
}

function forbidden(scope: string): Essence {
  const description = 'The access token does not have the required scope'
  return {
    status: 403,
    headers: {
      ...JSON_HEADERS,
      'www-authenticate': `Bearer realm="mcp-server", error="insufficient_scope", scope="${scope}", resource_metadata="${METADATA}", error_description="${description}"`,
    },
    body: { error: 'insufficient_scope', error_description: description, scope },
  }
}

function unavailable(retryAfter: string): Essence {
  return {
    status: 503,
    headers: { ...JSON_HEADERS, 'retry-after': retryAfter },
    body: {
      error: 'temporarily_unavailable',
      error_description: 'The access token could not be verified right now',
    },
  }
}

const FAILED: Essence = { status: 500, headers: JSON_HEADERS, body: { error: 'server_error' } }
const MISSING = unauthorized('An access token is required')
const MALFORMED = unauthorized('The Authorization header must contain exactly one bearer token')
const INVALID = unauthorized('The access token is invalid')

/** An error of JSON-RPC, whose words are free but the same everywhere. */
const rpcError = (status: number, code: number, id: unknown = null) => ({ status, code, id })

/** The whole answer, or a status for what is only the same everywhere. */
type Answer = Essence | ReturnType<typeof rpcError> | number

/** A request to the hosts for which `where` is true. By default, all. */
type Row = readonly [title: string, request: WireRequest, expected: Answer, where?: (host: Host) => boolean]

const READER = bearer('reader')
const list = (headers: Record<string, string | undefined> = {}): WireRequest =>
  modern('tools/list', {}, headers)
const echo = (headers: Record<string, string | undefined> = READER): WireRequest =>
  modern('tools/call', { name: 'echo', arguments: { text: 'hello' } }, headers)
const withScheme = (authorization: string): WireRequest => list({ authorization })
const PREFLIGHT = {
  origin: 'http://localhost:5173',
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization,mcp-param-region',
}
const EVIL = 'https://evil.example'
const own = (host: Host): boolean => !host.parsed

const ROWS: readonly Row[] = [
  ['an accepted call', echo(), 200],
  ['an accepted call of the legacy era', legacy(call('echo', { text: 'ä' }), READER), 200],
  ['an accepted notification', legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }, READER), 202],
  ['a request without a token', list(), MISSING],
  ['a request without a token in the legacy era', legacy(rpc('tools/list')), MISSING],
  ['an empty Authorization header', withScheme(''), MISSING],
  ['another authorization scheme', withScheme('Basic cmVhZGVy'), MISSING],
  ['a DPoP scheme', withScheme('DPoP reader'), MISSING],
  ['a scheme without a token', withScheme('Bearer'), MALFORMED],
  ['a list of tokens with a comma', withScheme('Bearer reader, Bearer reader'), MALFORMED],
  ['two tokens in one value', withScheme('Bearer reader reader'), MALFORMED],
  ['a token that is not a b64token', withScheme('Bearer rea(der'), MALFORMED],
  ...['Bearer reader', 'bearer reader', 'BEARER reader', 'bEaReR    reader'].map(
    (given): Row => [`the scheme written as in ${given}`, withScheme(given), 200],
  ),
  ['an unknown token', list(bearer('unknown')), INVALID],
  ['a token in another case', list(bearer('READER')), INVALID],
  ['a token whose verifier does not return valid: true', list(bearer('unsaid')), INVALID],
  ['a token whose verifier throws', list(bearer('broken')), INVALID],
  [
    'an expired token that also lacks the scope',
    list(bearer('expired')),
    unauthorized('The access token has expired'),
  ],
  [
    'a token for another resource',
    list(bearer('elsewhere')),
    unauthorized('The access token was issued for another resource'),
  ],
  ['a token without the scope of the endpoint', list(bearer('stranger')), forbidden('mcp:read')],
  [
    'a token without the scopes of the operation',
    modern('tools/call', { name: 'wipe', arguments: {} }, READER),
    forbidden('mcp:read mcp:write mcp:admin'),
  ],
  [
    'a token without the scopes of the endpoint and of the operation',
    modern('tools/call', { name: 'write', arguments: { text: 'a' } }, bearer('stranger')),
    forbidden('mcp:read mcp:write'),
  ],
  ['a token whose verifier is unavailable', list(bearer('down')), unavailable('7')],
  ['a token whose verifier does not settle', list(bearer('hung')), unavailable('5')],
  ['a request whose context fails', list({ ...READER, 'x-no-context': '1' }), FAILED],
  ['a request without a token whose context fails', list({ 'x-no-context': '1' }), MISSING],
  ['a request whose onVerified fails', list({ ...READER, 'x-no-hook': '1' }), FAILED],
  [
    'a preflight',
    { method: 'OPTIONS', headers: PREFLIGHT },
    {
      status: 204,
      headers: {
        ...CORS,
        'access-control-allow-methods': 'GET,POST,DELETE,OPTIONS',
        'access-control-allow-headers':
          'Authorization,Content-Type,Accept,MCP-Protocol-Version,Mcp-Session-Id,Mcp-Method,Mcp-Name,Last-Event-ID,DPoP,traceparent,tracestate,baggage,mcp-param-region',
        vary: 'Access-Control-Request-Headers',
      },
      body: '',
    },
  ],
  [
    'a preflight of a foreign origin',
    { method: 'OPTIONS', headers: { ...PREFLIGHT, origin: EVIL } },
    403,
    (host) => !host.cors,
  ],
  ['OPTIONS that is not a preflight', { method: 'OPTIONS' }, 204],
  ['OPTIONS with only Origin', { method: 'OPTIONS', headers: { origin: 'http://localhost' } }, 204],
  ['a foreign origin', echo({ ...READER, origin: EVIL }), 403],
  ['the origin null', echo({ ...READER, origin: 'null' }), 403],
  ['a permitted origin', echo({ ...READER, origin: 'http://localhost:5173' }), 200],
  ['GET without a token', { method: 'GET' }, MISSING],
  ['GET without the scope', { method: 'GET', headers: bearer('stranger') }, forbidden('mcp:read')],
  [
    'GET that does not accept an event stream',
    { method: 'GET', headers: { ...READER, accept: 'application/json' } },
    rpcError(406, -32000),
  ],
  ['HEAD without a token', { method: 'HEAD' }, { ...MISSING, body: '' }],
  ['HEAD', { method: 'HEAD', headers: READER }, 405],
  ...['DELETE', 'PUT', 'PATCH'].map(
    (method): Row => [method, { method, headers: READER }, rpcError(405, -32000)],
  ),
  ['DELETE without a token', { method: 'DELETE' }, MISSING],
  ['a body that is too large', legacy('x'.repeat(1_001), READER), rpcError(413, -32000), own],
  ['a body that is too large, without a token', legacy(call('echo', { text: 'x'.repeat(10_000) })), MISSING],
  [
    'another content type',
    legacy('hello', { ...READER, 'content-type': 'text/plain' }),
    rpcError(415, -32000),
  ],
  [
    'a form',
    legacy('a=b', { ...READER, 'content-type': 'application/x-www-form-urlencoded' }),
    rpcError(415, -32000),
  ],
  ['invalid JSON', legacy('{"jsonrpc":', READER), rpcError(400, -32700), own],
  ['JSON that is not JSON-RPC', legacy('{"a":1}', READER), rpcError(400, -32600)],
  ['a batch of a revision without batches', legacy([rpc('tools/list')], READER), rpcError(400, -32600)],
  [
    'a batch of the revision with batches',
    legacy([call('echo', { text: 'a' }, 1), rpc('ping', undefined, 2)], {
      ...READER,
      'mcp-protocol-version': '2025-03-26',
    }),
    200,
  ],
  ['an unknown method', modern('notes/unknown', {}, READER), rpcError(404, -32601, 1)],
]

function check([title, , expected]: Row, seen: Essence): void {
  if (typeof expected === 'number') expect(seen.status, title).to.equal(expected)
  else if ('code' in expected) {
    expect(seen.status, title).to.equal(expected.status)
    const { jsonrpc, id, error } = seen.body as { jsonrpc: string; id: unknown; error: { code: number } }
    expect({ jsonrpc, id, code: error.code }, title).to.deep.equal({
      jsonrpc: '2.0',
      id: expected.id,
      code: expected.code,
    })
  } else expect(seen, title).to.deep.equal(expected)
  expect(JSON.stringify(seen), title).not.to.match(/secret/)
}

/** The rows that say something of `host`. */
const rowsFor = (host: Host): readonly Row[] => ROWS.filter(([, , , where = () => true]) => where(host))

describe('mcp: every host gives the same answers', () => {
  const [reference, ...others] = HOSTS as [Host, ...Host[]]
  const answers = new Map<string, Essence>()

  describe(`${reference.name} answers`, () => {
    const served = serving(() => reference.serve(setup))
    for (const row of rowsFor(reference)) {
      it(`${reference.name} responds as expected to ${row[0]}`, async () => {
        const seen = essence(await served().send(row[1]))
        check(row, seen)
        answers.set(row[0], seen)
      })
    }
  })

  for (const host of others) {
    describe(host.name, () => {
      const served = serving(() => host.serve(setup))
      const rows = rowsFor(host)

      it(`${rows.length} requests get the same responses as from the reference host`, async () => {
        const seen: Record<string, Essence> = {}
        const expected: Record<string, Essence | undefined> = {}
        for (const [title, request] of rows) {
          const answer = essence(await served().send(request))
          if (isDeepStrictEqual(answer, answers.get(title))) continue
          seen[title] = answer
          expected[title] = answers.get(title)
        }
        expect(seen).to.deep.equal(expected)
        expect(Object.keys(expected)).to.deep.equal([])
      })

      if (!host.wire) return

      it('two Authorization headers are rejected', async () => {
        const { port } = new URL(served().origin)
        for (const second of [
          'Authorization: Bearer reader',
          'authorization: Basic YTpi',
          'Authorization:',
        ]) {
          const { status, header, body } = await rawRequest(Number(port), {
            method: 'POST',
            target: `${host.prefix}/mcp`,
            headers: [`Host: 127.0.0.1:${port}`, 'Authorization: Bearer reader', second, 'Content-Length: 0'],
          })
          expect(status).to.equal(401)
          expect(header('www-authenticate')).to.equal(MALFORMED.headers['www-authenticate'])
          expect(JSON.parse(body)).to.deep.equal(MALFORMED.body)
        }
      })

      it('GET opens an event stream', async () => {
        const abort = new AbortController()
        const { status, headers, body } = await fetch(`${served().origin}${host.prefix}/mcp`, {
          headers: { ...READER, accept: 'text/event-stream' },
          signal: abort.signal,
        })
        const { value } = (await body?.getReader().read()) ?? {}
        expect(Buffer.from(value ?? []).toString()).to.match(/^:/)
        expect(essence({ status, headers, text: '' } as WireAnswer)).to.deep.equal({
          status: 200,
          headers: {
            ...CORS,
            'content-type': 'text/event-stream',
            'cache-control': 'no-cache, no-transform',
            'x-accel-buffering': 'no',
          },
          body: '',
        })
        abort.abort()
      })
    })
  }
})

describe('mcp: where a route is mounted', () => {
  const ROOT = '/.well-known/oauth-protected-resource'
  const parameter = (answer: WireAnswer, name: string): string | undefined =>
    new RegExp(`${name}="([^"]*)"`).exec(answer.headers.get('www-authenticate') ?? '')?.[1]

  for (const framework of [...FRAMEWORKS, ...NESTED]) {
    for (const style of ['builder', 'function'] as const) {
      for (const path of ['/mcp', '/a/b/mcp']) {
        const { resource: _derived, ...derived } = oauth()

        it(`${framework.name} names the document of ${path}, and serves it (${style})`, async () => {
          const served = await serveWhole(framework, path, { router: notes, oauth: derived }, style)
          const at = `${framework.prefix}${path}`
          try {
            const refused = await served.send({ ...list(), path: at })
            expect(refused.status).to.equal(401)
            const url = parameter(refused, 'resource_metadata')
            expect(url).to.equal(`${served.origin}${ROOT}${at}`)
            const document = (await (await fetch(url ?? '')).json()) as object
            expect(document).to.include({ resource: `${served.origin}${at}` })
            const accepted = await served.send({ ...echo(), path: at })
            expect(accepted.message.result.content[0].text).to.equal('you said hello')
            const preflight = { method: 'OPTIONS', headers: PREFLIGHT, path: new URL(url ?? '').pathname }
            expect((await served.send(preflight)).status).to.equal(204)
          } finally {
            await served.close()
          }
        })
      }
    }
  }
})
