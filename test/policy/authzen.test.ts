import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { z } from 'zod'
import type { Authorize } from '../../src/mcp/router/authorize.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import type { VerifiedToken } from '../../src/oauth/options.ts'
import { type AuthZenOptions, authzen } from '../../src/policy/index.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../src/telemetry/index.ts'
import { CALL_MODES, responseIn } from '../support/mcp/call-modes.ts'
import { configError } from '../support/mcp/config-error.ts'
import type { Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy, rpc, type WireAnswer } from '../support/mcp/wire.ts'
import { startDecisionPoint, type TestDecisionPoint } from '../support/policy/decision-point.ts'

const TOKEN = 'access-token-of-ada'
const USERS: Readonly<Record<string, VerifiedToken>> = {
  [TOKEN]: { valid: true, user: { id: 'ada' }, clientId: 'desktop', scopes: ['mcp:read'] },
  'by-claims': { valid: true, user: { id: 7, claims: { sub: 'ada@example.com' } }, scopes: ['mcp:read'] },
  'by-sub': { valid: true, user: { id: 7, sub: 'ada-sub' }, scopes: ['mcp:read'] },
  'by-number': { valid: true, user: { id: 7 }, scopes: ['mcp:read'] },
  'by-string': { valid: true, user: 'ada', scopes: ['mcp:read'] },
  'no-user': { valid: true, clientId: 'cron', scopes: ['mcp:read'] },
  'empty-user': { valid: true, user: { id: '' }, scopes: ['mcp:read'] },
  'object-user': { valid: true, user: { id: {} }, scopes: ['mcp:read'] },
}

const router = KitMcpRouter.create()
  .tool('add', { description: 'x', input: z.object({ a: z.number() }) }, ({ a }) => String(a + 1))
  .tool('delete', { description: 'x' }, () => 'deleted')
  .prompt('greet', { input: z.object({ name: z.string() }) }, ({ name }) => name)
  .resource('today', { uri: 'notes://today' }, () => 'Buy milk')
  .resourceTemplate('note', { uriTemplate: 'notes://{owner}/{id}' }, () => 'text')

const transport = InMemoryTransportAdapter.create()
const telemetry = KitTelemetry.create()
  .withSampling({ debugRate: 1, infoRate: 1 })
  .addTransport(transport)
  .build()
const denials = () => transport.getEvents().filter(({ name }) => name === 'kit.mcp.policy.denied')

const setup = (authorize: Authorize) => ({
  router,
  oauth: oauth({ verifyToken: ({ bearerToken = '' }) => USERS[bearerToken] }),
  telemetry,
  authorize,
})

const ADD = { name: 'add', arguments: { a: 1 } }
const DENIED = 'You are not allowed to use this tool.'
const textOf = (answer: WireAnswer) => responseIn(answer).result.content[0].text

