import { isDeepStrictEqual } from 'node:util'
import { expect } from 'chai'
import { mcpAuth } from '../../src/express/mcp-auth.ts'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import { type Setup, serving } from '../support/mcp/entry-points.ts'
import { FRAMEWORKS, HOSTS, type Host, NESTED, serveWhole } from '../support/mcp/hosts.ts'
import { METADATA, notes, oauth } from '../support/mcp/notes.ts'
import {
  bearer,
  call,
  legacy,
  listen,
  modern,
  rpc,
  type WireAnswer,
  type WireRequest,
} from '../support/mcp/wire.ts'
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

interface Row {
  readonly title: string
  readonly request: WireRequest
  /** The whole answer, or a status for what is only the same everywhere. */
  readonly expected: Essence | ReturnType<typeof rpcError> | number
  /** For which hosts; all by default. */
  readonly where?: (host: Host) => boolean
}

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
  { title: 'an accepted call', request: echo(), expected: 200 },
  {
    title: 'an accepted call of the legacy era',
    request: legacy(call('echo', { text: 'ä' }), READER),
    expected: 200,
  },
  {
    title: 'an accepted notification',
    request: legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }, READER),
    expected: 202,
  },
  { title: 'a request without a token', request: list(), expected: MISSING },
  {
    title: 'a request without a token in the legacy era',
    request: legacy(rpc('tools/list')),
    expected: MISSING,
  },
  { title: 'an empty Authorization header', request: withScheme(''), expected: MISSING },
  { title: 'another authorization scheme', request: withScheme('Basic cmVhZGVy'), expected: MISSING },
  { title: 'a DPoP scheme', request: withScheme('DPoP reader'), expected: MISSING },
  { title: 'a scheme without a token', request: withScheme('Bearer'), expected: MALFORMED },
  {
    title: 'a list of tokens with a comma',
    request: withScheme('Bearer reader, Bearer reader'),
    expected: MALFORMED,
  },
  { title: 'two tokens in one value', request: withScheme('Bearer reader reader'), expected: MALFORMED },
  { title: 'a token that is not a b64token', request: withScheme('Bearer rea(der'), expected: MALFORMED },
  ...['Bearer reader', 'bearer reader', 'BEARER reader', 'bEaReR    reader'].map(
    (given): Row => ({
      title: `the scheme written as in ${given}`,
      request: withScheme(given),
      expected: 200,
    }),
  ),
  { title: 'an unknown token', request: list(bearer('unknown')), expected: INVALID },
  { title: 'a token in another case', request: list(bearer('READER')), expected: INVALID },
  {
    title: 'a token whose verifier does not return valid: true',
    request: list(bearer('unsaid')),
    expected: INVALID,
  },
  { title: 'a token whose verifier throws', request: list(bearer('broken')), expected: INVALID },
  {
    title: 'an expired token that also lacks the scope',
    request: list(bearer('expired')),
    expected: unauthorized('The access token has expired'),
  },
  {
    title: 'a token for another resource',
    request: list(bearer('elsewhere')),
    expected: unauthorized('The access token was issued for another resource'),
  },
  {
    title: 'a token without the scope of the endpoint',
    request: list(bearer('stranger')),
    expected: forbidden('mcp:read'),
  },
  {
    title: 'a token without the scopes of the operation',
    request: modern('tools/call', { name: 'wipe', arguments: {} }, READER),
    expected: forbidden('mcp:read mcp:write mcp:admin'),
  },
  {
    title: 'a token without the scopes of the endpoint and of the operation',
    request: modern('tools/call', { name: 'write', arguments: { text: 'a' } }, bearer('stranger')),
    expected: forbidden('mcp:read mcp:write'),
  },
  {
    title: 'a token whose verifier is unavailable',
    request: list(bearer('down')),
    expected: unavailable('7'),
  },
  {
    title: 'a token whose verifier does not settle',
    request: list(bearer('hung')),
    expected: unavailable('5'),
  },
  {
    title: 'a request whose context fails',
    request: list({ ...READER, 'x-no-context': '1' }),
    expected: FAILED,
  },
  {
    title: 'a request without a token whose context fails',
    request: list({ 'x-no-context': '1' }),
    expected: MISSING,
  },
  {
    title: 'a request whose onVerified fails',
    request: list({ ...READER, 'x-no-hook': '1' }),
    expected: FAILED,
  },
  {
    title: 'a preflight',
    request: { method: 'OPTIONS', headers: PREFLIGHT },
    expected: {
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
  },
  {
    title: 'a preflight of a foreign origin',
    request: { method: 'OPTIONS', headers: { ...PREFLIGHT, origin: EVIL } },
    expected: 403,
    where: (host) => !host.cors,
  },
  { title: 'OPTIONS that is not a preflight', request: { method: 'OPTIONS' }, expected: 204 },
  {
    title: 'OPTIONS with only Origin',
    request: { method: 'OPTIONS', headers: { origin: 'http://localhost' } },
    expected: 204,
  },
  { title: 'a foreign origin', request: echo({ ...READER, origin: EVIL }), expected: 403 },
  { title: 'the origin null', request: echo({ ...READER, origin: 'null' }), expected: 403 },
  {
    title: 'a permitted origin',
    request: echo({ ...READER, origin: 'http://localhost:5173' }),
    expected: 200,
  },
  { title: 'GET without a token', request: { method: 'GET' }, expected: MISSING },
  {
    title: 'GET without the scope',
    request: { method: 'GET', headers: bearer('stranger') },
    expected: forbidden('mcp:read'),
  },
  {
    title: 'GET that does not accept an event stream',
    request: { method: 'GET', headers: { ...READER, accept: 'application/json' } },
    expected: rpcError(406, -32000),
  },
  { title: 'HEAD without a token', request: { method: 'HEAD' }, expected: { ...MISSING, body: '' } },
  { title: 'HEAD', request: { method: 'HEAD', headers: READER }, expected: 405 },
  ...['DELETE', 'PUT', 'PATCH'].map(
    (method): Row => ({
      title: method,
      request: { method, headers: READER },
      expected: rpcError(405, -32000),
    }),
  ),
  { title: 'DELETE without a token', request: { method: 'DELETE' }, expected: MISSING },
  {
    title: 'a body that is too large',
    request: legacy('x'.repeat(1_001), READER),
    expected: rpcError(413, -32000),
    where: own,
  },
  {
    title: 'a body that is too large, without a token',
    request: legacy(call('echo', { text: 'x'.repeat(10_000) })),
    expected: MISSING,
  },
  {
    title: 'another content type',
    request: legacy('hello', { ...READER, 'content-type': 'text/plain' }),
    expected: rpcError(415, -32000),
  },
  {
    title: 'a form',
    request: legacy('a=b', { ...READER, 'content-type': 'application/x-www-form-urlencoded' }),
    expected: rpcError(415, -32000),
  },
  {
    title: 'invalid JSON',
    request: legacy('{"jsonrpc":', READER),
    expected: rpcError(400, -32700),
    where: own,
  },
  { title: 'JSON that is not JSON-RPC', request: legacy('{"a":1}', READER), expected: rpcError(400, -32600) },
  {
    title: 'a batch of a revision without batches',
    request: legacy([rpc('tools/list')], READER),
    expected: rpcError(400, -32600),
  },
  {
    title: 'a batch of the revision with batches',
    request: legacy([call('echo', { text: 'a' }, 1), rpc('ping', undefined, 2)], {
      ...READER,
      'mcp-protocol-version': '2025-03-26',
    }),
    expected: 200,
  },
  {
    title: 'an unknown method',
    request: modern('notes/unknown', {}, READER),
    expected: rpcError(404, -32601, 1),
  },
]

