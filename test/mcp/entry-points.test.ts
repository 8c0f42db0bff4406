import { expect } from 'chai'
import { ENTRY_POINTS, type EntryPoint, serving } from '../support/mcp/entry-points.ts'
import { METADATA, notes, oauth } from '../support/mcp/notes.ts'
import {
  bearer,
  call,
  initialization,
  LEGACY,
  legacy,
  MODERN,
  modern,
  rpc,
  type WireAnswer,
  type WireRequest,
} from '../support/mcp/wire.ts'

const MAX = 4 * 1024 * 1024

/** A call whose body is exactly so many bytes long. */
function callOf(bytes: number): string {
  const empty = JSON.stringify(call('echo', { text: '' }))
  return JSON.stringify(call('echo', { text: 'x'.repeat(bytes - empty.length) }))
}

function challenge(error: string, scopes: string): RegExp {
  const fixed = `Bearer realm="mcp-server", error="${error}", scope="${scopes}", resource_metadata="${METADATA}", error_description="`
  return new RegExp(`^${fixed.replace(/[.?]/g, '\\$&')}[^"]+"$`)
}

function expectJsonRpcError(answer: WireAnswer, status: number, code: number, id: unknown): void {
  expect(answer.status).to.equal(status)
  expect(answer.headers.get('content-type')).to.match(/^application\/json/)
  expect(answer.message).to.have.property('jsonrpc', '2.0')
  expect(answer.message.error).to.include({ code })
  expect(answer.message.error.message).to.be.a('string').and.not.equal('')
  expect(answer.message).to.have.property('id', id)
}

function expectRefusal(answer: WireAnswer, status: 401 | 403, scopes: string): void {
  const error = status === 401 ? 'invalid_token' : 'insufficient_scope'
  expect(answer.status).to.equal(status)
  expect(answer.headers.get('content-type')).to.equal('application/json')
  expect(answer.headers.get('cache-control')).to.equal('no-store')
  expect(answer.headers.get('www-authenticate')).to.match(challenge(error, scopes))
  const { error_description: description, ...body } = JSON.parse(answer.text)
  expect(description).to.be.a('string').and.not.equal('')
  expect(body).to.deep.equal(status === 401 ? { error } : { error, scope: scopes })
}

const said = (text: string) => [{ type: 'text', text }]
const NO_VERSION = { 'mcp-protocol-version': undefined }

/** A request to the entry points for which `where` is true. By default, all. */
type Vector = readonly [
  title: string,
  request: WireRequest,
  check: (answer: WireAnswer, entryPoint: EntryPoint) => void,
  where?: (entryPoint: EntryPoint) => boolean,
]

const withToken = (token: string, request: WireRequest): WireRequest => ({
  ...request,
  headers: { ...request.headers, ...bearer(token) },
})

/** Steps that are alike in both eras: a request of either, and what is answered. */
const eras: readonly { name: string; call: (tool: string, args: Record<string, unknown>) => WireRequest }[] =
  [
    { name: 'in the legacy era', call: (tool, args) => legacy(call(tool, args)) },
    { name: 'in 2026-07-28', call: (tool, args) => modern('tools/call', { name: tool, arguments: args }) },
  ]

