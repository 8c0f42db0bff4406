import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'chai'
import express from 'express'
import type { NodeMiddleware } from '../../../src/base/http/node-middleware.ts'
import { createMcpAdapter, mcpAuth, mcpHandler, type OAuthOptions } from '../../../src/index.ts'
import { VerifierUnavailableError } from '../../../src/oauth/errors.ts'
import { KitTelemetry, MockTelemetryAdapter } from '../../../src/telemetry/index.ts'
import { createProofKey, proofFor } from '../../support/dpop.ts'
import {
  ENTRY_POINTS,
  type EntryPoint,
  onExpress,
  onNode,
  type Served,
} from '../../support/mcp/entry-points.ts'
import { METADATA, notes, oauth, RESOURCE } from '../../support/mcp/notes.ts'
import {
  bearer,
  call,
  legacy,
  modern,
  rpc,
  type WireAnswer,
  type WireRequest,
} from '../../support/mcp/wire.ts'

const UNAUTHORIZED = `Bearer realm="mcp-server", error="invalid_token", scope="mcp:read", resource_metadata="${METADATA}", error_description="An access token is required"`
const TOO_FEW = `Bearer realm="mcp-server", error="insufficient_scope", scope="mcp:read mcp:write mcp:admin", resource_metadata="${METADATA}", error_description="The access token does not have the required scope"`
const CHATGPT = { 'user-agent': 'Mozilla/5.0 (compatible; ChatGPT-User/1.0; +https://openai.com/bot)' }

/** The gate of OAuth options, in front of a handler that is never reached. */
const ALONE: readonly EntryPoint[] = [
  {
    name: 'mcpAuth of OAuth options',
    parsed: false,
    auth: true,
    wire: true,
    serve: async (setup) => onNode(mcpAuth(setup.oauth as OAuthOptions), served),
  },
  {
    name: 'express.json and mcpAuth of OAuth options',
    parsed: true,
    auth: true,
    wire: true,
    serve: async (setup) =>
      onExpress(express.json() as unknown as NodeMiddleware, mcpAuth(setup.oauth as OAuthOptions), served),
  },
]

const served: NodeMiddleware = (_req, res) => void res.end('served')

async function withFace<T>(
  face: EntryPoint,
  changes: Partial<OAuthOptions>,
  use: (served: Served) => Promise<T>,
): Promise<T> {
  const started = await face.serve({ router: notes, oauth: oauth(changes) })
  try {
    return await use(started)
  } finally {
    await started.close()
  }
}

function expectResult(answer: WireAnswer, id: string | number, challenge: string): void {
  expect(answer.status).to.equal(200)
  expect(answer.headers.get('content-type')).to.equal('application/json')
  expect(answer.headers.get('cache-control')).to.equal('no-store')
  expect(answer.headers.get('www-authenticate')).to.equal(null)
  expect(answer.message).to.deep.equal({
    jsonrpc: '2.0',
    id,
    result: {
      content: [{ type: 'text', text: /error_description="([^"]*)"/.exec(challenge)?.[1] }],
      isError: true,
      _meta: { 'mcp/www_authenticate': [challenge] },
    },
  })
}

function expectUnauthorized({ status, headers, text }: WireAnswer): void {
  expect(status).to.equal(401)
  expect(headers.get('www-authenticate')).to.equal(UNAUTHORIZED)
  expect(JSON.parse(text)).to.deep.equal({
    error: 'invalid_token',
    error_description: 'An access token is required',
  })
}

const echo = (id: unknown, headers = {}): WireRequest => legacy(call('echo', { text: 'a' }, id), headers)

/** Requests without a token that are refused as usual. */
const USUAL: Readonly<Record<string, WireRequest>> = {
  'another method': legacy(rpc('tools/list')),
  initialize: legacy(rpc('initialize', {}), { 'mcp-protocol-version': undefined }),
  'a batch of one call': legacy([call('echo')], { 'mcp-protocol-version': '2025-03-26' }),
  'a batch of two calls': legacy([call('echo'), call('echo', {}, 2)], { 'mcp-protocol-version': undefined }),
  'a body that is not JSON': legacy('{"jsonrpc":"2.0","id":1,"method":"tools/call"'),
  'an empty body': legacy(''),
  'JSON that is not an object': legacy('"tools/call"'),
  null: legacy('null'),
  'a call without an id': legacy({ jsonrpc: '2.0', method: 'tools/call', params: { name: 'echo' } }),
  'an id that is null': echo(null),
  'an id that is an object': echo({ toString: 'x' }),
  'an id that is a list': echo(['1']),
  'an id that is a boolean': echo(true),
  'an id that is a fraction': echo(1.5),
  'an id beyond the safe integers': legacy('{"jsonrpc":"2.0","id":1e300,"method":"tools/call"}'),
  'an id of 1,025 characters': echo('x'.repeat(1_025)),
  'another version of JSON-RPC': legacy({ ...call('echo'), jsonrpc: '1.0' }),
  'another content type': legacy(call('echo'), { 'content-type': 'text/plain' }),
  'a GET': { method: 'GET', headers: { accept: 'text/event-stream' } },
  'a DELETE': { method: 'DELETE' },
  'a PUT of a call': { ...legacy(call('echo')), method: 'PUT' },
}

