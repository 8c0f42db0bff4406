import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, KitToolError, mcpAuth, mcpHandler } from '../../src/index.ts'
import { ENTRY_POINTS, type EntryPoint, onNode, type Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { call, legacy, modern, type WireAnswer } from '../support/mcp/wire.ts'

/** A check, and a request that violates it. */
interface Check {
  /** The line of the list in docs/guides/policy.md, without formatting. */
  readonly line: string
  readonly name: string
  /**
   * Checks the response to a request that violates this check, and no earlier one.
   * @param operation the scope that the challenge names if the operation is known
   */
  readonly refuses: (answer: WireAnswer, operation: string) => void
}

const refusal =
  (status: number, scopeOf?: (operation: string) => string) =>
  ({ status: actual, headers, text }: WireAnswer, operation: string): void => {
    expect(actual, text).to.equal(status)
    const challenge = headers.get('www-authenticate')
    if (scopeOf === undefined) expect(challenge).to.equal(null)
    else expect(challenge).to.contain(`scope="${scopeOf(operation)}"`)
  }

const toolError =
  (text: string) =>
  ({ status, message }: WireAnswer): void => {
    expect(status).to.equal(200)
    expect(message.result.isError).to.equal(true)
    expect(message.result.content[0].text).to.contain(text)
  }

/** The checks in their order. A new one is one more row, and one more line in the list of the guide. */
const CHECKS: readonly Check[] = [
  { name: 'origin', line: 'Origin and Host: 403', refuses: refusal(403) },
  { name: 'token', line: 'the token: 401', refuses: refusal(401, () => 'mcp:read') },
  {
    name: 'endpoint scopes',
    line: 'the scopes of the endpoint: 403',
    refuses: refusal(403, (operation) => `mcp:read${operation}`),
  },
  {
    name: 'operation scopes',
    line: 'the scopes of the operation: 403',
    refuses: refusal(403, () => 'mcp:read mcp:write'),
  },
  { name: 'arguments', line: 'the arguments', refuses: toolError('amount') },
  { name: 'policy', line: 'the policy: authorize', refuses: toolError('Denied by the policy.') },
  { name: 'confirmation', line: 'the confirmation', refuses: toolError('this client cannot ask for one') },
  { name: 'limits', line: 'the limits', refuses: toolError('Call limit reached') },
  { name: 'middleware', line: 'middleware', refuses: toolError('Failed in the middleware.') },
  { name: 'handler', line: 'the handler', refuses: toolError('Failed in the handler.') },
]

/** The steps that have run, in order. */
let ran: string[] = []

/** `true` while a call is sent that violates the limits. A limiter does not receive the request. */
let limited = false

/** Notes that a step runs, and returns `true` if the request violates it. */
function violated(step: string, request: Request): boolean {
  ran.push(step)
  return request.headers.get('x-violate')?.includes(step) ?? false
}

const router = KitMcpRouter.create()
  .use(async (given, next) => {
    if (violated('middleware', given.request)) throw new KitToolError('Failed in the middleware.')
    return await next()
  })
  .tool(
    'pay',
    {
      description: 'x',
      scopes: ['mcp:write'],
      confirm: ({ request }) => (violated('confirmation', request) ? 'Pay?' : undefined),
      input: z.object({
        amount: z.unknown().refine((amount) => {
          ran.push('arguments')
          return amount === 1
        }),
      }),
    },
    (_args, { request }) => {
      if (violated('handler', request)) throw new KitToolError('Failed in the handler.')
      return 'paid'
    },
  )

const setup = {
  router,
  oauth: oauth({
    // A token is the list of its scopes, with dots, because tokens have no colons.
    verifyToken: ({ bearerToken = '' }) => {
      ran.push('token')
      if (bearerToken === 'invalid') return undefined
      return { valid: true, user: { id: 'ada' }, scopes: bearerToken.replaceAll('.', ':').split('+') }
    },
  }),
  allowedOrigins: ['https://app.example.com'],
  authorize: ({ request }: { request: Request }) =>
    violated('policy', request) ? { deny: 'Denied by the policy.' } : true,
  limits: {
    calls: { max: 1, perSeconds: 60, by: 'user' as const },
    store: () => ({
      consume: async () => {
        ran.push('limits')
        if (limited) throw { msBeforeNext: 12_000 }
      },
    }),
  },
}

/** `mcpAuth` with the same options as the adapter. */
const AUTH_WITH_ORIGINS: EntryPoint = {
  name: 'mcpAuth with allowedOrigins and mcpHandler on node:http',
  parsed: false,
  auth: true,
  wire: true,
  async serve(given) {
    const adapter = createMcpAdapter(given)
    const { allowedOrigins } = given
    return await onNode(mcpAuth(adapter, { allowedOrigins }), mcpHandler(adapter))
  },
}

/** Returns a call that violates these checks. */
function callViolating(isModern: boolean, names: readonly string[]) {
  const violates = (name: string) => names.includes(name)
  const scopes = [
    'other',
    ...(violates('endpoint scopes') ? [] : ['mcp.read']),
    ...(violates('operation scopes') ? [] : ['mcp.write']),
  ]
  const args = { amount: violates('arguments') ? 2 : 1 }
  const headers = {
    origin: violates('origin') ? 'https://evil.example.com' : 'https://app.example.com',
    authorization: `Bearer ${violates('token') ? 'invalid' : scopes.join('+')}`,
    'x-violate': names.join(),
  }
  return isModern
    ? modern('tools/call', { name: 'pay', arguments: args }, headers)
    : legacy(call('pay', args), headers)
}

const comparable = ({ status, headers, text }: WireAnswer) => ({
  status,
  text,
  headers: Object.fromEntries([...headers].filter(([name]) => !['date', 'x-violate'].includes(name))),
})

describe('mcp: the order of the checks', () => {
  it('the guide lists the checks in their order', () => {
    const file = fileURLToPath(new URL('../../../docs/guides/policy.md', import.meta.url))
    const [, section = ''] = readFileSync(file, 'utf8').split('## Order of the checks')
    const lines = [...section.matchAll(/^\d+\. (.*)$/gm)].map(([, line = '']) =>
      line.replace(/`|\[|\]\(.*?\)/g, ''),
    )
    expect(lines).to.deep.equal(CHECKS.map(({ line }) => line))
  })

  for (const entry of [...ENTRY_POINTS, AUTH_WITH_ORIGINS]) {
    // Without options, `mcpAuth` leaves `Origin` and `Host` to `mcpHandler`.
    const tokenFirst = entry.auth && entry !== AUTH_WITH_ORIGINS
    for (const isModern of [true, false]) {
      describe(`${entry.name}, ${isModern ? '2026-07-28' : '2025-11-25'}`, () => {
        // `mcpAuth` knows the operation from a parsed body, or from the headers of 2026-07-28.
        const operation = entry.auth && !entry.parsed && !isModern ? '' : ' mcp:write'
        let served: Served
        before(async () => {
          served = await entry.serve(setup)
        })
        after(() => served.close())

        async function send(...names: string[]): Promise<WireAnswer> {
          ran = []
          limited = names.includes('limits')
          return await served.send(callViolating(isModern, names))
        }

        it('a call that violates nothing passes every check once, in order', async () => {
          expect((await send()).message.result.content[0].text).to.equal('paid')
          expect(ran).to.deep.equal([
            'token',
            'arguments',
            'policy',
            'confirmation',
            'limits',
            'middleware',
            'handler',
          ])
        })

        const pairs = CHECKS.slice(0, -1).map((check, index) => ({
          check,
          later: CHECKS[index + 1] as Check,
          index,
        }))
        for (const { check, later, index } of tokenFirst ? pairs.slice(1) : pairs) {
          const { name, refuses } = check
          it(`a call that violates ${name} and ${later.name} gets the response of ${name}, with nothing of ${later.name}`, async () => {
            const alone = await send(name)
            const steps = ran
            refuses(alone, operation)
            const both = await send(name, later.name)
            expect(comparable(both)).to.deep.equal(comparable(alone))
            expect(ran).to.deep.equal(steps)
            const [last] = ran.slice(-1)
            expect(last === undefined ? -1 : CHECKS.findIndex((check) => check.name === last)).to.be.at.most(
              index,
            )
            // The later check does respond if the earlier one is not violated.
            later.refuses(await send(later.name), operation)
          })
        }

        if (tokenFirst) {
          it('a call that violates token and origin gets the response of token, with nothing of origin', async () => {
            const alone = await send('token')
            expect(comparable(await send('origin', 'token'))).to.deep.equal(comparable(alone))
            expect(ran).to.deep.equal(['token'])
          })
        }
      })
    }
  }
})