const VECTORS: readonly Vector[] = [
  ...eras.flatMap((era): Vector[] => [
    [
      `serves a call to a token with all scopes ${era.name}`,
      withToken('writer', era.call('write', { text: 'hello' })),
      (answer) => {
        expect(answer.status).to.equal(200)
        expect(answer.message.result.content).to.deep.equal(said('wrote hello'))
      },
    ],
  ]),
  [
    'responds to initialize with the name of the server',
    withToken('reader', legacy(initialization(), NO_VERSION)),
    (answer) => {
      expect(answer.status).to.equal(200)
      expect(answer.message.result).to.deep.include({
        protocolVersion: LEGACY,
        serverInfo: { name: 'notes', version: '1.2.3', title: 'Notes', websiteUrl: 'https://notes.example' },
        instructions: 'Be kind',
      })
    },
  ],
  [
    'responds with 400 to an empty body',
    withToken('reader', legacy('')),
    (answer) => expectJsonRpcError(answer, 400, -32700, null),
    (entryPoint) => !entryPoint.parsed,
  ],
  ...['text/plain', 'application/jsonx', undefined].map(
    (type): Vector => [
      `rejects the content type ${type}`,
      withToken('reader', legacy(call('echo', { text: 'hello' }), { 'content-type': type })),
      (answer) => expectJsonRpcError(answer, 415, -32000, null),
    ],
  ),
  [
    'accepts a content type with a charset',
    withToken(
      'reader',
      legacy(call('echo', { text: 'ä€😀' }), { 'content-type': 'Application/JSON; charset=utf-8' }),
    ),
    (answer) => expect(answer.message.result.content).to.deep.equal(said('you said ä€😀')),
  ],
  [
    'accepts a body of 4 MiB with Content-Length',
    withToken('reader', legacy(callOf(MAX))),
    (answer) => expect(answer.status).to.equal(200),
  ],
  [
    'rejects a body of one byte more than 4 MiB with Content-Length',
    withToken('reader', legacy(callOf(MAX + 1))),
    (answer) => expectJsonRpcError(answer, 413, -32000, null),
    (entryPoint) => !entryPoint.parsed,
  ],
  [
    'accepts a body of 4 MiB in chunks',
    withToken('reader', { ...legacy(''), body: [callOf(MAX).slice(0, -5), callOf(MAX).slice(-5)] }),
    (answer) => expect(answer.status).to.equal(200),
  ],
  [
    'rejects a body of one byte more than 4 MiB in chunks',
    withToken('reader', {
      ...legacy(''),
      body: [callOf(MAX + 1).slice(0, -5), callOf(MAX + 1).slice(-5)],
    }),
    (answer) => expectJsonRpcError(answer, 413, -32000, null),
    (entryPoint) => !entryPoint.parsed,
  ],
  ...['PUT', 'DELETE', 'PATCH'].map(
    (method): Vector => [
      `does not allow the method ${method}`,
      withToken('reader', { method }),
      (answer) => {
        expectJsonRpcError(answer, 405, -32000, null)
        expect(answer.headers.get('allow')).to.equal('GET, POST, OPTIONS')
      },
    ],
  ),
  [
    'does not allow GET in 2026-07-28',
    withToken('reader', {
      method: 'GET',
      headers: { accept: 'text/event-stream', 'mcp-protocol-version': MODERN },
    }),
    (answer) => expectJsonRpcError(answer, 405, -32000, null),
  ],
  [
    'rejects GET of an unknown revision',
    withToken('reader', {
      method: 'GET',
      headers: { accept: 'text/event-stream', 'mcp-protocol-version': '2025-01-01' },
    }),
    (answer) => expectJsonRpcError(answer, 400, -32000, null),
  ],
  [
    'responds to an unknown method with -32601 in the legacy era',
    withToken('reader', legacy(rpc('notes/unknown'))),
    (answer) => {
      expect(answer.status).to.equal(200)
      expect(answer.message).to.have.nested.property('error.code', -32601)
    },
  ],
  ...eras.map(
    (era): Vector => [
      `responds to an unknown tool with -32602 ${era.name}`,
      withToken('reader', era.call('nothing', {})),
      (answer) => {
        expect(answer.status).to.equal(200)
        expect(answer.message).to.have.nested.property('error.code', -32602)
        expect(answer.message.error.message).to.equal('Tool nothing not found')
      },
    ],
  ),
  [
    'rejects an Mcp-Name that differs from the body',
    withToken('admin', modern('tools/call', { name: 'wipe', arguments: {} }, { 'mcp-name': 'echo' })),
    (answer) => expectJsonRpcError(answer, 400, -32020, 1),
  ],
  [
    'checks the scopes of the tool in the body, for any Mcp-Name',
    withToken('reader', modern('tools/call', { name: 'wipe', arguments: {} }, { 'mcp-name': 'echo' })),
    (answer) => expectRefusal(answer, 403, 'mcp:read mcp:write mcp:admin'),
  ],
  [
    'rejects an Mcp-Method that differs from the body',
    withToken('reader', modern('tools/list', {}, { 'mcp-method': 'tools/call' })),
    (answer) => expectJsonRpcError(answer, 400, -32020, 1),
  ],
  [
    'rejects an unknown revision',
    withToken('reader', legacy(rpc('tools/list'), { 'mcp-protocol-version': '2025-01-01' })),
    (answer) => expect(answer.status).to.equal(400),
  ],
  ...[LEGACY, '2025-06-18', '2025-03-26', undefined].map(
    (revision): Vector => [
      `serves ${revision === undefined ? 'a request without a revision' : `revision ${revision}`}`,
      withToken('reader', legacy(rpc('tools/list'), { 'mcp-protocol-version': revision })),
      (answer) => {
        expect(answer.status).to.equal(200)
        const names = answer.message.result.tools.map((tool: { name: string }) => tool.name)
        expect(names).to.deep.equal(['echo', 'write', 'wipe'])
      },
    ],
  ),
  ...[LEGACY, undefined].map(
    (revision): Vector => [
      `accepts a notification with 202 (revision ${revision})`,
      withToken(
        'reader',
        legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }, { 'mcp-protocol-version': revision }),
      ),
      (answer) => {
        expect(answer.status).to.equal(202)
        expect(answer.text).to.equal('')
      },
    ],
  ),
  ...['*/*', 'application/json, text/event-stream', 'text/event-stream;q=0.5, */*;q=0.1', undefined].flatMap(
    (accept): Vector[] =>
      eras.map((era) => [
        `serves Accept: ${accept} ${era.name}`,
        {
          ...era.call('echo', { text: 'a' }),
          headers: { ...era.call('echo', { text: 'a' }).headers, accept, ...bearer('reader') },
        },
        (answer) => {
          expect(answer.status).to.equal(200)
          expect(answer.message.result.content).to.deep.equal(said('you said a'))
        },
      ]),
  ),
  ...['2025-03-26', undefined].map(
    (revision): Vector => [
      `serves a batch (revision ${revision})`,
      withToken(
        'reader',
        legacy([call('echo', { text: 'a' }, 1), call('echo', { text: 'b' }, 'two')], {
          'mcp-protocol-version': revision,
        }),
      ),
      (answer) => {
        expect(answer.status).to.equal(200)
        const texts = answer.messages.map(({ id, result }) => [id, result.content[0].text])
        expect(texts).to.have.deep.members([
          [1, 'you said a'],
          ['two', 'you said b'],
        ])
      },
    ],
  ),
  ...[LEGACY, '2025-06-18', MODERN].map(
    (revision): Vector => [
      `rejects a batch in revision ${revision}`,
      withToken('reader', legacy([rpc('tools/list')], { 'mcp-protocol-version': revision })),
      (answer) => expectJsonRpcError(answer, 400, -32600, null),
    ],
  ),
  [
    'serves a batch of 100 requests',
    withToken(
      'reader',
      legacy(
        Array.from({ length: 100 }, (_, id) => call('echo', { text: `${id}` }, id)),
        NO_VERSION,
      ),
    ),
    (answer) => {
      expect(answer.status).to.equal(200)
      expect(new Set(answer.messages.map(({ id }) => id)).size).to.equal(100)
    },
  ],
  ...[0, 101].map(
    (length): Vector => [
      `rejects a batch of ${length} requests`,
      withToken(
        'reader',
        legacy(
          Array.from({ length }, (_, id) => call('echo', { text: `${id}` }, id)),
          NO_VERSION,
        ),
      ),
      (answer) => expectJsonRpcError(answer, 400, -32600, null),
    ],
  ),
  [
    'responds with 403 to a whole batch if one request lacks a scope, and names all needed scopes',
    withToken(
      'reader',
      legacy([call('echo', { text: 'a' }, 1), call('write', { text: 'b' }, 2), call('wipe', {}, 3)], {
        'mcp-protocol-version': '2025-03-26',
      }),
    ),
    (answer) => expectRefusal(answer, 403, 'mcp:read mcp:write mcp:admin'),
  ],
  [
    'responds with 403 and no id to a foreign Origin, before it reads the token',
    legacy(call('echo', { text: 'a' }), { origin: 'https://evil.example' }),
    (answer) => {
      expect(answer.status).to.equal(403)
      expect(answer.message.error).to.include({ code: -32000 })
      expect(answer.message).not.to.have.property('id')
      expect(answer.headers.get('www-authenticate')).to.equal(null)
    },
    (entryPoint) => !entryPoint.auth,
  ],
  [
    'responds with 403 to a foreign Origin with a valid token',
    withToken('reader', legacy(call('echo', { text: 'a' }), { origin: 'https://evil.example' })),
    (answer) => {
      expect(answer.status).to.equal(403)
      expect(answer.message).to.deep.equal({
        jsonrpc: '2.0',
        error: { code: -32000, message: answer.message.error.message },
      })
    },
  ],
]

