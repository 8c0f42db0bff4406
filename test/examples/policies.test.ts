import { expect } from 'chai'
import express from 'express'
import { askDecisionPoint } from '../../examples/policy-authzen.ts'
import { createPaymentsServer } from '../../examples/policy-cedar.ts'
import { createDocumentsServer } from '../../examples/policy-ownership.ts'
import { createInvoicesServer } from '../../examples/policy-roles.ts'
import { createMcpAdapter, KitMcpRouter, mcpServer } from '../../src/index.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, type Listening, listen, modern } from '../support/mcp/wire.ts'

/** The claims of each user. The name of the user is the token. */
const CLAIMS: Readonly<Record<string, Record<string, unknown>>> = {
  viewer: { roles: ['viewer'] },
  accountant: { roles: 'accountant' },
  intern: { roles: ['constructor', 'intern'] },
  guest: {},
  ada: { team: 'support', email: 'ada@example.com' },
  bob: { team: 'finance', email: 'bob@example.com' },
  eve: { team: 'sales', email: 'eve@example.com' },
}

const withClaims = oauth({
  resource: 'http://127.0.0.1/mcp',
  verifyToken: ({ bearerToken = '' }) => ({
    valid: true,
    user: { id: bearerToken, claims: CLAIMS[bearerToken] },
    scopes: ['mcp:read'],
  }),
})

const DENIED = 'You are not allowed to use this tool.'
const NO_DOCUMENT = 'You have no such document.'

const document = (name: string) => ({ document: name })
const refund = (amount: number, payment = 'p1') => ({ payment, amount })

interface Example {
  readonly name: string
  readonly serve: () => Promise<Listening>
  /** The tools that users see, by user. */
  readonly lists: Readonly<Record<string, readonly string[]>>
  /** The text of the result of each call. */
  readonly calls: readonly (readonly [
    user: string,
    tool: string,
    args: Record<string, unknown>,
    text: string,
  ])[]
}

const EXAMPLES: readonly Example[] = [
  {
    name: 'roles',
    serve: () => listen(createInvoicesServer(withClaims)),
    lists: {
      viewer: ['list_invoices'],
      accountant: ['list_invoices', 'pay_invoice'],
      intern: [],
      guest: [],
    },
    calls: [
      ['viewer', 'list_invoices', {}, '["2026-17","2026-18"]'],
      ['viewer', 'pay_invoice', { invoice: '2026-17' }, DENIED],
      ['accountant', 'pay_invoice', { invoice: '2026-17' }, 'Paid 2026-17'],
      ['intern', 'list_invoices', {}, DENIED],
      ['guest', 'list_invoices', {}, DENIED],
    ],
  },
  {
    name: 'ownership',
    serve: () => {
      const plan = { owner: 'ada', readers: ['bob'], text: 'The plan' }
      return listen(createDocumentsServer(withClaims, new Map([['plan', plan]])))
    },
    lists: { eve: ['read_document', 'delete_document'] },
    calls: [
      ['ada', 'read_document', document('plan'), 'The plan'],
      ['bob', 'read_document', document('plan'), 'The plan'],
      ['eve', 'read_document', document('plan'), NO_DOCUMENT],
      ['ada', 'read_document', document('none'), NO_DOCUMENT],
      ['bob', 'delete_document', document('plan'), NO_DOCUMENT],
      ['ada', 'delete_document', document('plan'), 'Deleted plan'],
    ],
  },
  {
    name: 'Cedar',
    serve: () => listen(createPaymentsServer(withClaims)),
    lists: { eve: ['find_payment', 'refund'] },
    calls: [
      ['eve', 'find_payment', { payment: 'p1' }, '800 EUR'],
      ['eve', 'refund', refund(1), DENIED],
      ['ada', 'refund', refund(100), 'Refunded 100 of p1'],
      ['ada', 'refund', refund(101), DENIED],
      ['ada', 'refund', refund(1, 'p2'), DENIED],
      ['bob', 'refund', refund(800), 'Refunded 800 of p1'],
      ['bob', 'refund', refund(90, 'p2'), 'Refunded 90 of p2'],
      ['guest', 'refund', refund(1), DENIED],
    ],
  },
  {
    name: 'AuthZEN',
    serve: async () => {
      const { origin } = await listen(async (req, res) => {
        const chunks: Buffer[] = []
        for await (const chunk of req) chunks.push(chunk as Buffer)
        const { subject, action, resource } = JSON.parse(String(Buffer.concat(chunks)))
        const isPermitted =
          action.name === 'tools/call' && resource.type === 'tool' && resource.id === 'greet'
        const decision = isPermitted && subject.id === 'ada' ? true : 'yes'
        res.writeHead(subject.id === 'eve' ? 500 : 200).end(JSON.stringify({ decision }))
      })
      const router = KitMcpRouter.create().tool('greet', { description: 'Greets' }, () => 'Hello')
      const authorize = askDecisionPoint({ url: origin })
      return listen(express().use(mcpServer(createMcpAdapter({ router, oauth: withClaims, authorize }))))
    },
    lists: { eve: ['greet'] },
    calls: [
      ['ada', 'greet', {}, 'Hello'],
      ['bob', 'greet', {}, DENIED],
      ['eve', 'greet', {}, DENIED],
    ],
  },
]

for (const { name, serve, lists, calls } of EXAMPLES) {
  describe(`the example of a policy: ${name}`, () => {
    let served: Listening
    before(async () => {
      served = await serve()
    })
    after(() => served.close())

    for (const [user, tools] of Object.entries(lists)) {
      it(`${name}: ${user} sees ${tools.join(' and ') || 'no tools'}`, async () => {
        const { message } = await served.send(modern('tools/list', {}, bearer(user)))
        expect(message.result.tools.map((tool: { name: string }) => tool.name)).to.deep.equal(tools)
      })
    }

    for (const [user, tool, args, text] of calls) {
      it(`${name}: ${tool} ${JSON.stringify(args)} by ${user} results in "${text}"`, async () => {
        const { message } = await served.send(
          modern('tools/call', { name: tool, arguments: args }, bearer(user)),
        )
        expect(message.result.content[0].text).to.equal(text)
      })
    }
  })
}