/** Body parsers in front refuse these themselves. */
const REFUSED_BY_PARSERS: ReadonlySet<string> = new Set([
  'a body that is not JSON',
  'null',
  'JSON that is not an object',
])

for (const face of [...ENTRY_POINTS, ...ALONE]) {
  describe(`challengeInResult: ${face.name}`, () => {
    it(`${face.name} responds to a call without a token with 200 and the challenge in the result`, () =>
      withFace(face, { challengeInResult: true }, async ({ send }) => {
        for (const id of [1, 0, -5, 'a', '', 'x'.repeat(1_024)])
          expectResult(await send(echo(id)), id, UNAUTHORIZED)
      }))

    it(`${face.name} responds to a call with an invalid token with 200 and the challenge in the result`, () =>
      withFace(face, { challengeInResult: true }, async ({ send }) => {
        const challenge = UNAUTHORIZED.replace('An access token is required', 'The access token is invalid')
        expectResult(await send(echo(7, bearer('unknown'))), 7, challenge)
      }))

    it(`${face.name} responds to a call of 2026-07-28 with a complete result`, () =>
      withFace(face, { challengeInResult: true }, async ({ send }) => {
        const { status, message } = await send(modern('tools/call', { name: 'echo', arguments: {} }))
        expect({ status, type: message.result.resultType }).to.deep.equal({ status: 200, type: 'complete' })
        expect(message.result._meta['mcp/www_authenticate']).to.deep.equal([UNAUTHORIZED])
      }))

    it(`${face.name} responds with 401 to everything else without a token`, () =>
      withFace(face, { challengeInResult: true }, async ({ send }) => {
        for (const [what, request] of Object.entries(USUAL)) {
          if (face.parsed && REFUSED_BY_PARSERS.has(what)) continue
          const answer = await send(request)
          expect(answer.status, what).to.equal(401)
          expectUnauthorized(answer)
        }
      }))

    it(`${face.name} responds with 401 to a call unless challengeInResult is set`, () =>
      withFace(face, {}, async ({ send }) => expectUnauthorized(await send(echo(1, CHATGPT)))))

    it(`${face.name} with challengeInResult 'auto' recognizes the clients of OpenAI by their User-Agent`, () =>
      withFace(face, { challengeInResult: 'auto' }, async ({ send }) => {
        for (const agent of ['openai-mcp/1.0.0', 'OpenAI', 'x CHATGPT x', CHATGPT['user-agent']])
          expectResult(await send(echo(1, { 'user-agent': agent })), 1, UNAUTHORIZED)
        for (const agent of ['Claude-User', 'open ai', '', undefined])
          expectUnauthorized(await send(echo(1, { 'user-agent': agent })))
      }))

    it(`${face.name} counts calls that were refused in a result against rateLimit`, () =>
      withFace(
        face,
        {
          challengeInResult: true,
          rateLimit: { points: 1, durationSeconds: 60 },
          clientAddress: () => '192.0.2.1',
        },
        async ({ send }) => {
          expectResult(await send(echo(1)), 1, UNAUTHORIZED)
          const { status, headers } = await send(echo(2))
          expect({ status, retry: headers.has('retry-after') }).to.deep.equal({ status: 429, retry: true })
        },
      ))

    it(`${face.name} responds with 503 to a call if the verifier is unavailable`, () =>
      withFace(
        face,
        {
          challengeInResult: true,
          verifyToken: () => {
            throw new VerifierUnavailableError('down')
          },
        },
        async ({ send }) => expect((await send(echo(1, bearer('reader')))).status).to.equal(503),
      ))
  })
}

