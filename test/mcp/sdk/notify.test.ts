import { InMemoryServerEventBus } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { KitMcpRouter, mcpHandler } from '../../../src/index.ts'
import { createMcpAdapter, KitMcpServer, type McpAdapter } from '../../../src/mcp/adapter.ts'
import { CLIENT_KINDS, type Connected, errorOf, type ServerNotification } from '../../support/mcp/clients.ts'
import { onNode, type Served, serving } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, eventsOf, LEGACY, legacy, MODERN, modern, rpc } from '../../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  .tool('a', { description: 'x' }, () => 'x')
  .prompt('b', {}, () => 'x')
  .resource('one', { uri: 'notes://one' }, () => 'x')
  .resource('two', { uri: 'notes://two' }, () => 'x')
  .resource('secret', { uri: 'notes://secret', scopes: ['mcp:write'] }, () => 'x')
  .resourceTemplate('more', { uriTemplate: 'notes://more/{id}' }, () => 'x')

/** Collects the notifications of a client, and lets a test wait for a number of them. */
class NotificationLog {
  readonly received: ServerNotification[] = []
  #wake: (() => void) | undefined

  add = (received: ServerNotification): void => {
    this.received.push(received)
    this.#wake?.()
  }

  async until(count: number): Promise<string[]> {
    while (this.received.length < count) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return this.received.map(({ method, params }) =>
      [method.slice('notifications/'.length), params?.uri].join(' ').trim(),
    )
  }
}

const ALL = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ['notes://one', 'notes://more/1'],
}

/** Has a client listen for everything there is, in the way of its revision. */
async function listenForAll({ client, streaming }: Connected, revision: string): Promise<void> {
  if (revision === MODERN) return void (await client.listen(ALL))
  await streaming
  for (const uri of ALL.resourceSubscriptions) await client.subscribeResource({ uri })
}

