import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { z } from 'zod'
import { createMcpAdapter, mcpHandler } from '../../../src/index.ts'
import { KitMcpRouter, tableOf } from '../../../src/mcp/router/router.ts'
import { CLIENT_KINDS, type Connected } from '../../support/mcp/clients.ts'
import { configError } from '../../support/mcp/config-error.ts'
import { onNode, serving, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, call, legacy } from '../../support/mcp/wire.ts'

const billing = KitMcpRouter.create<{ tenant: string }>()
  .tool(
    'refund',
    { description: 'Refunds', input: z.object({ amount: z.number() }), scopes: ['mcp:write'] },
    ({ amount }, { context }) => `${context.tenant} gets ${amount}`,
  )
  .prompt('remind', {}, (_args, { context }) => `Remind ${context.tenant}`)
  .resource('ledger', { uri: 'billing://ledger' }, (_uri, { context }) => `ledger of ${context.tenant}`)
  .resourceTemplate(
    'invoice',
    { uriTemplate: 'billing://invoice/{id}' },
    (_uri, { id }, { context }) => `${context.tenant} ${id}`,
  )

const router = KitMcpRouter.create()
  .context(() => ({ tenant: 'acme', region: 'eu' }))
  .tool('refund', { description: 'Another one' }, () => 'mine')
  .merge('billing', billing)

const namesIn = (merged: KitMcpRouter<any>) => {
  const { tools, prompts, resources, templates } = tableOf(merged)
  return {
    tools: [...tools.keys()],
    prompts: [...prompts.keys()],
    resources: [...resources.values()].map(({ definition }) => `${definition.name} ${definition.uri}`),
    templates: templates.map(({ definition }) => `${definition.name} ${definition.uriTemplate}`),
  }
}

describe('mcp: merged routers', () => {
  it('merged operations have the prefix before every name, and their URIs do not change', () => {
    expect(namesIn(router)).to.deep.equal({
      tools: ['refund', 'billing_refund'],
      prompts: ['billing_remind'],
      resources: ['billing_ledger billing://ledger'],
      templates: ['billing_invoice billing://invoice/{id}'],
    })
  })

  it('merge() does not change its routers', () => {
    expect(namesIn(billing).tools).to.deep.equal(['refund'])
    expect(namesIn(billing).resources).to.deep.equal(['ledger billing://ledger'])
  })

  it('a router may be merged more than once, and merged routers may be merged', () => {
    const tools = KitMcpRouter.create().tool('a', { description: 'x' }, () => 'x')
    const twice = KitMcpRouter.create().merge('one', tools).merge('two', tools)
    expect(namesIn(KitMcpRouter.create().merge('all', twice)).tools).to.deep.equal(['all_one_a', 'all_two_a'])
  })

  describe('over the wire', () => {
    const served = serving(() => onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth() }))))
    for (const { name, connect } of CLIENT_KINDS) {
      describe(name, () => {
        let connected: Connected
        beforeEach(async () => {
          connected = await connect(served().origin, { token: 'writer' })
        })
        afterEach(async () => connected.close())

        it('merged handlers get the context of the outer router', async () => {
          const { client } = connected
          const called = await client.callTool({ name: 'billing_refund', arguments: { amount: 3 } })
          expect(called.content[0].text).to.equal('acme gets 3')
          expect((await client.callTool({ name: 'refund', arguments: {} })).content[0].text).to.equal('mine')
          const prompt = await client.getPrompt({ name: 'billing_remind' })
          expect(prompt.messages[0].content.text).to.equal('Remind acme')
          const ledger = await client.readResource({ uri: 'billing://ledger' })
          expect(ledger.contents[0].text).to.equal('ledger of acme')
          const invoice = await client.readResource({ uri: 'billing://invoice/7' })
          expect(invoice.contents[0].text).to.equal('acme 7')
        })
      })
    }

    it('merged operations keep their scopes', async () => {
      const refused = await served().send(legacy(call('billing_refund', { amount: 3 }), bearer('reader')))
      expect(refused.status).to.equal(403)
      expect(refused.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:write"')
    })
  })

  it('the .context() of a merged router is not called', async () => {
    let calls = 0
    const sub = KitMcpRouter.create()
      .context(() => {
        calls++
        return { n: 1 }
      })
      .tool('n', { description: 'x' }, (_args, { context }) => `${context.n}`)
    const merged = KitMcpRouter.create()
      .context(() => ({ n: 2 }))
      .merge('sub', sub)
    const { message } = await web(createMcpAdapter({ router: merged }).server).send(legacy(call('sub_n')))
    expect(message.result.content[0].text).to.equal('2')
    expect(calls).to.equal(0)
  })

  describe('wrong use', () => {
    const a = KitMcpRouter.create().tool('a', { description: 'x' }, () => 'x')
    const withContext = KitMcpRouter.create().context(() => ({ n: 1 }))
    for (const [what, act, option, words] of [
      ['a bad prefix', () => a.merge('a b', a), 'merge', '1 to 128'],
      ['an empty prefix', () => a.merge('', a), 'merge', '1 to 128'],
      ['a value that is not a router', () => a.merge('a', {} as never), 'merge', 'needs a KitMcpRouter'],
      ['a name that becomes too long', () => a.merge('p'.repeat(127), a), 'tool', '1 to 128'],
      ['a prefix twice', () => a.merge('p', a).merge('p', a), 'tool', "'p_a' is already registered"],
      [
        'a URI that is already registered',
        () =>
          router.merge(
            'again',
            KitMcpRouter.create().resource('b', { uri: 'billing://ledger' }, () => 'x'),
          ),
        'resource',
        'which is already registered',
      ],
      ['a missing context', () => a.merge('p', withContext as never), 'merge', 'Call .context()'],
    ] as const) {
      it(`merge() rejects ${what}`, () => {
        const error = configError(act)
        expect(error.option).to.equal(option)
        expect(error.message).to.contain(words)
      })
    }
  })

  it('a merged router must fit the context and the user of the outer router', () => {
    const base = KitMcpRouter.create().context(() => ({ tenant: 'acme', region: 'eu' }))
    expectTypeOf(base.merge('b', billing)).toEqualTypeOf<KitMcpRouter<{ tenant: string; region: string }>>()
    // @ts-expect-error no context at all
    KitMcpRouter.create().merge('b', billing)
    const numbered = KitMcpRouter.create().context(() => ({ tenant: 5 }))
    // @ts-expect-error a context of another type
    numbered.merge('b', billing)
    const forUsers = KitMcpRouter.create().user<{ id: string }>()
    KitMcpRouter.create().user<{ id: string; email: string }>().merge('b', forUsers)
    // @ts-expect-error a user without an id
    KitMcpRouter.create().user<{ email: string }>().merge('b', forUsers)
  })
})