describe('mcp: responses of every entry point', () => {
  for (const entryPoint of ENTRY_POINTS) {
    describe(entryPoint.name, () => {
      const served = serving(() =>
        entryPoint.serve({
          router: notes,
          oauth: oauth(),
          serverInfo: {
            name: 'notes',
            version: '1.2.3',
            title: 'Notes',
            websiteUrl: 'https://notes.example',
          },
          instructions: 'Be kind',
        }),
      )
      for (const [title, request, check, where = () => true] of VECTORS) {
        if (!where(entryPoint)) continue
        it(`${entryPoint.name} ${title}`, async () => {
          const answer = await served().send(request)
          check(answer, entryPoint)
          expectCors(answer)
        })
      }
    })
  }
})

/** Every response may be read by a page, refusals included. */
function expectCors(answer: WireAnswer): void {
  if (answer.headers.get('content-security-policy') !== null) return // the page of Express's own error handler
  expect(answer.headers.get('access-control-allow-origin')).to.equal('*')
  const exposed = answer.headers.get('access-control-expose-headers')?.toLowerCase().split(/, */)
  // The `cors` package leaves it out of preflights.
  if (exposed !== undefined || answer.status !== 204) {
    expect(exposed).to.have.members([
      'www-authenticate',
      'mcp-session-id',
      'mcp-protocol-version',
      'retry-after',
    ])
  }
}

