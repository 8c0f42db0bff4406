import { expect } from 'chai'
import { KitTelemetry, mcpAuth } from '../../src/index.ts'
import { listen } from '../support/listen.ts'

const OAUTH = {
  issuer: 'https://auth.example.com',
  resource: 'https://mcp.example.com/mcp',
  verifyToken: () => ({ valid: true as const }),
}

describe('mcpAuth() with a request that cannot be read', () => {
  for (const [what, options] of [
    ['without telemetry', {}],
    ['with telemetry', { telemetry: KitTelemetry.create().withService('test').build() }],
  ] as const) {
    it(`a request whose headers throw gets a 500 on a plain server ${what}`, async () => {
      const gate = mcpAuth(OAUTH, options)
      const { origin } = await listen((req, res) => {
        Object.defineProperty(req, 'rawHeaders', {
          get() {
            throw new Error('no headers')
          },
        })
        gate(req, res)
      })
      expect((await fetch(origin)).status).to.equal(500)
    })
  }
})
