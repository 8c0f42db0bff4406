import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { authzen } from '../../src/policy/index.ts'
import { CALL_MODES, responseIn } from '../support/mcp/call-modes.ts'
import type { Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { type Cerbos, cerbosProgram, startCerbos } from '../support/policy/cerbos.ts'
import { skipIf } from '../support/skip.ts'

const POLICIES = {
  'tool.yaml': `
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: tool
  version: default
  rules:
    - actions: ['tools/call']
      effect: EFFECT_ALLOW
      roles: ['*']
      condition:
        match:
          expr: request.resource.id != "delete" || request.principal.id == "ada"
`,
  'resource.yaml': `
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: resource
  version: default
  rules:
    - actions: ['resources/read']
      effect: EFFECT_ALLOW
      roles: ['*']
      condition:
        match:
          expr: request.resource.id.startsWith("notes://" + request.principal.id + "/")
`,
  'payment.yaml': `
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: payment
  version: default
  rules:
    - actions: ['refund']
      effect: EFFECT_ALLOW
      roles: ['*']
      condition:
        match:
          expr: request.resource.attr.amount <= 100
`,
}

const router = KitMcpRouter.create()
  .tool('add', { description: 'x' }, () => 'added')
  .tool('delete', { description: 'x' }, () => 'deleted')
  .prompt('greet', {}, () => 'Hello')
  .resourceTemplate('note', { uriTemplate: 'notes://{owner}/{id}' }, () => 'text')
const payments = KitMcpRouter.create().tool(
  'refund',
  { description: 'x', input: z.object({ amount: z.number() }) },
  () => 'refunded',
)
const withUsers = oauth({
  verifyToken: ({ bearerToken }) => ({
    valid: true,
    user: { id: bearerToken },
    clientId: 'desktop',
    scopes: ['mcp:read'],
  }),
})

describe('policy: authzen with Cerbos', function () {
  this.timeout(120_000)
  const [mode = expect.fail()] = CALL_MODES
  let cerbos: Cerbos
  let served: Served
  before(async function () {
    const program = await cerbosProgram()
    skipIf(this, program === undefined ? 'Cerbos cannot be installed' : undefined)
    cerbos = await startCerbos(program as string, POLICIES)
    served = await mode.serve({ router, oauth: withUsers, authorize: authzen({ url: cerbos.url }) })
  })
  after(async () => {
    await served?.close()
    await cerbos?.stop()
  })

  const send = async (user: string, method: string, params?: Record<string, unknown>) =>
    responseIn(await mode.send(served, method, params, user))

  for (const [user, tool, isError] of [
    ['ada', 'add', undefined],
    ['ada', 'delete', undefined],
    ['bob', 'add', undefined],
    ['bob', 'delete', true],
  ] as const) {
    it(`the call of ${tool} by ${user} is ${isError ? 'denied' : 'permitted'} with the default mapping`, async () => {
      const { result } = await send(user, 'tools/call', { name: tool, arguments: {} })
      expect(result.isError).to.equal(isError)
    })
  }

  for (const [user, tools] of [
    ['ada', ['add', 'delete']],
    ['bob', ['add']],
  ] as const) {
    it(`the list of ${user} has the tools that ${user} may call`, async () => {
      const { result } = await send(user, 'tools/list')
      expect(result.tools.map(({ name }: { name: string }) => name)).to.deep.equal(tools)
    })
  }

  it('a prompt without a policy is denied, and is not listed', async () => {
    expect((await send('ada', 'prompts/get', { name: 'greet' })).error.code).to.equal(-32_003)
    expect((await send('ada', 'prompts/list')).result.prompts).to.deep.equal([])
  })

  for (const [user, permitted] of [
    ['ada', true],
    ['bob', false],
  ] as const) {
    it(`notes://ada/1 is ${permitted ? 'readable' : 'not readable'} for ${user}`, async () => {
      const { error } = await send(user, 'resources/read', { uri: 'notes://ada/1' })
      expect(error === undefined).to.equal(permitted)
    })
  }

  for (const [amount, isError] of [
    [100, undefined],
    [101, true],
  ] as const) {
    it(`a refund of ${amount} is ${isError ? 'denied' : 'permitted'} by the amount that a mapping sends`, async () => {
      const paying = await mode.serve({
        router: payments,
        oauth: withUsers,
        authorize: authzen({
          url: cerbos.url,
          mapping: ({ args, auth }) => ({
            subject: { type: 'user', id: String(auth?.user.id) },
            action: { name: 'refund' },
            resource: { type: 'payment', id: 'new', properties: { amount: args?.amount } },
          }),
        }),
      })
      const answer = await mode.send(paying, 'tools/call', { name: 'refund', arguments: { amount } }, 'ada')
      expect(responseIn(answer).result.isError).to.equal(isError)
      await paying.close()
    })
  }
})