for (const face of ENTRY_POINTS) {
  it(`${face.name} responds to a call without the scopes with 200 and the challenge in the result`, () =>
    withFace(face, { challengeInResult: true }, async ({ send }) => {
      expectResult(await send(legacy(call('wipe', {}, 9), bearer('reader'))), 9, TOO_FEW)
      const answer = await send(legacy(call('echo', { text: 'a' }, 9), bearer('stranger')))
      expectResult(answer, 9, TOO_FEW.replace(' mcp:write mcp:admin', ''))
    }))

  it(`${face.name} responds to a batch without the scopes with 403`, () =>
    withFace(face, { challengeInResult: true }, async ({ send }) => {
      const batch = legacy([call('wipe')], { ...bearer('reader'), 'mcp-protocol-version': '2025-03-26' })
      const { status, headers } = await send(batch)
      expect(status).to.equal(403)
      expect(headers.get('www-authenticate')).to.equal(TOO_FEW)
    }))

  it(`${face.name} serves a permitted call with challengeInResult as without it`, () =>
    withFace(face, { challengeInResult: true }, async ({ send }) => {
      const { message } = await send(legacy(call('echo', { text: 'a' }), bearer('reader')))
      expect(message.result).to.deep.equal({ content: [{ type: 'text', text: 'you said a' }] })
    }))

  it(`${face.name} emits the same event for a refusal in a result as for a 401 or 403`, async () => {
    for (const challengeInResult of [false, true]) {
      const transport = MockTelemetryAdapter.create()
      const telemetry = KitTelemetry.create()
        .withService('notes')
        .withSampling({ infoRate: 1 })
        .addTransport(transport)
        .build()
      const started = await face.serve({ router: notes, oauth: oauth({ challengeInResult }), telemetry })
      try {
        await started.send(echo(1))
        await started.send(echo(1, bearer('unknown')))
        await started.send(legacy(call('wipe'), bearer('reader')))
        await telemetry.flush()
        const events = transport.getEvents().map(({ name, attributes }) => [name, attributes?.reason])
        expect(events).to.deep.equal([
          ['kit.mcp.auth.refused', 'missing'],
          ['kit.mcp.auth.refused', 'invalid'],
          ['kit.mcp.auth.refused', 'insufficient_scope'],
        ])
      } finally {
        await started.close()
        await telemetry.shutdown()
      }
    }
  })
}

describe('challengeInResult: clients and options', () => {
  it('the client of the official SDK reads the challenge of a refused call from its result', async () => {
    const started = await onExpress(
      mcpHandler(createMcpAdapter({ router: notes, oauth: oauth({ challengeInResult: true }) })),
    )
    try {
      const client = new Client({ name: 'test', version: '1' })
      const requestInit = { headers: bearer('reader') }
      await client.connect(
        new StreamableHTTPClientTransport(new URL(`${started.origin}/mcp`), { requestInit }),
      )
      const { isError, _meta } = await client.callTool({ name: 'wipe', arguments: {} })
      expect({ isError, challenges: _meta?.['mcp/www_authenticate'] }).to.deep.equal({
        isError: true,
        challenges: [TOO_FEW],
      })
      await client.close()
    } finally {
      await started.close()
    }
  })

  it('a result has the error code of the challenge also with challengeWithoutToken bare', () =>
    withFace(
      ENTRY_POINTS[0] as EntryPoint,
      { challengeInResult: true, challengeWithoutToken: 'bare' },
      async ({ send }) => {
        expectResult(await send(echo(1)), 1, UNAUTHORIZED)
        const { headers } = await send(legacy(rpc('tools/list')))
        expect(headers.get('www-authenticate')).not.to.include('error')
      },
    ))

  it('a result of a gate with DPoP has both challenges, and the nonce in a header that web pages may read', async () => {
    const key = await createProofKey()
    const dpop = { mode: 'required', nonce: true } as const
    await withFace(ENTRY_POINTS[0] as EntryPoint, { challengeInResult: true, dpop }, async ({ send }) => {
      const proof = await proofFor(key, 'POST', RESOURCE, { token: 'reader' })
      const { status, headers, message } = await send(echo(1, { authorization: 'DPoP reader', dpop: proof }))
      expect(status).to.equal(200)
      expect(message.result._meta['mcp/www_authenticate'][0])
        .to.match(/^Bearer .*, DPoP error="use_dpop_nonce", /)
        .and.match(/, algs="[^"]+"$/)
      expect(headers.get('dpop-nonce')).to.be.a('string').that.is.not.empty
      expect(headers.get('access-control-expose-headers')).to.include('DPoP-Nonce')
    })
  })

  it('a refused call of another web page gets a result that the page may read', () =>
    withFace(ENTRY_POINTS[0] as EntryPoint, { challengeInResult: true }, async ({ send }) => {
      const { status, headers } = await send(echo(1, { origin: 'http://localhost:5173' }))
      expect(status).to.equal(200)
      expect(headers.get('access-control-allow-origin')).to.equal('*')
    }))
})
