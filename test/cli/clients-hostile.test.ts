import { buffer } from 'node:stream/consumers'
import { expect } from 'chai'
import { CLIENT_IDS } from '../../cli/doctor/clients.ts'
import { textReport } from '../../cli/doctor/report.ts'
import { look, startTarget } from '../support/cli/doctor-target.ts'
import { json } from '../support/cli/faults.ts'
import { listen } from '../support/listen.ts'

/** Characters that control a terminal, end a line, or reverse the direction of a string. */
const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u
const EVIL = '\x1b[2J\x07\u202e\u2028\x9b31m'
const NESTED = `${'['.repeat(20_000)}${']'.repeat(20_000)}`

/** Starts a server whose every response is hostile: members, header values, and statuses. */
async function startHostileServer() {
  const server = await listen(async (req, res) => {
    await buffer(req)
    const { origin } = server
    if (req.url === '/mcp' && req.method !== 'DELETE') {
      res.writeHead(401, {
        'www-authenticate': `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp", scope="a"`,
        server: 'x'.repeat(5000),
      })
      res.end(NESTED)
      return
    }
    res.writeHead(200, { 'content-type': 'application/json' })
    const many = Array.from({ length: 2_000 }, (_, index) => `${EVIL}${index}`)
    const document = {
      resource: `${origin}/mcp`,
      authorization_servers: [`${origin}/${encodeURIComponent(EVIL)}`, EVIL],
      scopes_supported: many,
      issuer: EVIL,
      authorization_endpoint: `${origin}/authorize?${EVIL}`,
      token_endpoint: `${origin}/token`,
      registration_endpoint: `${origin}/register`,
      client_id: 'new',
      client_id_metadata_document_supported: true,
      token_endpoint_auth_methods_supported: many,
      code_challenge_methods_supported: [EVIL],
      error: EVIL,
      ...Object.fromEntries(many.map((name) => [name, null])),
    }
    res.end(JSON.stringify(document))
  })
  return new URL(`${server.origin}/mcp`)
}

describe('doctor --as for hostile servers', function () {
  this.timeout(60_000)

  for (const as of CLIENT_IDS) {
    it(`the report as ${as} contains no control characters and no endless text`, async () => {
      const report = await look(await startHostileServer(), { as, register: true })
      for (const { id, seen, hint = '' } of report.checks) {
        expect(seen, id).not.to.match(STEERING)
        expect(hint, id).not.to.match(STEERING)
        expect(seen.length, id).to.be.at.most(4_001)
        expect(seen, id).not.to.contain('internal error')
      }
      expect(textReport(report, false).replaceAll('\n', '')).not.to.match(STEERING)
    })
  }

  it('sessions that the server never ends do not delay the report one after the other', async () => {
    let sessions = 0
    let waiting = 0
    let most = 0
    const server = await listen(async (req, res) => {
      if (req.method === 'DELETE') {
        most = Math.max(most, ++waiting)
        res.once('close', () => waiting--)
        return
      }
      await buffer(req)
      res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': `s${++sessions}` })
      res.end('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}')
    })
    await look(new URL(`${server.origin}/mcp`), { timeoutMs: 200 })
    expect(sessions).to.be.greaterThan(3)
    expect(most).to.be.greaterThan(3)
  })

  for (const issuer of ['urn:x', 'data:,x', 'mailto:a@example.com'])
    it(`the issuer ${issuer}, which is not an https URL, is reported for every client`, async () => {
      const target = await startTarget({
        instead: ({ path }) =>
          path.startsWith('/.well-known/oauth-protected-resource')
            ? json({ resource: target.url.href, authorization_servers: [issuer] })
            : undefined,
      })
      for (const as of CLIENT_IDS) {
        const report = await look(target.url, { as })
        const finding = report.checks.find(({ id }) => id === 'client.discovery')
        expect([finding?.status, finding?.seen], as).to.satisfy(
          ([status, seen]: [string, string]) => status === 'fail' && !seen.includes('internal error'),
        )
      }
    })
})
