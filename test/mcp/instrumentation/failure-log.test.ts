import { mock } from 'node:test'
import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, KitToolError, mcpAuth, mcpCors, mcpServer } from '../../../src/index.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { FailureLog } from '../../../src/mcp/instrumentation/failure-log.ts'
import type { TimedCall } from '../../../src/mcp/wire/exchange.ts'
import type { McpRequest } from '../../../src/mcp/wire/mcp-request.ts'
import { VerifierUnavailableError } from '../../../src/oauth/errors.ts'
import type { OAuthOptions } from '../../../src/oauth/options.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../../src/telemetry/index.ts'
import { ENTRY_POINTS, onExpress, type Served, type Setup } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { bearer, call, legacy, listen, rpc, type WireRequest } from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

/** A token that is long enough to be recognized. */
const TOKEN = 'a-token-of-more-than-16-characters'

const router = KitMcpRouter.create()
  .context(({ request }) => {
    if (request.headers.has('x-no-context')) throw new RangeError('no context')
    return {}
  })
  .tool('crash', { description: 'x' }, (_args, { auth }) => {
    throw new TypeError(`lost\nconnection \u001b[31m with ${auth?.token}`)
  })
  .tool('known', { description: 'x' }, () => {
    throw new KitToolError('no such note')
  })
  .tool('fine', { description: 'x' }, () => 'x')
  .tool(
    'guarded',
    {
      description: 'x',
      authorize: () => {
        throw new Error('no database')
      },
    },
    () => 'x',
  )
  .prompt('broken', { description: 'x' }, () => {
    throw new Error('no template')
  })
  .resource('broken', { uri: 'note://broken' }, () => {
    throw new Error('no file')
  })
  .tool('typed', { description: 'x', input: z.object({ id: z.number() }) }, () => 'x')

const verified = (options: Partial<OAuthOptions> = {}) =>
  oauth({
    verifyToken: ({ bearerToken }) =>
      bearerToken === TOKEN ? { valid: true, user: { id: 'u1' }, scopes: ['mcp:read'] } : undefined,
    ...options,
  })

/** Returns the lines that are written to stderr from now on, until `stopRecording` is called. */
function recordedLines(): string[] {
  const lines: string[] = []
  recorder = mock.method(console, 'error', (line: unknown) => lines.push(String(line)))
  return lines
}

let recorder: { readonly mock: { restore(): void } } | undefined
const stopRecording = () => recorder?.mock.restore()

/** A request and the end of its line, after `mcp-gatekit: `. `undefined` if nothing is written. The status is 200 by default. */
type Case = readonly [
  title: string,
  request: WireRequest,
  line?: RegExp | undefined,
  setup?: Partial<Setup> | undefined,
  status?: number,
]

const REFERENCE = 'Reference: [0-9a-f-]{36}\\.'
const withToken = (message: unknown, headers: Record<string, string> = {}) =>
  legacy(message, { ...bearer(TOKEN), ...headers })