function check({ expected, title }: Row, seen: Essence): void {
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
const rowsFor = (host: Host): readonly Row[] => ROWS.filter(({ where = () => true }) => where(host))

describe('mcp: every host gives the same answers', () => {
  const [reference, ...others] = HOSTS as [Host, ...Host[]]
  const answers = new Map<string, Essence>()

  describe(`${reference.name} answers`, () => {
    const served = serving(() => reference.serve(setup))
    for (const row of rowsFor(reference)) {
      it(`${reference.name} responds as expected to ${row.title}`, async () => {
        const seen = essence(await served().send(row.request))
        check(row, seen)
        answers.set(row.title, seen)
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
        for (const { title, request } of rows) {
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

  for (const framework of FRAMEWORKS.filter(({ routes }) => routes)) {
    it(`${framework.name} serves several resources, each with its own tokens, scopes and document`, async () => {
      const names = ['one', 'two', 'three'] as const
      const adapters = names.map((name) => {
        const resource = `https://mcp.example.com/${name}`
        return createMcpAdapter({
          router: notes,
          oauth: oauth({
            resource,
            scopes: [`${name}:use`],
            verifyToken: ({ bearerToken }) => ({
              valid: bearerToken !== undefined,
              resource: `https://mcp.example.com/${bearerToken}`,
              scopes: [`${bearerToken}:use`],
            }),
          }),
        })
      })
      const listener = framework.mount([
        ...adapters.map((adapter) => ({ path: '/', middleware: protectedResourceRouter(adapter) })),
        ...adapters.flatMap((adapter, index) => [
          // The second one has no mcpAuth of its own.
          ...(index === 1 ? [] : [{ path: `/${names[index]}`, middleware: mcpAuth(adapter) }]),
          { path: `/${names[index]}`, middleware: mcpHandler(adapter) },
        ]),
      ])
      const served = await listen(listener)
      try {
        for (const name of names) {
          for (const token of names) {
            const answer = await served.send({ ...echo(bearer(token)), path: `/${name}` })
            expect(answer.status, `${token} at ${name}`).to.equal(token === name ? 200 : 401)
            if (token === name) continue
            expect(parameter(answer, 'scope')).to.equal(`${name}:use`)
            expect(parameter(answer, 'error_description')).to.equal(
              'The access token was issued for another resource',
            )
            expect(parameter(answer, 'resource_metadata')).to.equal(`https://mcp.example.com${ROOT}/${name}`)
          }
          const document = await served.send({ method: 'GET', path: `${ROOT}/${name}` })
          expect(document.message).to.deep.include({
            resource: `https://mcp.example.com/${name}`,
            scopes_supported: [`${name}:use`, 'mcp:write', 'mcp:admin'],
          })
        }
      } finally {
        await served.close()
      }
    })
  }
})
