import { expect } from 'chai'
import { type Outcome, startExample } from '../support/examples/run.ts'

describe('the demo', function () {
  this.timeout(60_000)
  let outcome: Outcome

  before(async () => {
    outcome = await startExample('demo', { NO_COLOR: '1' }).ended
  })

  it('the demo exits with code 0 and without output on stderr', () => {
    expect(outcome).to.include({ exitCode: 0, stderr: '' })
  })

  it('the demo shows its five steps', () => {
    const headings = [...outcome.stdout.matchAll(/^\d\. .*$/gm)].map(([line]) => line)
    expect(headings).to.deep.equal([
      '1. An authorization server',
      '2. A protected MCP server',
      '3. A telemetry receiver',
      '4. The official clients',
      '5. Telemetry',
    ])
  })

  it('the demo shows the 401 challenge of each client', () => {
    const challenges = outcome.stdout.match(
      /WWW-Authenticate: Bearer realm="mcp-server", error="invalid_token", scope="mcp:read", resource_metadata="http:\/\/127\.0\.0\.1:\d+\/\.well-known\/oauth-protected-resource\/mcp"/g,
    )
    // Three clients and two invalid tokens.
    expect(challenges).to.have.length(5)
  })

  it('the demo shows the 403 challenge of each client, with all scopes at once', () => {
    const challenges = outcome.stdout.match(
      /WWW-Authenticate: Bearer realm="mcp-server", error="insufficient_scope", scope="mcp:read mcp:write", resource_metadata=/g,
    )
    expect(challenges).to.have.length(3)
  })

  it('each client of the demo writes a note, with both protocol revisions', () => {
    expect(outcome.stdout.match(/write_note {4}Wrote note-/g)).to.have.length(3)
    const revisions = [...outcome.stdout.matchAll(/with MCP (\S+)\./g)].map(([, revision]) => revision)
    expect(revisions).to.deep.equal(['2025-11-25', '2026-07-28', '2025-11-25'])
  })

  it('the demo shows a table of accepted and refused requests', () => {
    const [, table = ''] = outcome.stdout.split('5. Telemetry')
    for (const event of ['auth.accepted', 'auth.refused', 'request.completed', 'tool.completed']) {
      expect(table).to.include(`kit.mcp.${event}`)
    }
    for (const reason of ['missing', 'invalid', 'wrong_resource', 'insufficient_scope']) {
      expect(table).to.match(
        new RegExp(
          `kit\\.mcp\\.auth\\.refused +${reason === 'missing' || reason === 'expired' ? 'info' : 'warn'} .* ${reason} `,
        ),
      )
    }
    expect(table.split('\n').length).to.be.below(50)
  })

  it('the demo reports that telemetry contains no secrets, and prints no secrets', () => {
    expect(outcome.stdout).to.match(/Checked: none of the \d+ tokens, codes and verifiers of this run/)
    expect(outcome.stdout).not.to.match(/eyJ[\w-]{9,}/)
  })
})