const CASES: readonly Case[] = [
  [
    'a tool that throws, with the reference and without the token',
    withToken(call('crash')),
    new RegExp(
      `^tools/call "crash" failed\\. ${REFERENCE} TypeError: lost connection \\[31m with \\[token\\] \\(at .*failure-log`,
    ),
  ],
  [
    'a prompt that throws',
    withToken(rpc('prompts/get', { name: 'broken' })),
    new RegExp(`^prompts/get "broken" failed\\. ${REFERENCE} Error: no template`),
  ],
  [
    'a resource that throws',
    withToken(rpc('resources/read', { uri: 'note://broken' })),
    new RegExp(`^resources/read "note://broken" failed\\. ${REFERENCE} Error: no file`),
  ],
  [
    'an authorize function that throws',
    withToken(call('guarded')),
    /^tools\/call "guarded" was denied, because authorize failed\. Error: no database/,
  ],
  [
    'a request that is answered with 500',
    withToken(call('fine'), { 'x-no-context': '1' }),
    /^A request was answered with 500\. RangeError: no context \(at /,
    undefined,
    500,
  ],
  [
    'a router function that throws',
    withToken(call('fine')),
    /^A request was answered with 500\. Error: no server/,
    {
      router: () => {
        throw new Error('no server')
      },
    },
    500,
  ],
  [
    'a verifier that throws, without the message',
    withToken(call('fine')),
    /^The verifier threw, so the token was refused as invalid\. Error: ERR_BAD$/,
    {
      oauth: verified({
        verifyToken: ({ bearerToken }) => {
          throw Object.assign(new TypeError(`bad ${bearerToken}`), { code: 'ERR_BAD' })
        },
      }),
    },
    401,
  ],
  [
    'a verifier that cannot verify, without the message',
    withToken(call('fine')),
    /^A token could not be verified, so the request was answered with 503\. Error: \w+$/,
    {
      oauth: verified({
        verifyToken: ({ bearerToken }) => {
          throw new VerifierUnavailableError(`bad ${bearerToken}`)
        },
      }),
    },
    503,
  ],
  [
    'a foreign Origin, without control characters',
    withToken(call('fine'), { origin: `https://evil.example/\u0085${'x'.repeat(500)}` }),
    /^A request was refused with 403, because its Origin "https:\/\/evil\.example\/[ Â]+x{1,100}" is not allowed\. If it is one of yours, add it to allowedOrigins\.$/,
    undefined,
    403,
  ],
  [
    'the preflight of a foreign Origin',
    {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
    },
    /^A request was refused with 403, because its Origin "https:\/\/evil\.example" is not allowed/,
    { allowedOrigins: ['https://app.example.com'] },
    403,
  ],
  [
    'a foreign Host',
    withToken(call('fine')),
    /^A request was refused with 403, because its Host "(?:localhost|127\.0\.0\.1):\d+" is not allowed\. If it is one of yours, add it to allowedHosts\.$/,
    { allowedHosts: ['mcp.example.com'] },
    403,
  ],
  ['nothing for a call that succeeds', withToken(call('fine'))],
  ['nothing for a KitToolError', withToken(call('known'))],
  ['nothing for arguments that are invalid', withToken(call('typed'))],
  ['nothing for a missing token', legacy(call('fine')), undefined, undefined, 401],
  [
    'nothing for a token that the verifier rejects',
    legacy(call('fine'), bearer('unknown')),
    undefined,
    undefined,
    401,
  ],
]

for (const entryPoint of ENTRY_POINTS) {
  describe(`stderr without telemetry: ${entryPoint.name}`, () => {
    let served: Served | undefined
    afterEach(async () => {
      stopRecording()
      await served?.close()
    })

    // In front of mcpAuth, mcpCors() answers preflights.
    const cases = CASES.filter(([, request]) => !entryPoint.auth || request.method !== 'OPTIONS')
    for (const [title, request, line, setup, status = 200] of cases)
      for (const telemetry of [undefined, false] as const)
        it(telemetry === false ? `telemetry: false writes nothing: ${title}` : title, async () => {
          served = await entryPoint.serve({ router, oauth: verified(), telemetry, ...setup })
          const lines = recordedLines()
          const answer = await served.send(request)
          expect(answer.status).to.equal(status)
          if (line === undefined || telemetry === false) expect(lines).to.deep.equal([])
          else {
            expect(lines, answer.text).to.have.length(1)
            expect(lines[0]?.slice('mcp-gatekit: '.length)).to.match(line)
            expect(lines[0]).to.not.include(TOKEN)
            const [reference] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(lines[0] as string) ?? []
            if (reference !== undefined) expect(answer.text).to.include(reference)
          }
        })

    it('a refused Origin and Host are events and counted with telemetry, and no lines', async () => {
      const otel = new Otel().register()
      try {
        const transport = InMemoryTransportAdapter.create()
        const telemetry = KitTelemetry.create().addTransport(transport).build()
        served = await entryPoint.serve({
          router,
          oauth: verified(),
          telemetry,
          allowedHosts: ['127.0.0.1', 'localhost'],
        })
        const lines = recordedLines()
        await served.send(withToken(call('fine'), { origin: 'https://evil.example' }))
        await served.send(withToken(call('fine'), { host: 'evil.example' }))
        await until(() => transport.getEvents().length === 2)
        await telemetry.flush()
        expect(transport.getEvents().map(({ name, attributes }) => [name, attributes?.reason])).to.deep.equal(
          [
            ['kit.mcp.auth.refused', 'origin'],
            ['kit.mcp.auth.refused', 'host'],
          ],
        )
        const refused = (await otel.metrics()).find(
          ({ descriptor }) => descriptor.name === 'kit.mcp.auth.refused',
        )
        expect(
          refused?.dataPoints.map(({ attributes }) => attributes['kit.mcp.auth.refused.reason']),
        ).to.have.members(['origin', 'host'])
        expect(lines).to.deep.equal([])
      } finally {
        Otel.unregister()
      }
    })
  })
}

describe('stderr without telemetry', () => {
  afterEach(stopRecording)

  const ORIGIN = { origin: 'https://evil.example' }
  const only = { allowedOrigins: ['https://app.example.com'] }

  it('lines are written although a provider of spans is registered', async () => {
    new Otel().register()
    const served = await onExpress(mcpServer(createMcpAdapter({ router, oauth: verified() })))
    try {
      const lines = recordedLines()
      await served.send(withToken(call('crash')))
      await served.send(withToken(call('fine'), { 'x-no-context': '1' }))
      expect(lines.map((line) => line.slice(0, 40))).to.have.length(2)
    } finally {
      Otel.unregister()
      await served.close()
    }
  })

  it('mcpAuth in front of another server writes a line for a verifier that throws and a foreign Origin', async () => {
    const failing = verified({
      verifyToken: () => {
        throw new TypeError('bad')
      },
    })
    const served = await onExpress(mcpAuth(failing, only), (_req, res) => res.end())
    try {
      const lines = recordedLines()
      await served.send(withToken(call('fine')))
      await served.send(withToken(call('fine'), ORIGIN))
      expect(lines).to.have.length(2)
      expect(lines[0]).to.match(/The verifier threw.* TypeError$/)
      expect(lines[1]).to.include('"https://evil.example" is not allowed')
    } finally {
      await served.close()
    }
  })

  for (const [title, options, expected] of [
    ['writes a line for a foreign Origin', only, 1],
    ['telemetry: false writes nothing', { ...only, telemetry: false }, 0],
  ] as const)
    it(`mcpCors: ${title}`, async () => {
      const served = await onExpress(mcpCors(options), (_req, res) => res.end())
      try {
        const lines = recordedLines()
        await served.send(withToken(call('fine'), ORIGIN))
        expect(lines).to.have.length(expected)
      } finally {
        await served.close()
      }
    })

  it('a server of the SDK that is made anew for each request fails with one line for each call', async () => {
    const made = () => {
      if (recorded.length === 0) return new McpServer({ name: 'x', version: '1' })
      throw new Error('no server')
    }
    const recorded = recordedLines()
    const served = await listen(mcpServer(createMcpAdapter({ router: made })))
    try {
      recorded.push('begin')
      for (let index = 0; index < 3; index++) await served.send(legacy(call('fine')))
      expect(recorded.filter((line) => line.includes('no server'))).to.have.length(3)
    } finally {
      await served.close()
    }
  })
})

describe('FailureLog', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }))
  afterEach(() => {
    mock.timers.reset()
    stopRecording()
  })

  it('writes at most 10 lines of one kind in a minute, then the number of the others, and begins again', () => {
    const lines = recordedLines()
    const log = new FailureLog()
    for (let index = 0; index < 47; index++) log.write('origin', () => `refused ${index}`)
    log.write('handler', () => 'failed')
    expect(lines).to.have.length(11)
    mock.timers.tick(59_999)
    expect(lines).to.have.length(11)
    mock.timers.tick(1)
    expect(lines.slice(11)).to.deep.equal([
      'mcp-gatekit: In the last minute, 37 more requests were refused for their Origin',
    ])
    log.write('origin', () => 'refused again')
    expect(lines.at(-1)).to.equal('mcp-gatekit: refused again')
    mock.timers.tick(60_000)
    expect(lines).to.have.length(13)
  })

  it('a minute ends with its time, too, if the runtime has canceled the timer', () => {
    const lines = recordedLines()
    const log = new FailureLog()
    for (let index = 0; index < 12; index++) log.write('handler', () => 'failed')
    const began = performance.now()
    const now = mock.method(performance, 'now', () => began + 60_000)
    try {
      log.write('handler', () => 'failed again')
    } finally {
      now.mock.restore()
    }
    expect(lines.slice(10)).to.deep.equal([
      'mcp-gatekit: In the last minute, 2 more calls have failed',
      'mcp-gatekit: failed again',
    ])
  })

  it('a line that cannot be made is left out, and a denied call without an error is not counted', () => {
    const lines = recordedLines()
    const log = new FailureLog()
    log.write('handler', () => {
      throw new Error('hostile')
    })
    for (let index = 0; index < 11; index++)
      log.record({} as McpRequest, 'policy.denied', {} as TimedCall, {})
    mock.timers.tick(60_000)
    expect(lines).to.deep.equal([])
  })
})