describe('mcp: notify', () => {
  let adapter: McpAdapter
  const served = serving(() => {
    adapter = createMcpAdapter({ router, oauth: oauth() })
    return onNode(mcpHandler(adapter))
  })

  for (const { name, revision, connect } of CLIENT_KINDS) {
    describe(`to a ${name}`, () => {
      let log: NotificationLog
      let connected: Connected
      beforeEach(async () => {
        log = new NotificationLog()
        connected = await connect(served().origin, { token: 'reader', onNotification: log.add })
      })
      afterEach(async () => connected.close())

      it('notify sends list changes, and updates of subscribed resources only', async () => {
        await listenForAll(connected, revision)
        const { notify } = adapter
        notify.toolsChanged()
        notify.resourceUpdated('notes://two')
        notify.promptsChanged()
        notify.resourceUpdated('notes://one')
        notify.resourceUpdated('notes://more/1')
        notify.resourcesChanged()
        expect(await log.until(5)).to.deep.equal([
          'tools/list_changed',
          'prompts/list_changed',
          'resources/updated notes://one',
          'resources/updated notes://more/1',
          'resources/list_changed',
        ])
      })

      if (revision === LEGACY) {
        it('notify sends no updates after a subscription has ended', async () => {
          await connected.streaming
          await connected.client.subscribeResource({ uri: 'notes://one' })
          await connected.client.subscribeResource({ uri: 'notes://two' })
          await connected.client.unsubscribeResource({ uri: 'notes://one' })
          adapter.notify.resourceUpdated('notes://one')
          adapter.notify.resourceUpdated('notes://two')
          expect(await log.until(1)).to.deep.equal(['resources/updated notes://two'])
        })

        it('notify does not send updates for the subscriptions of another user', async () => {
          const others = new NotificationLog()
          const other = await connect(served().origin, { token: 'writer', onNotification: others.add })
          try {
            await Promise.all([connected.streaming, other.streaming])
            await other.client.subscribeResource({ uri: 'notes://secret' })
            adapter.notify.resourceUpdated('notes://secret')
            adapter.notify.toolsChanged()
            expect(await others.until(2)).to.deep.equal([
              'resources/updated notes://secret',
              'tools/list_changed',
            ])
            expect(await log.until(1)).to.deep.equal(['tools/list_changed'])
          } finally {
            await other.close()
          }
        })

        it('a subscription to an unknown resource is rejected', async () => {
          const error = await errorOf(connected.client.subscribeResource({ uri: 'notes://unknown' }))
          expect(error.code).to.equal(-32_602)
        })
      }
    })
  }

  it('notify of the builder is the same', () => {
    const { notify } = KitMcpServer.create().router(router).build()
    expect(Object.keys(notify)).to.have.members([
      'toolsChanged',
      'promptsChanged',
      'resourcesChanged',
      'resourceUpdated',
    ])
    notify.toolsChanged()
    notify.resourceUpdated('notes://one')
  })

  describe('with an eventBus', () => {
    const bus = new InMemoryServerEventBus()
    const nodes: { adapter: McpAdapter; served: Served }[] = []
    before(async () => {
      for (let node = 0; node < 2; node++) {
        const one = createMcpAdapter({ router, eventBus: bus })
        nodes.push({ adapter: one, served: await onNode(mcpHandler(one)) })
      }
    })
    after(async () => {
      for (const node of nodes) await node.served.close()
    })

    for (const { name, revision, connect } of CLIENT_KINDS) {
      it(`notify reaches a ${name} of another node`, async () => {
        const log = new NotificationLog()
        const connected = await connect(nodes[0]?.served.origin as string, { onNotification: log.add })
        await listenForAll(connected, revision)
        nodes[1]?.adapter.notify.resourceUpdated('notes://one')
        expect(await log.until(1)).to.deep.equal(['resources/updated notes://one'])
        await connected.close()
      })
    }

    it('the listener of the event bus is removed with the last stream', async () => {
      const { server } = createMcpAdapter({ router, eventBus: bus })
      const before = bus.listenerCount
      const response = await server(new Request('http://localhost/mcp'))
      expect(bus.listenerCount).to.equal(before + 1)
      await response.body?.cancel()
      expect(bus.listenerCount).to.equal(before)
    })
  })

  describe('the event stream of GET', () => {
    const bodyOf = async (adapterOf: McpAdapter, token?: string) => {
      const headers = token === undefined ? {} : bearer(token)
      const response = await adapterOf.server(new Request('http://localhost/mcp', { headers }))
      return response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
    }
    const textOf = async (reader: ReadableStreamDefaultReader<Uint8Array>) => {
      const { value } = await reader.read()
      return Buffer.from(value ?? []).toString()
    }

    it('an event stream keeps at most 1024 subscriptions', async () => {
      const own = createMcpAdapter({ router })
      const reader = await bodyOf(own)
      await textOf(reader)
      for (let id = 0; id < 1100; id += 100) {
        await (await own.server(new Request('http://localhost/mcp', subscribing(id, 100)))).text()
      }
      own.notify.resourceUpdated('notes://more/1029')
      own.notify.resourceUpdated('notes://more/1023')
      expect(eventsOf(await textOf(reader)).map(({ params }) => params.uri)).to.deep.equal([
        'notes://more/1023',
      ])
      await reader.cancel()
    })

    it('an event stream ends with its token', async () => {
      const expiring = shortLived()
      const reader = await bodyOf(expiring, 'short')
      expect(await textOf(reader)).to.equal(': open\n\n')
      expect(await reader.read()).to.deep.equal({ done: true, value: undefined })
      expiring.notify.toolsChanged()
    })
  })

  it('subscriptions/listen ends with its token', async () => {
    const { headers, body } = modern(
      'subscriptions/listen',
      { notifications: { toolsListChanged: true } },
      bearer('short'),
    )
    const init = { method: 'POST', headers: headers as Record<string, string>, body: body as string }
    const response = await shortLived().server(new Request('http://localhost/mcp', init))
    expect(eventsOf(await response.text()).map(({ method }) => method)).to.deep.equal([
      'notifications/subscriptions/acknowledged',
    ])
  })
})

/** An adapter whose tokens expire after 0.2 s. */
function shortLived(): McpAdapter {
  const verifyToken = () => ({ valid: true, scopes: ['mcp:read'], expiresAt: Date.now() / 1000 + 0.2 })
  return createMcpAdapter({ router, oauth: oauth({ verifyToken }) })
}

/** A batch of subscriptions, as revision 2025-03-26 has it. */
function subscribing(first: number, count: number): RequestInit {
  const batch = Array.from({ length: count }, (_, index) =>
    rpc('resources/subscribe', { uri: `notes://more/${first + index}` }, index),
  )
  const { headers, body } = legacy(batch, { 'mcp-protocol-version': '2025-03-26' })
  return { method: 'POST', headers: headers as Record<string, string>, body: body as string }
}
