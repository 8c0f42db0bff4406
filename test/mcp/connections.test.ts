import { expect } from 'chai'
import { z } from 'zod'
import type { NodeMiddleware, NodeRequest } from '../../src/base/http/node-middleware.ts'
import { KitMcpRouter, mcpAuth, protectedResourceRouter, VerifierUnavailableError } from '../../src/index.ts'
import { type Setup, serving } from '../support/mcp/entry-points.ts'
import { FRAMEWORKS, HOSTS } from '../support/mcp/hosts.ts'
import { oauth } from '../support/mcp/notes.ts'
import {
  bearer,
  call,
  definedOf,
  legacy,
  listen,
  modern,
  rpc,
  type WireRequest,
} from '../support/mcp/wire.ts'
import { RawConnection } from '../support/raw-http.ts'

const setup: Setup = {
  router: KitMcpRouter.create()
    .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, async ({ text }) => {
      // Answers are ready in another order than they were asked for.
      for (let turns = text.length % 5; turns > 0; turns--) await new Promise(setImmediate)
      return text
    })
    .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x'),
  maxBodyBytes: 100_000,
  oauth: oauth({
    verifyToken: async (input) => {
      await new Promise(setImmediate)
      if (input.bearerToken === 'down') throw new VerifierUnavailableError('down')
      return oauth().verifyToken(input)
    },
    onVerified: ({ request }) => {
      if (request.headers.has('x-no-hook')) throw new Error('no')
    },
  }),
}

