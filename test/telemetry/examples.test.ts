import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { createApp } from '../../examples/express-sessions.ts'
import { jwtVerifier, KitTelemetry } from '../../src/index.ts'
import { createTelemetryRecorder, createTestIssuer } from '../../src/testing/index.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { listen } from '../support/listen.ts'
import { until } from '../support/until.ts'

describe('the custom transport of the examples', () => {
  it('the custom transport of the examples writes one redacted line for each event', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mcp-gatekit-'))
    try {
      const file = join(folder, 'events.jsonl')
      const example = fileURLToPath(new URL('../../examples/custom-transport.js', import.meta.url))
      await promisify(execFile)(process.execPath, [example, file])
      const lines = (await readFile(file, 'utf8')).trimEnd().split('\n')
      expect(lines).to.have.length(1)
      expect(JSON.parse(lines[0] ?? '')).to.deep.include({
        name: 'invoice.paid',
        service: 'billing',
        attributes: { cents: 1200 },
      })
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})

describe('the sessions of the Express example', () => {
  const issuer = createTestIssuer()
  const recorder = createTelemetryRecorder()
  const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(recorder).build()

  it('sessions of the Express example name the user and the request', async () => {
    const { origin } = await listen(
      createApp(telemetry, { issuer: issuer.issuer, verifyToken: jwtVerifier(issuer.verifierOptions) }),
    )
    const tokens = await Promise.all(['ada', 'bob'].map((sub) => issuer.issueToken({ sub, clientId: 'cli' })))
    const answers = await Promise.all(
      tokens.map((token, index) =>
        fetch(`${origin}/invoices/${index}`, {
          headers: { authorization: `Bearer ${token}`, connection: 'close' },
        }),
      ),
    )
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200])
    await Promise.all(answers.map((answer) => answer.text()))
    await until(() => recorder.events('http.request.completed').length === 2)

    for (const [index, sub] of ['ada', 'bob'].entries()) {
      const read = recorder.expectEvent('invoice.read', {
        actor: { type: 'user', id: sub, tags: { client: 'cli' } },
        attributes: { invoice: String(index) },
      })
      recorder.expectEvent('http.request.completed', {
        sessionId: read.sessionId,
        actor: { id: sub },
        attributes: { 'http.route': '/invoices/:id', 'url.path': `/invoices/${index}` },
      })
    }
    expect(new Set(recorder.events().map(({ sessionId }) => sessionId))).to.have.property('size', 2)
    expectNoSecret(recorder.events(), tokens)
  })

  it('sessions of the Express example are not created for refused requests', async () => {
    recorder.clear()
    const { origin } = await listen(
      createApp(telemetry, { issuer: issuer.issuer, verifyToken: jwtVerifier(issuer.verifierOptions) }),
    )
    expect((await fetch(`${origin}/invoices/1`)).status).to.equal(401)
    expect(recorder.events()).to.deep.equal([])
  })
})
