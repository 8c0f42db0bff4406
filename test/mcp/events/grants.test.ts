import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { mcpServer } from '../../../src/express/mcp-server.ts'
import { adapterWith } from '../../../src/mcp/adapter.ts'
import { startFacade } from '../../support/authorization/facade.ts'
import { listen } from '../../support/listen.ts'
import { incidentRouter } from '../../support/mcp/incident-router.ts'
import { LOOPBACK, SECRET, startReceiver } from '../../support/mcp/webhooks.ts'
import { bearer, modern, send } from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

describe('Events behind the authorization facade', () => {
  it('a webhook ends with terminated when the user revokes the grant of its token', async () => {
    const test = await startFacade({ grants: { accessSeconds: 1 } })
    const receiver = await startReceiver()
    const given = { router: incidentRouter, oauth: test.facade.oauth, telemetry: false as const }
    const server = adapterWith(given as never, LOOPBACK)
    const { port } = await listen(express().use(mcpServer(server) as RequestHandler))
    const { body } = await test.connect()
    const delivery = { mode: 'webhook', url: receiver.url, secret: SECRET }
    const params = { name: 'incident', arguments: {}, delivery, cursor: null }
    const { message } = await send(port, modern('events/subscribe', params, bearer(body.access_token)))
    expect(message.error).to.equal(undefined)

    await server.events.emit('incident', { id: 1 }, { to: 'oidc|ada' })
    expect((await receiver.received(1))[0]?.json.data).to.deep.equal({ id: 1 })
    expect(await test.facade.grants.revokeUser('oidc|ada')).to.equal(1)
    // The answer of the store may be a second old.
    let id = 1
    await until(async () => {
      await server.events.emit('incident', { id: ++id })
      return server.events.stats().terminated === 1
    }, 100)
    await until(() => receiver.deliveries.at(-1)?.json.type === 'terminated', 5)
    expect(receiver.deliveries.at(-1)?.json.error).to.deep.include({ code: -32012 })
    await server.events.close()
    await test.close()
  })
})
