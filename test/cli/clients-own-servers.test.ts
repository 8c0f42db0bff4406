import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import express from 'express'
import {
  type DevAuthorizationServer,
  startDevAuthorizationServer,
} from '../../cli/dev/authorization-server.ts'
import { CHECKS } from '../../cli/doctor/checks.ts'
import { CLIENT_IDS } from '../../cli/doctor/clients.ts'
import type { DoctorReport } from '../../cli/doctor/doctor.ts'
import { type AuthorizationServer, startAuthorizationServer } from '../../examples/authorization-server.ts'
import { createNotesServer } from '../../examples/server.ts'
import { notesTelemetry } from '../../examples/telemetry.ts'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from '../../src/index.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { createApp } from '../../template/app.ts'
import { look } from '../support/cli/doctor-target.ts'
import { listen } from '../support/listen.ts'

/** Returns the result of the check on the rules of directories. */
const directoryOf = ({ checks }: DoctorReport) => {
  const { status, seen } = checks.find(({ id }) => id === 'tools.directory') ?? {}
  return { status, seen }
}

const failuresOf = ({ checks }: DoctorReport): string[] =>
  checks.filter(({ status }) => status === 'fail').map(({ id, seen }) => `${id}: ${seen}`)

describe('the server of the examples', () => {
  let authorization: AuthorizationServer | undefined
  let folder: string | undefined

  afterEach(async () => {
    await authorization?.close()
    if (folder !== undefined) await rm(folder, { recursive: true })
  })

  for (const as of CLIENT_IDS) {
    it(`the server of the examples has no failures with --as ${as}, --call, and --register`, async () => {
      folder = await mkdtemp(join(tmpdir(), 'notes-'))
      const app = express()
      app.set('env', 'test')
      const { origin } = await listen(app)
      const resource = `${origin}/mcp`
      authorization = await startAuthorizationServer({
        resources: [resource],
        scopes: ['mcp:read', 'mcp:write'],
      })
      const { issuer, jwksUri } = authorization
      app.use(
        await createNotesServer({ issuer, jwksUri, resource, telemetry: notesTelemetry('test', []), folder }),
      )
      const token = await authorization.issueToken(['mcp:read', 'mcp:write'])
      // The authorization server of the examples signs in its only user by itself.
      const ignore = ['flaw.consent']
      const options = { as, token, call: 'list_notes', register: true, ignore }
      const report = await look(new URL(resource), options)
      expect(failuresOf(report)).to.deep.equal([])
      expect(directoryOf(report)).to.deep.equal({ status: 'ok', seen: '6 tools' })
      expect(report.checks.filter(({ status }) => status === 'skip').map(({ id }) => id)).to.deep.equal([
        'token.login',
        'token.under-scoped',
        'session.other-user',
        // The server declares no events.
        ...CHECKS.filter(({ group }) => group === 'Events').map(({ id }) => id),
        // Only mcpServer serves a card.
        'card.valid',
        'card.remote',
        'card.discover',
        'card.catalog',
        'card.cors',
        // The authorization server has no identity provider.
        'flaw.upstream-pkce',
        'flaw.upstream-context',
        'flaw.consent',
        'flaw.upstream-state',
        'flaw.code-replay',
      ])
    })
  }
})

describe('the server that init writes', () => {
  it('the tools of the template have the titles and hints that directories require', async () => {
    const { origin } = await listen((req, res) => void app(req, res))
    const resource = `${origin}/mcp`
    const issuer = createTestIssuer({ audience: resource })
    const verifyToken = jwtVerifier(issuer.verifierOptions)
    const app = createApp({ issuer: issuer.issuer, resource, verifyToken })
    const token = await issuer.issueToken({ scopes: ['mcp:read', 'mcp:write'] })
    const report = await look(new URL(resource), { token })
    expect(directoryOf(report)).to.deep.equal({ status: 'ok', seen: '2 tools' })
  })
})

describe('the server of the quick start', () => {
  let authorization: DevAuthorizationServer | undefined

  afterEach(() => authorization?.close())

  for (const as of CLIENT_IDS) {
    it(`the server of the quick start, with the authorization server of dev, has no failures with --as ${as}`, async () => {
      const oidcProvider = import.meta.resolve('oidc-provider')
      authorization = await startDevAuthorizationServer({
        oidcProvider,
        port: { number: 0, orAnother: false },
        tokenSeconds: 60,
      })
      const { issuer } = authorization
      const app = express()
      app.set('env', 'test')
      const { origin } = await listen(app)
      const resource = `${origin}/mcp`
      const router = KitMcpRouter.create().tool(
        'greet',
        { description: 'Greets someone', scopes: ['mcp:greet'] },
        () => 'Hello!',
      )
      const verifyToken = jwtVerifier({ issuer, audience: resource })
      app.use(
        mcpServer(
          createMcpAdapter({ router, oauth: { issuer, resource, scopes: ['mcp:read'], verifyToken } }),
        ),
      )
      const report = await look(new URL(resource), { as, register: true })
      expect(failuresOf(report)).to.deep.equal([])
    })
  }
})
