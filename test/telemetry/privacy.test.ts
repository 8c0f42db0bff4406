import { createHmac } from 'node:crypto'
import { inspect } from 'node:util'
import { expect } from 'chai'
import { createMcpAdapter, jwtVerifier, KitMcpRouter } from '../../src/index.ts'
import { KitTelemetry, type TelemetryRedactionPolicy } from '../../src/telemetry/index.ts'
import { createTelemetryRecorder, createTestIssuer } from '../../src/testing/index.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { web } from '../support/mcp/entry-points.ts'
import { bearer, call, legacy, rpc } from '../support/mcp/wire.ts'

const redacted = (policy: TelemetryRedactionPolicy, attributes: Record<string, unknown>) =>
  KitTelemetry.create().withRedaction(policy).build().redact(attributes)

describe('privacy', () => {
  const listed: [string, Record<string, unknown>, Record<string, unknown>][] = [
    ['password', { password: 1, Password: 1, PASSWORD: 1, user_password: 1 }, { user_password: 1 }],
    [
      'password',
      { passwordHint: 1, 'ctx.password.hint': 1, ctx: { password: 1 } },
      { passwordHint: 1, ctx: {} },
    ],
    [
      'user.email',
      { 'user.email': 1, user: [{ email: 1, work: { email: 1 } }], email: 1 },
      { user: [{ work: { email: 1 } }], email: 1 },
    ],
    ['*token*', { '*token*': 1, token: 1, accessToken: 1, 'a.tokens': 1, tok: 1 }, { tok: 1 }],
  ]
  for (const [key, given, sent] of listed) {
    it(`the denied key ${key} removes from ${Object.keys(given).join(', ')} only the members that it names`, () => {
      expect(redacted({ denylistKeys: [key] }, given)).to.deep.equal(sent)
    })
  }

  it('redact hashes a value as it is hashed in events, and the configuration never shows the secret', () => {
    const builder = KitTelemetry.create().withRedaction({ hashKeys: ['email'], hashSecret: 'of the hashes' })
    const { email } = builder.build().redact({ email: 'ada@example.com' })
    expect(email).to.equal(createHmac('sha256', 'of the hashes').update('ada@example.com').digest('hex'))
    const config = builder.buildConfig()
    expectNoSecret([inspect(config, { depth: 9 }), JSON.stringify(config.redaction)], 'of the hashes')
  })

  it('a server emits neither tokens, nor the subject, nor a URI that is to be redacted', async () => {
    const resource = 'https://notes.test/mcp'
    const issuer = createTestIssuer({ audience: resource })
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create()
      .withSampling({ debugRate: 1, infoRate: 1 })
      .withRedaction({ denylistKeys: ['mcp.resource.uri', 'subject'] })
      .addTransport(recorder)
      .build()
    const pseudonym = (subject: unknown) => createHmac('sha256', 'x').update(String(subject)).digest('hex')
    const verifyToken = jwtVerifier({
      ...issuer.verifierOptions,
      mapUser: ({ sub }) => ({ id: pseudonym(sub), subject: String(sub) }),
    })
    const router = KitMcpRouter.create()
      .tool('quote', { description: 'x' }, (_args, { auth }) => {
        telemetry.emit('notes.quoted', { attributes: { auth } })
        throw new Error(`not with ${auth?.token}`)
      })
      .resource('mail', { uri: 'notes://bob@example.com' }, () => 'x')
    const oauth = { issuer: issuer.issuer, resource, verifyToken }
    const { send } = web(createMcpAdapter({ router, telemetry, recordPayloads: true, oauth }).server)

    const token = await issuer.issueToken({ sub: 'ada@example.com', clientId: 'cli' })
    await send(legacy(call('quote', { mine: token }), bearer(token)))
    await send(legacy(rpc('resources/read', { uri: 'notes://bob@example.com' }), bearer(token)))

    recorder.expectEvent('notes.quoted', {
      actor: { id: pseudonym('ada@example.com') },
      attributes: { auth: { clientId: 'cli', token: undefined } },
    })
    recorder.expectEvent('kit.mcp.tool.failed', { error: { message: 'not with [token]' } })
    recorder.expectEvent('kit.mcp.request.completed', { attributes: { 'mcp.method.name': 'resources/read' } })
    expectNoSecret(recorder.events(), [
      token,
      ...token.split('.').slice(1),
      'ada@example.com',
      'bob@example.com',
    ])
  })
})
