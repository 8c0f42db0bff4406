import { once } from 'node:events'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { mcpAuth } from '../../src/index.ts'
import { listen } from '../support/listen.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'

const OAUTH = {
  issuer: 'https://auth.example.com',
  resource: 'https://mcp.example.com/mcp',
  verifyToken: () => ({ valid: true as const }),
}

const list = (id: number) => ({ jsonrpc: '2.0', id, method: 'tools/list' })

describe('telemetry of mcpAuth() in front of another server', () => {
  for (const [what, body, methods] of [
    ['a message', list(1), ['tools/list']],
    [
      'a batch of 100 messages',
      Array.from({ length: 100 }, (_, id) => list(id)),
      Array(100).fill('tools/list'),
    ],
    ['a batch of 101 messages', Array.from({ length: 101 }, (_, id) => list(id)), [undefined]],
    ['an empty batch', [], [undefined]],
  ] as const) {
    it(`the events of ${what} name ${methods[0] === undefined ? 'no method' : 'the method of each message'}`, async () => {
      const { telemetry, transport } = keepingEvents()
      const app = express().use(express.json(), mcpAuth(OAUTH, { telemetry }) as RequestHandler)
      const { origin, server } = await listen(app.use((_req, res) => void res.json({})))
      const closed = new Promise<void>((resolve) =>
        server.once('request', (_req, res) => void once(res, 'close').then(() => resolve())),
      )
      await (
        await fetch(origin, {
          method: 'POST',
          headers: { authorization: 'Bearer x', 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
      ).text()
      await closed
      await telemetry.shutdown()
      const completed = transport.getEvents().filter(({ name }) => name === 'kit.mcp.request.completed')
      expect(completed.map(({ attributes }) => attributes?.['mcp.method.name'])).to.deep.equal(methods)
    })
  }
})