/** A request as its bytes: with a length, or in chunks. */
function bytesOf(
  { method = 'POST', path = '/mcp', headers = {}, body }: WireRequest,
  prefix: string,
): string {
  const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}`)
  const text = Array.isArray(body)
    ? body.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
    : body
  if (Array.isArray(text)) lines.push('Transfer-Encoding: chunked')
  else if (text !== undefined) lines.push(`Content-Length: ${Buffer.byteLength(String(text))}`)
  const sent = Array.isArray(text) ? `${text.join('')}0\r\n\r\n` : (text ?? '')
  return [`${method} ${prefix}${path} HTTP/1.1`, 'Host: 127.0.0.1', ...lines, '', sent].join('\r\n')
}

const READER = bearer('reader')
const PADDING = 'x'.repeat(60_000)

/** Every kind of refusal, with bodies that were read and bodies that were not. */
const refusals: readonly (readonly [status: number, what: string, request: WireRequest])[] = [
  [401, 'no token', legacy(rpc('tools/list'))],
  [401, 'no token and a body of 60 kB', legacy(call('echo', { text: PADDING }))],
  [401, 'no token and a body in chunks', { ...legacy(''), body: [PADDING, 'y', PADDING] }],
  [
    401,
    'no token and a body that looks like a request',
    legacy(bytesOf(legacy(rpc('tools/list'), READER), '')),
  ],
  [401, 'an unknown token', legacy(rpc('tools/list'), bearer('unknown'))],
  [401, 'no token, for HEAD', { method: 'HEAD' }],
  [401, 'no token, for GET with a body', { method: 'GET', body: PADDING }],
  [403, 'a missing scope', modern('tools/call', { name: 'write' }, READER)],
  [
    403,
    'a missing scope of the endpoint, and a body in chunks',
    { ...legacy('', bearer('stranger')), body: [JSON.stringify(rpc('tools/list')), ' ', '\n'] },
  ],
  [
    403,
    'a foreign origin',
    legacy(call('echo', { text: PADDING }), { ...READER, origin: 'https://evil.example' }),
  ],
  [503, 'an outage', legacy(call('echo', { text: PADDING }), bearer('down'))],
  [500, 'a hook that throws', legacy(call('echo', { text: PADDING }), { ...READER, 'x-no-hook': '1' })],
  [400, 'bad JSON', legacy('{', READER)],
  [400, 'no body', { method: 'POST', headers: { ...READER, 'content-type': 'application/json' } }],
  [404, 'an unknown method', modern('unknown', {}, READER)],
  [405, 'DELETE with a body', { ...legacy(PADDING, READER), method: 'DELETE' }],
  [405, 'HEAD', { method: 'HEAD', headers: READER }],
  [406, 'an Accept that cannot be met', legacy(rpc('tools/list'), { ...READER, accept: 'text/html' })],
  [413, 'a body that is announced as too large', legacy(PADDING + PADDING, READER)],
  [413, 'a body that turns out to be too large', { ...legacy('', READER), body: [PADDING, PADDING] }],
  [415, 'another content type', legacy(PADDING, { ...READER, 'content-type': 'text/plain' })],
  [
    204,
    'a preflight',
    { method: 'OPTIONS', headers: { origin: 'http://localhost', 'access-control-request-method': 'POST' } },
  ],
  [202, 'a notification', legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }, READER)],
]

/** A call with a unique response. */
const good = (index: number): WireRequest =>
  modern('tools/call', { name: 'echo', arguments: { text: `number ${'.'.repeat(index)}` } }, READER)
const textOf = (body: string): string => JSON.parse(body).result.content[0].text

describe('mcp: a connection stays in step', () => {
  for (const host of HOSTS.filter(({ wire, parsed, name }) => wire && !parsed && !/express\./.test(name))) {
    describe(host.name, () => {
      const served = serving(() => host.serve(setup))
      const open = () => RawConnection.open(Number(new URL(served().origin).port))

      it('a connection serves the next request after every kind of refusal', async () => {
        const connection = await open()
        for (const [index, [status, what, request]] of refusals.entries()) {
          expect((await connection.send(bytesOf(request, host.prefix))).status, what).to.equal(status)
          const answer = await connection.send(bytesOf(good(index), host.prefix))
          expect(answer.status, `after ${what}`).to.equal(200)
          expect(textOf(answer.body), `after ${what}`).to.equal(`number ${'.'.repeat(index)}`)
        }
        expect(connection.rest).to.equal('')
        connection.close()
      })

      it(`pipelined requests each get their own response once, in order, from ${host.name}`, async () => {
        const connection = await open()
        const sent = refusals.flatMap(([status, what, request], index) => [
          { status, what, text: bytesOf(request, host.prefix), says: undefined },
          { status: 200, what: `after ${what}`, text: bytesOf(good(index), host.prefix), says: index },
        ])
        const answers = await connection.sendTogether(sent.map(({ text }) => text))
        for (const [index, { status, what, says }] of sent.entries()) {
          const answer = answers[index]
          expect(answer?.status, what).to.equal(status)
          if (says !== undefined) expect(textOf(answer?.body ?? '')).to.equal(`number ${'.'.repeat(says)}`)
        }
        expect(connection.rest).to.equal('')
        connection.close()
      })

      it('a connection serves the next request after an unread body of 8 MB', async () => {
        const connection = await open()
        const large = legacy('x'.repeat(8_000_000))
        expect((await connection.send(bytesOf(large, host.prefix))).status).to.equal(401)
        expect((await connection.send(bytesOf(good(1), host.prefix))).status).to.equal(200)
        connection.close()
      })
    })
  }

  for (const framework of FRAMEWORKS) {
    it(`a connection stays usable for ${framework.name}, with mcpAuth and a metadata document before a route that reads no body`, async () => {
      const options = oauth()
      const whoami: NodeMiddleware = (req: NodeRequest, res) =>
        void res.end((req.auth as { user: { id: string } }).user.id)
      const { port, close } = await listen(
        framework.mount([
          { path: '/', middleware: protectedResourceRouter(options) },
          { path: '/', middleware: mcpAuth(options) },
          { path: '/', middleware: whoami },
        ]),
      )
      const metadata = '/.well-known/oauth-protected-resource'
      const requests: [number, WireRequest, string?][] = [
        [401, legacy(PADDING)],
        [200, { method: 'GET', headers: READER }, 'u1'],
        [405, { ...legacy(PADDING), path: metadata }],
        [200, { method: 'HEAD', path: metadata }, ''],
        [200, { method: 'GET', headers: bearer('writer') }, 'u2'],
        [403, { ...legacy('', bearer('stranger')), body: [PADDING] }],
        [204, { method: 'OPTIONS', path: metadata }, ''],
        [200, { method: 'GET', headers: bearer('admin') }, 'u3'],
      ]
      const connection = await RawConnection.open(port)
      try {
        const answers = await connection.sendTogether(requests.map(([, request]) => bytesOf(request, '')))
        for (const [index, [status, , body]] of requests.entries()) {
          expect(answers[index]?.status).to.equal(status)
          if (body !== undefined) expect(answers[index]?.body).to.equal(body)
        }
        expect(connection.rest).to.equal('')
      } finally {
        connection.close()
        await close()
      }
    })
  }
})
