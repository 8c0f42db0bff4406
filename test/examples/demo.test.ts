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

  it('the demo has at most 54 lines, and ends with the next commands', () => {
    const lines = outcome.stdout.trimEnd().split('\n')
    expect(lines.length).to.be.at.most(54)
    expect(lines.at(-1)).to.match(/^✓ Signed in, refused, stepped up, and no secret leaked\. Next: npm start/)
  })

  const CHALLENGES = [
    ['401, for no token and two invalid ones', 'error="invalid_token", scope="mcp:read"', 3],
    ['403, with all scopes at once', 'error="insufficient_scope", scope="mcp:read mcp:write"', 1],
  ] as const
  for (const [what, challenge, count] of CHALLENGES) {
    it(`the demo shows the challenges of ${what}`, () => {
      expect(outcome.stdout.split(`WWW-Authenticate: Bearer ${challenge}\n`)).to.have.length(count + 1)
    })
  }

  it('with --all, each client writes a note, with both protocol revisions', async () => {
    const { stdout } = await startExample('demo', { NO_COLOR: '1' }, ['--all']).ended
    expect(stdout.match(/write_note {4}Wrote note-/g)).to.have.length(3)
    const revisions = [...stdout.matchAll(/with MCP (\S+)\./g)].map(([, revision]) => revision)
    expect(revisions).to.deep.equal(['2025-11-25', '2026-07-28', '2025-11-25'])
    expect(stdout).to.match(
      /resource_metadata="http:\/\/127\.0\.0\.1:\d+\/\.well-known\/oauth-protected-resource\/mcp"/,
    )
  })

  it('the demo shows a table of accepted and refused requests', () => {
    const [, table = ''] = outcome.stdout.split('What the server reported')
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
    expect(outcome.stdout).to.match(/None of the \d+ tokens, codes, and verifiers is in the \d+ events/)
    expect(outcome.stdout).not.to.match(/eyJ[\w-]{9,}/)
  })
})