describe('mcp: a body that takes too long', () => {
  for (const entryPoint of ENTRY_POINTS.filter(({ parsed }) => !parsed)) {
    it(`${entryPoint.name} limits a body to maxBodyBytes`, async () => {
      const body = callOf(100)
      const served = await entryPoint.serve({ router: notes, oauth: oauth(), maxBodyBytes: 100 })
      try {
        expect((await served.send(withToken('reader', legacy(body)))).status).to.equal(200)
        expect((await served.send(withToken('reader', legacy(callOf(101))))).status).to.equal(413)
      } finally {
        await served.close()
      }
    })
  }
})

describe('mcp: without OAuth', () => {
  for (const entryPoint of ENTRY_POINTS.filter(({ auth }) => !auth)) {
    describe(entryPoint.name, () => {
      const served = serving(() =>
        entryPoint.serve({
          router: notes.context(({ request }) => {
            if (request.headers.has('x-no-context')) throw new Error('context secret')
            return {}
          }),
        }),
      )

      it('an adapter without OAuth serves requests without a token', async () => {
        const answer = await served().send(legacy(call('echo', { text: 'a' })))
        expect(answer.message.result.content).to.deep.equal(said('you said a'))
      })

      it('an adapter without OAuth rejects a tool that needs scopes', async () => {
        const answer = await served().send(legacy(call('wipe')))
        expectJsonRpcError(answer, 403, -32000, null)
      })

      it('an adapter without OAuth responds with 500 without the cause if .context() throws', async () => {
        const answer = await served().send(legacy(rpc('tools/list'), { 'x-no-context': '1' }))
        expect(answer.status).to.equal(500)
        expect(answer.text).to.equal('{"error":"server_error"}')
      })
    })
  }
})
