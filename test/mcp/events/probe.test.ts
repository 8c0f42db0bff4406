import { serveEvents } from '../../support/mcp/events.ts'

describe('probe', () => {
  it('probe', async () => {
    const server = await serveEvents()
    console.log(JSON.stringify((await server.send('ada', 'server/discover')).message.result.capabilities))
    console.log(JSON.stringify(await server.ask('ada', 'events/list')))
    const first = await server.ask('ada', 'events/poll', { name: 'incident', arguments: {}, cursor: null })
    console.log(first)
    const streams = await Promise.all([
      server.stream('ada', { name: 'incident' }),
      server.stream('ada', { name: 'incident' }, '2025-11-25'),
    ])
    for (const s of streams) console.log(s.status, JSON.stringify(await s.received(1)))
    console.log(await server.adapter.events.emit('incident', { id: 1 }))
    for (const s of streams) console.log(s.status, JSON.stringify(await s.received(2)))
    console.log(
      JSON.stringify(await server.ask('ada', 'events/poll', { name: 'incident', cursor: first.cursor })),
    )
    console.log(server.adapter.events.stats())
    for (const s of streams) s.close()
    await new Promise((r) => setTimeout(r, 50))
    console.log(server.adapter.events.stats().streams)
    console.log((await server.send('ada', 'events/poll', { name: 'secret' })).text)
    console.log((await server.send('ada', 'events/stream', { name: 'nope' })).text)
    console.log(
      (
        await server.send('ada', 'events/subscribe', {
          name: 'incident',
          delivery: {
            url: 'https://127.0.0.1/',
            mode: 'webhook',
            secret: 'whsec_' + Buffer.alloc(32).toString('base64'),
          },
        })
      ).text,
    )
  })
})
