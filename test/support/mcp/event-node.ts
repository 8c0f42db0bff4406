/** A node of a server with events in Redis. Its arguments are the port of Redis, and the certificate of the receivers. */
import express, { type RequestHandler } from 'express'
import { Redis } from 'ioredis'
import { mcpServer } from '../../../src/express/mcp-server.ts'
import { adapterWith } from '../../../src/mcp/adapter.ts'
import { redisEventStore } from '../../../src/redis/event-store.ts'
import { eventRouter, NAMED_USERS } from './event-router.ts'

const [redisPort, ca = ''] = process.argv.slice(2)
const store = redisEventStore(new Redis(Number(redisPort), '127.0.0.1'))
const options = { router: eventRouter, oauth: NAMED_USERS, events: { store } }
const adapter = adapterWith(options as never, { ca, isAllowed: () => true })

const app = express()
app.post('/emit/:id', (req, res, next) => {
  const { id } = req.params
  adapter.events
    .emit('incident', { id: Number(id) }, { eventId: `incident-${id}` })
    .then(() => res.end(), next)
})
app.get('/stats', (_req, res) => void res.json(adapter.events.stats()))
app.use(mcpServer(adapter) as RequestHandler)
const server = app.listen(0, '127.0.0.1', () => {
  console.log((server.address() as { port: number }).port)
})