describe('policy: authzen', () => {
  let point: TestDecisionPoint
  before(async () => {
    point = await startDecisionPoint()
  })
  after(() => point.close())
  beforeEach(() => {
    point.requests.length = 0
    point.decide = () => true
    point.respond = undefined
    transport.clear()
  })

  const authorize = (options: Partial<AuthZenOptions> = {}) => authzen({ url: point.url, ...options })

  for (const mode of CALL_MODES) {
    describe(mode.name, () => {
      let served: Served
      before(async () => {
        served = await mode.serve(setup(authorize()))
      })
      after(() => served.close())
      const send = (method: string, params?: Record<string, unknown>, token = TOKEN) =>
        mode.send(served, method, params, token)

      for (const [title, method, params, resource] of [
        ['a tool call', 'tools/call', ADD, { type: 'tool', id: 'add' }],
        [
          'a prompt get',
          'prompts/get',
          { name: 'greet', arguments: { name: 'Ada' } },
          { type: 'prompt', id: 'greet' },
        ],
        [
          'a resource read',
          'resources/read',
          { uri: 'NOTES://today' },
          { type: 'resource', id: 'notes://today' },
        ],
        [
          'a read through a template',
          'resources/read',
          { uri: 'notes://ada/1' },
          { type: 'resource', id: 'notes://ada/1' },
        ],
      ] as const) {
        it(`${title} is one evaluation with the default mapping of COAZ`, async () => {
          expect(responseIn(await send(method, params))).to.have.property('result')
          const [{ path, headers, text, evaluations } = expect.fail(), ...more] = point.requests
          expect(more).to.deep.equal([])
          expect(path).to.equal('/access/v1/evaluation')
          expect(headers['x-request-id']).to.match(/^[\da-f-]{36}$/)
          expect(headers).to.include({ accept: 'application/json' }).and.not.have.property('authorization')
          expect(text).not.to.contain(TOKEN)
          expect(evaluations).to.deep.equal([
            {
              subject: { type: 'identity', id: 'ada' },
              action: { name: method },
              resource,
              context: { agent: 'desktop' },
            },
          ])
        })

        it(`${title} that the decision point denies does not run`, async () => {
          point.decide = () => false
          const { result, error } = responseIn(await send(method, params))
          if (method === 'tools/call') expect(result.content[0].text).to.equal(DENIED)
          else expect(error.code).to.equal(-32_003)
          expect(denials()).to.have.length(1)
          expect(denials()[0]?.attributes).not.to.have.property('error.type')
        })
      }

      for (const [method, members, ids, type, action] of [
        ['tools/list', 'tools', ['add', 'delete'], 'tool', 'tools/call'],
        ['prompts/list', 'prompts', ['greet'], 'prompt', 'prompts/get'],
        ['resources/list', 'resources', ['notes://today'], 'resource', 'resources/read'],
        ['resources/templates/list', 'resourceTemplates', ['note'], 'resource_template', 'resources/read'],
      ] as const) {
        it(`${method} is one request with an evaluation for each entry`, async () => {
          point.decide = ({ resource }) => resource.id !== 'delete'
          const listed: { name: string }[] = responseIn(await send(method)).result[members]
          const [{ path, text, evaluations } = expect.fail(), ...more] = point.requests
          expect(more).to.deep.equal([])
          expect(path).to.equal('/access/v1/evaluations')
          expect(evaluations).to.deep.equal(
            ids.map((id) => ({
              subject: { type: 'identity', id: 'ada' },
              action: { name: action },
              resource: { type, id },
              context: { agent: 'desktop' },
            })),
          )
          // The subject is sent once.
          expect(text.split('"subject"')).to.have.length(2)
          expect(listed.map(({ name }) => name)).not.to.include('delete')
          expect(listed).to.have.length(ids.filter((id) => id !== 'delete').length)
        })
      }
    })
  }

  describe('with a server', () => {
    const [mode = expect.fail()] = CALL_MODES
    let served: Served
    let options: Partial<AuthZenOptions> = {}
    before(async () => {
      served = await mode.serve(setup((query) => authorizeNow(query)))
    })
    after(() => served.close())
    /** One function for all queries of a test, since lists are collected by it. */
    let authorizeNow: Authorize = () => false
    const given = (more: Partial<AuthZenOptions>) => {
      options = more
      authorizeNow = authorize(options)
    }
    beforeEach(() => given({}))
    const send = (method: string, params?: Record<string, unknown>, token = TOKEN) =>
      mode.send(served, method, params, token)

    for (const [token, id] of [
      ['by-claims', 'ada@example.com'],
      ['by-sub', 'ada-sub'],
      ['by-number', '7'],
      ['by-string', 'ada'],
    ] as const) {
      it(`the subject of a user ${token} is ${id}, and a token without a client has no agent`, async () => {
        await send('tools/call', ADD, token)
        expect(point.requests[0]?.evaluations[0]).to.deep.include({
          subject: { type: 'identity', id },
          context: {},
        })
      })
    }

    for (const token of ['no-user', 'empty-user', 'object-user']) {
      it(`a token with ${token.replace('-', ' ')} is denied without a request`, async () => {
        expect(textOf(await send('tools/call', ADD, token))).to.equal(DENIED)
        expect(responseIn(await send('tools/list', {}, token)).result.tools).to.deep.equal([])
        expect(point.requests).to.deep.equal([])
        expect(denials()[0]?.attributes?.['error.type']).to.equal('TypeError')
      })
    }

    it('a mapping decides what is asked, with the arguments and the user, also after a promise', async () => {
      given({
        mapping: async ({ name, args, auth }) => ({
          subject: { type: 'user', id: auth?.user.id, properties: { scopes: auth?.scopes } },
          action: { name: 'pay', properties: { by: name } },
          resource: { type: 'account', id: String(args?.a ?? 'any') },
          context: { amount: args?.a },
        }),
      })
      expect(textOf(await send('tools/call', ADD))).to.equal('2')
      expect(point.requests[0]?.evaluations).to.deep.equal([
        {
          subject: { type: 'user', id: 'ada', properties: { scopes: ['mcp:read'] } },
          action: { name: 'pay', properties: { by: 'add' } },
          resource: { type: 'account', id: '1' },
          context: { amount: 1 },
        },
      ])
      expect(responseIn(await send('tools/list')).result.tools).to.have.length(2)
    })

    it('the entries of a list are asked about in one request if a function in front awaits something', async () => {
      const ask = authzen({ url: point.url })
      authorizeNow = async (query) => {
        await null
        if (query.name === 'add') await Promise.resolve()
        return await ask(query)
      }
      expect(responseIn(await send('tools/list')).result.tools).to.have.length(2)
      expect(point.requests).to.have.length(1)
    })

    it('lists of two requests at the same time are asked about in two requests', async () => {
      point.decide = ({ subject }) => subject.id === 'ada'
      const answers = await Promise.all([send('tools/list'), send('tools/list', {}, 'by-sub')])
      expect(answers.map((answer) => responseIn(answer).result.tools.length)).to.deep.equal([2, 0])
      expect(point.requests).to.have.length(2)
    })

    it('a list in which the mapping fails for one entry shows the others', async () => {
      given({
        mapping: ({ name }) => {
          if (name === 'delete') throw new RangeError('no mapping')
          return { subject: { type: 'a', id: 'a' }, action: { name: 'a' }, resource: { type: 'a', id: name } }
        },
      })
      const { tools } = responseIn(await send('tools/list')).result
      expect(tools.map(({ name }: { name: string }) => name)).to.deep.equal(['add'])
      expect(point.requests[0]?.evaluations).to.have.length(1)
      expect(denials()[0]?.attributes?.['error.type']).to.equal('RangeError')
    })

    it('the path of the URL is kept, and a slash at its end is ignored', async () => {
      given({ url: `${point.url}/tenants/a/` })
      await send('tools/call', ADD)
      expect(point.requests[0]?.path).to.equal('/tenants/a/access/v1/evaluation')
    })

    it('headers are sent with each request, and a function is asked for them each time', async () => {
      given({ headers: { 'X-Api-Key': 'key' } })
      await send('tools/call', ADD)
      let count = 0
      given({ headers: async () => ({ authorization: `Bearer ${++count}` }) })
      await send('tools/call', ADD)
      await send('tools/list')
      expect(point.requests[0]?.headers['x-api-key']).to.equal('key')
      expect(point.requests.slice(1).map(({ headers }) => headers.authorization)).to.deep.equal([
        'Bearer 1',
        'Bearer 2',
      ])
    })

    it('timeoutMs may be a fraction', async () => {
      given({ timeoutMs: 1_999.5 })
      expect(textOf(await send('tools/call', ADD))).to.equal('2')
    })

    it('every request has another identifier', async () => {
      await send('tools/call', ADD)
      await send('tools/call', ADD)
      expect(new Set(point.requests.map(({ headers }) => headers['x-request-id'])).size).to.equal(2)
    })

    for (const [title, reason, text] of [
      ['a string', 'Ask your manager.', 'Ask your manager.'],
      ['the first entry of an object', { 403: 'Insufficient privileges' }, 'Insufficient privileges'],
      ['the English entry', { de: 'Nein', 'en-GB': 'No' }, 'No'],
      ['no strings', { 403: { text: 'x' } }, DENIED],
      ['an empty string', '  ', DENIED],
      ['a long string', 'x'.repeat(5_000), `${'x'.repeat(499)}…`],
      ['several lines', 'one\ntwo\u2028three\u202e', 'one two three'],
    ] as const) {
      it(`reason_user with ${title} becomes the text of the denial in one line of 500 characters`, async () => {
        point.decide = () => ({ decision: false, context: { reason_user: reason, reason_admin: 'policy 7' } })
        const answer = await send('tools/call', ADD)
        expect(textOf(answer)).to.equal(text)
        expect(answer.text).not.to.contain('policy 7')
      })
    }

    const [long, short] = ['h'.repeat(16), 'p'.repeat(15)]
    for (const [title, value, reason, isShown] of [
      ['a word of 8 characters', 'Bearer 12345678', 'see 12345678', false],
      ['a word of 7 characters', 'Bearer 1234567', 'see 1234567', true],
      ['the scheme', 'ApiKey-Scheme 12345678', 'see ApiKey-Scheme', true],
      ['the second word after the scheme', 'Scheme one-word-x two-word-x', 'see two-word-x', false],
      ['a part of 16 characters of a JWT', `Bearer ${long}.${short}.x`, `see ${long}`, false],
      ['a part of 15 characters of a JWT', `Bearer ${long}.${short}.x`, `see ${short}`, true],
      ['a value of 8 characters without a scheme', '12345678', 'see 12345678', false],
    ] as const)
      it(`a reason with ${title} of a header is ${isShown ? 'shown' : 'not shown'} to the client`, async () => {
        given({ headers: { authorization: value } })
        point.decide = () => ({ decision: false, context: { reason_user: reason } })
        expect(textOf(await send('tools/call', ADD))).to.equal(isShown ? reason : DENIED)
      })

    it('the access token is not sent if the mapping returns it', async () => {
      given({
        mapping: ({ auth, name }) => ({
          subject: { type: 'user', id: 'ada' },
          action: { name },
          resource: { type: 'tool', id: name },
          context: { header: `Bearer ${auth?.token}` },
        }),
      })
      expect(textOf(await send('tools/call', ADD))).to.equal(DENIED)
      expect(responseIn(await send('tools/list')).result.tools).to.deep.equal([])
      expect(point.requests).to.deep.equal([])
    })

    for (const [title, mapping] of [
      ['nothing', () => undefined],
      ['a string', () => 'add'],
      ['no subject', () => ({ action: { name: 'a' }, resource: { type: 'a', id: 'a' } })],
      [
        'a subject without an id',
        () => ({ subject: { type: 'a' }, action: { name: 'a' }, resource: { type: 'a', id: 'a' } }),
      ],
      [
        'a number as id',
        () => ({ subject: { type: 'a', id: 1 }, action: { name: 'a' }, resource: { type: 'a', id: 'a' } }),
      ],
      [
        'an empty id',
        () => ({ subject: { type: 'a', id: '' }, action: { name: 'a' }, resource: { type: 'a', id: 'a' } }),
      ],
      [
        'a string as action',
        () => ({ subject: { type: 'a', id: 'a' }, action: 'a', resource: { type: 'a', id: 'a' } }),
      ],
      [
        'a list as properties',
        () => ({
          subject: { type: 'a', id: 'a', properties: [] },
          action: { name: 'a' },
          resource: { type: 'a', id: 'a' },
        }),
      ],
      [
        'a string as context',
        () => ({
          subject: { type: 'a', id: 'a' },
          action: { name: 'a' },
          resource: { type: 'a', id: 'a' },
          context: 'x',
        }),
      ],
      [
        'a value that is not JSON',
        () => ({
          subject: { type: 'a', id: 'a' },
          action: { name: 'a' },
          resource: { type: 'a', id: 'a' },
          context: { a: 1n },
        }),
      ],
    ] as [string, () => any][]) {
      it(`a mapping that returns ${title} denies without a request`, async () => {
        given({ mapping })
        expect(textOf(await send('tools/call', ADD))).to.equal(DENIED)
        expect(point.requests).to.deep.equal([])
        expect(denials()[0]?.attributes?.['error.type']).to.equal('TypeError')
      })
    }

    it('calls in a batch are asked about one by one, and lists together', async () => {
      const adapter = await CALL_MODES[1]?.serve(setup(authorizeNow))
      const messages = [
        call('add', { a: 1 }, 1),
        call('delete', {}, 2),
        rpc('tools/list', undefined, 3),
        rpc('prompts/list', undefined, 4),
      ]
      const answer = await adapter?.send(
        legacy(messages, { ...bearer(TOKEN), 'mcp-protocol-version': '2025-03-26' }),
      )
      expect(answer?.messages).to.have.length(4)
      expect(point.requests.filter(({ path }) => path.endsWith('/evaluation'))).to.have.length(2)
      expect(point.requests.flatMap(({ evaluations }) => evaluations)).to.have.length(5)
    })
  })

  /** Asks about a call, whose resource has this name. */
  const ask = async (options: Partial<AuthZenOptions>, id = 'a', token = TOKEN) => {
    const mapping = () => ({
      subject: { type: 'a', id: 'a' },
      action: { name: 'a' },
      resource: { type: 'a', id },
    })
    const query = { purpose: 'call', kind: 'tool', name: 'add', auth: { token } } as never
    return await Promise.resolve(authorize({ mapping, ...options })(query)).catch((error: Error) => error)
  }

  it('a token of at least 16 characters is not sent, and shorter ones may be words', async () => {
    expect(await ask({}, 't'.repeat(16), 't'.repeat(16))).to.be.instanceOf(TypeError)
    expect(point.requests).to.deep.equal([])
    expect(await ask({}, 't'.repeat(15), 't'.repeat(15))).to.equal(true)
  })

  for (const [title, response, message] of [
    [
      'does not respond in time',
      () => undefined,
      /^The decision point is unavailable: no response within 50 ms \(request [\da-f-]{36}\)\.$/,
    ],
    [
      'closes the connection',
      (res) => res.destroy(),
      /^The decision point is unavailable: the request failed \([A-Z_]+\) \(request [\da-f-]{36}\)\.$/,
    ],
    [
      'responds with 201',
      (res) => res.writeHead(201, { 'content-type': 'application/json' }).end('{"decision":true}'),
      /responded with status 201 \(request/,
    ],
    [
      'responds with text',
      (res) => res.writeHead(200, { 'content-type': 'text/plain' }).end('{"decision":true}'),
      /is not application\/json \(request/,
    ],
    [
      'responds without a type',
      (res) => res.writeHead(200).end('{"decision":true}'),
      /is not application\/json \(request/,
    ],
    [
      'responds with half of the JSON',
      (res) => res.writeHead(200, { 'content-type': 'application/json' }).end('{"decision"'),
      /is not JSON \(request/,
    ],
    [
      'responds with a string as decision',
      (res) =>
        res.writeHead(200, { 'content-type': 'Application/JSON; charset=utf-8' }).end('{"decision":"true"}'),
      /must respond with a decision that is true or false/,
    ],
  ] as [string, (res: ServerResponse) => unknown, RegExp][])
    it(`the error of a decision point that ${title} says so`, async () => {
      point.respond = (_req, res) => response(res)
      const outcome = (await ask({ timeoutMs: title.includes('time') ? 50 : 5_000 })) as Error
      expect(outcome.name).to.equal('DecisionPointError')
      expect(outcome.message).to.match(message)
    })

  for (const [given, problem] of [
    ['x-api-key: 1', 'must be an object of strings'],
    [{ 'x-api-key': 1 }, 'must not contain a name or a value that HTTP does not allow'],
    [{ 'a b': '1' }, 'must not contain a name or a value that HTTP does not allow'],
    [{ Host: 'a' }, 'must not contain host, which is set for each request'],
  ] as const)
    it(`headers of ${JSON.stringify(given)} are rejected, as an option and from a function`, async () => {
      const options = { url: 'https://pdp.example.com', headers: given as never }
      const { option, message } = configError(() => authzen(options))
      expect(option).to.equal('headers')
      expect(message).to.contain(problem)
      const outcome = (await ask({ headers: () => given as never })) as Error
      expect(outcome).to.be.instanceOf(TypeError)
      expect(outcome.message).to.contain(`The function headers of authzen ${problem}`)
      expect(point.requests).to.deep.equal([])
    })

  for (const [title, options, message] of [
    [
      'http on a host that is not loopback',
      { url: 'http://pdp.example.com' },
      'must be an https URL, or an http URL of a loopback host',
    ],
    [
      'the URL of an endpoint',
      { url: 'https://pdp.example.com/access/v1/evaluation' },
      'Remove /access/v1 and what follows.',
    ],
    ['a query', { url: 'https://pdp.example.com?key=a' }, 'Send credentials as headers.'],
    ['a reserved header', { headers: { 'Content-Type': 'text/plain' } }, 'must not contain content-type'],
    [
      'an invalid header',
      { headers: { authorization: 'secret\nvalue' } },
      'must not contain a name or a value that HTTP does not allow',
    ],
  ] as const) {
    it(`${title} is rejected with the fix, and without the value of a header`, () => {
      const { message: text } = configError(() => authzen({ url: 'https://pdp.example.com', ...options }))
      expect(text).to.contain(message)
      expect(text).not.to.contain('secret')
    })
  }
})
