import { expect } from 'chai'
import type { RequestHandler } from 'express'
import { createMcpAdapter, KitMcpRouter, mcpCors, mcpHandler } from '../../../src/index.ts'
import { KitTelemetry, MockTelemetryAdapter } from '../../../src/telemetry/index.ts'
import { createProofKey, type ProofKey, proofFor } from '../../support/dpop.ts'
import { gatedApp, oauthOptions } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import { call, legacy } from '../../support/mcp/wire.ts'
import { rawRequest } from '../../support/raw-http.ts'

const RESOURCE = 'https://mcp.example.com/mcp'

describe('DPoP in every handler', () => {
  let key: ProofKey
  const events = MockTelemetryAdapter.create()
  const telemetry = KitTelemetry.create().addTransport(events).build()
  const adapterFor = () =>
    createMcpAdapter({
      router: KitMcpRouter.create().tool('say', { description: 'Says it' }, () => 'said'),
      oauth: oauthOptions({
        resource: RESOURCE,
        dpop: { mode: 'required', nonce: true },
        verifyToken: ({ bearerToken }) =>
          bearerToken === 'good' ? { valid: true, cnf: { jkt: key.thumbprint } } : undefined,
      }),
      telemetry,
    })
  const { body, headers } = legacy(call('say'))

  before(async () => {
    key = await createProofKey()
  })
  after(() => telemetry.shutdown())

  it('the web-standard handler requires a nonce that pages can read, and accepts a proof with it', async () => {
    const { server } = adapterFor()
    const send = async (claims: Record<string, unknown>) => {
      const proof = await proofFor(key, 'POST', RESOURCE, { token: 'good', claims })
      return await server(
        new Request(RESOURCE, {
          method: 'POST',
          body: body as string,
          headers: { ...(headers as Record<string, string>), authorization: 'DPoP good', dpop: proof },
        }),
      )
    }
    const first = await send({})
    expect(first.status).to.equal(401)
    expect(first.headers.get('access-control-expose-headers')?.split(/, ?/)).to.include.members([
      'WWW-Authenticate',
      'DPoP-Nonce',
    ])
    const second = await send({ nonce: first.headers.get('dpop-nonce') })
    expect(second.status).to.equal(200)
    expect(await second.text()).to.include('said')
    expect(second.headers.get('access-control-expose-headers')).not.to.include('DPoP-Nonce')
    await telemetry.flush()
    const refused = events.getEvents().filter(({ name }) => name === 'kit.mcp.auth.refused')
    expect(refused.map(({ attributes }) => attributes?.reason)).to.deep.equal(['invalid'])
  })

  it('the web-standard handler rejects two proofs, which the platform joins', async () => {
    const { server } = adapterFor()
    const given = new Headers({ ...(headers as Record<string, string>), authorization: 'DPoP good' })
    for (let times = 0; times < 2; times++) {
      given.append('dpop', await proofFor(key, 'POST', RESOURCE, { token: 'good' }))
    }
    const answer = await server(
      new Request(RESOURCE, { method: 'POST', body: body as string, headers: given }),
    )
    expect(answer.status).to.equal(401)
    expect(answer.headers.get('www-authenticate')).to.include('DPoP error="invalid_dpop_proof"')
  })

  it('CORS middleware exposes the DPoP-Nonce header together with the others', async () => {
    const adapter = adapterFor()
    const proof = await proofFor(key, 'GET', RESOURCE, { token: 'good' })
    const sent = ['Host: 127.0.0.1', 'Authorization: DPoP good', `DPoP: ${proof}`]
    const handler = mcpHandler(adapter)
    for (const app of [
      gatedApp(adapter, { before: [mcpCors() as RequestHandler] }),
      (req: Parameters<typeof handler>[0], res: Parameters<typeof handler>[1]) => handler(req, res),
    ]) {
      const { port } = await listen(app)
      const response = await rawRequest(port, { headers: sent })
      expect(response.status).to.equal(401)
      const exposed = response.header('access-control-expose-headers')?.split(/, ?/)
      expect(exposed).to.include.members(['WWW-Authenticate', 'Retry-After', 'DPoP-Nonce'])
      expect(exposed?.filter((name) => name === 'DPoP-Nonce')).to.have.length(1)
    }
  })
})
