import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { verifyAudit } from '../../src/telemetry/index.ts'
import { createTestIssuer, type TestIssuer } from '../../src/testing/test-issuer.ts'
import { type Outcome, type RunningExample, startExample } from '../support/examples/run.ts'
import { CLIENT_KINDS, type Connected } from '../support/mcp/clients.ts'
import { bearer, modern, send } from '../support/mcp/wire.ts'
import { AUDIT_SECRET } from '../support/telemetry/audit.ts'

const RESOURCE = 'https://notes.example.com/mcp'
const TOOLS = ['search', 'read_notes', 'write_note', 'publish_note', 'export_notes']
const DENIED = 'Your role may not use this tool.'

/** A table of calls: the claims of the user, or `undefined` for a client without a token, and the text of the result. */
const CALLS: readonly {
  readonly who: string
  readonly claims: object | undefined
  readonly sees: readonly string[]
  readonly calls: readonly (readonly [tool: string, args: object, text: string])[]
}[] = [
  {
    who: 'a client without a token',
    claims: undefined,
    sees: TOOLS,
    calls: [
      ['search', { text: 'March' }, '["Cut roses in March."]'],
      ['search', { text: 'seeds' }, '[]'],
    ],
  },
  {
    who: 'a viewer',
    claims: { team: 'kitchen', role: 'viewer' },
    sees: ['search', 'read_notes'],
    calls: [
      ['search', { text: 'March' }, '["Cut roses in March."]'],
      ['read_notes', {}, '[{"name":"menu","text":"Soup on Monday."}]'],
      ['write_note', { name: 'menu', text: 'x' }, DENIED],
      ['export_notes', {}, DENIED],
    ],
  },
  {
    who: 'an editor of a new team',
    claims: { team: 'attic', role: 'editor' },
    sees: ['search', 'read_notes', 'write_note'],
    calls: [
      ['write_note', { name: 'boxes', text: 'Boxes are full.' }, 'Wrote boxes'],
      ['read_notes', {}, '[{"name":"boxes","text":"Boxes are full."}]'],
      ['publish_note', { name: 'boxes' }, DENIED],
      ['search', { text: 'Boxes' }, '[]'],
    ],
  },
  {
    who: 'an owner',
    claims: { team: 'cellar', role: 'owner' },
    sees: TOOLS,
    calls: [
      ['publish_note', { name: 'menu' }, 'The note menu does not exist'],
      ['write_note', { name: 'wine', text: 'The cellar is dry.' }, 'Wrote wine'],
      ['search', { text: 'cellar' }, '[]'],
      ['publish_note', { name: 'wine' }, 'Published wine'],
      ['search', { text: 'cellar' }, '["The cellar is dry."]'],
      ['write_note', { name: 'wine', text: 'A secret' }, 'Wrote wine'],
      ['search', { text: 'cellar' }, '[]'],
    ],
  },
  {
    who: 'an owner without a team',
    claims: { role: 'owner' },
    sees: TOOLS,
    calls: [
      ['read_notes', {}, 'Your account has no team.'],
      ['search', { text: 'March' }, '["Cut roses in March."]'],
    ],
  },
  {
    who: 'a user without a role',
    claims: { team: 'garden' },
    sees: ['search'],
    calls: [
      ['read_notes', {}, DENIED],
      ['search', { text: 'March' }, '["Cut roses in March."]'],
    ],
  },
]

describe('the example of notes of teams', function () {
  this.timeout(60_000)

  const provider = createServer()
  let issuer: TestIssuer
  let folder: string
  let auditFile: string
  let example: RunningExample
  let port: number

  before(async () => {
    await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
    issuer = createTestIssuer({
      issuer: `http://127.0.0.1:${(provider.address() as AddressInfo).port}`,
      audience: RESOURCE,
    })
    provider.on('request', (req, res) => {
      const metadata = { issuer: issuer.issuer, jwks_uri: `${issuer.issuer}/jwks` }
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify(req.url === '/jwks' ? issuer.jwks : metadata))
    })
    folder = await mkdtemp(join(tmpdir(), 'team-notes-'))
    auditFile = join(folder, 'audit.log')
    example = startExample('team-notes', {
      ISSUER: issuer.issuer,
      RESOURCE,
      AUDIT_SECRET,
      AUDIT_FILE: auditFile,
      PORT: '0',
    })
    const said = await example.said(/are at .*\n/)
    port = Number(/127\.0\.0\.1:(\d+)/.exec(said)?.[1])
  })
  after(async () => {
    if (example?.process.exitCode === null) example.process.kill('SIGKILL')
    await example?.ended
    provider.close()
    provider.closeAllConnections()
    await rm(folder, { recursive: true })
  })

  const tokenOf = (sub: string, claims: object) => issuer.issueToken({ sub, claims: { ...claims } })
  const textOf = ({ content }: { content: { text: string }[] }) => content[0]?.text

  for (const { name, connect } of CLIENT_KINDS) {
    for (const { who, claims, sees, calls } of CALLS) {
      it(`${who} with the ${name} sees and calls the permitted tools`, async () => {
        const token = claims && (await tokenOf(`${name} ${who}`, claims))
        const connected = await connect(`http://127.0.0.1:${port}`, token === undefined ? {} : { token })
        try {
          const { tools } = await connected.client.listTools()
          expect(tools.map((tool: { name: string }) => tool.name)).to.deep.equal(sees)
          for (const [tool, args, text] of calls)
            expect(textOf(await connected.client.callTool({ name: tool, arguments: args }))).to.equal(text)
        } finally {
          await connected.close()
        }
      })
    }

    it(`an owner with the ${name} exports the notes of the team five times per hour`, async () => {
      const token = await tokenOf(`${name} exporter`, { team: 'kitchen', role: 'owner' })
      const connected: Connected = await connect(`http://127.0.0.1:${port}`, { token })
      try {
        for (let time = 0; time < 5; time++) {
          const exported = textOf(await connected.client.callTool({ name: 'export_notes' }))
          expect(JSON.parse(exported ?? '').map((note: { name: string }) => note.name)).to.deep.equal([
            'menu',
          ])
        }
        const refused = await connected.client.callTool({ name: 'export_notes' })
        expect(refused.isError).to.equal(true)
        expect(textOf(refused)).to.include('at most 5 calls of tool export_notes per 3600 seconds')
      } finally {
        await connected.close()
      }
    })

    it(`a private tool asks the ${name} without a token to sign in`, async () => {
      const connected = await connect(`http://127.0.0.1:${port}`)
      try {
        const error = await connected.client.callTool({ name: 'read_notes' }).catch((cause: Error) => cause)
        expect(error).to.be.an('error')
        expect(String(error)).to.match(/401|unauthorized|access token/i)
      } finally {
        await connected.close()
      }
    })
  }

  it('the challenge for a private tool of the example names the metadata of the server', async () => {
    const { status, headers } = await send(port, modern('tools/call', { name: 'read_notes' }))
    expect(status).to.equal(401)
    expect(headers.get('www-authenticate')).to.include(
      'resource_metadata="https://notes.example.com/.well-known/oauth-protected-resource/mcp"',
    )
  })

  it('an address without a token gets an error after 120 calls of the example in a minute', async () => {
    const search = () => send(port, modern('tools/call', { name: 'search', arguments: { text: 'March' } }))
    const texts: (string | undefined)[] = []
    while (texts.length < 121 && !texts.at(-1)?.startsWith('Call limit'))
      texts.push(textOf((await search()).message.result))
    expect(texts.at(-1)).to.include('at most 120 tool calls per 60 seconds')
    // Users have counts of their own.
    const token = await tokenOf('ada', { team: 'kitchen', role: 'viewer' })
    const { message } = await send(port, modern('tools/call', { name: 'read_notes' }, bearer(token)))
    expect(message.result.isError).to.equal(undefined)
  })

  describe('after SIGTERM', () => {
    let outcome: Outcome
    before(async () => {
      example.process.kill('SIGTERM')
      outcome = await example.ended
    })

    it('the process of the example ends with code 0 after SIGTERM, and stderr has only events of the gate and the router', () => {
      expect(outcome.exitCode).to.equal(0)
      // An event with an error is followed by its stack.
      for (const line of outcome.stderr.trim().split('\n'))
        expect(line).to.match(/^(?:\S+ (WARN|ERROR) kit\.mcp\.| {6}at )/)
    })

    it('the line of a request to the example has the team and the number of found notes', () => {
      const lines = outcome.stdout.split('\n').filter((line) => line.includes('kit.mcp.request.completed'))
      expect(lines.filter((line) => /notes\.team=kitchen/.test(line))).not.to.deep.equal([])
      expect(lines.filter((line) => /notes\.found=1/.test(line))).not.to.deep.equal([])
    })

    it('the audit log of the example is valid after SIGTERM, and has the refusals, the denials, the limits, and the publications', async () => {
      const lines = (await readFile(auditFile, 'utf8')).trim().split('\n')
      expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal({ valid: true, events: lines.length - 2 })
      const names = lines.map((line) => JSON.parse(line).name)
      expect([...new Set(names)]).to.have.members([
        'kit.audit.opened',
        'kit.mcp.auth.refused',
        'kit.mcp.policy.denied',
        'kit.mcp.limit.reached',
        'notes.published',
        'kit.audit.closed',
      ])
      expect(names.filter((one) => one === 'notes.published')).to.have.length(CLIENT_KINDS.length)
    })

    it('neither tokens nor the secret are in the output and the audit log of the example', async () => {
      expect(outcome.stdout + outcome.stderr + (await readFile(auditFile, 'utf8'))).not.to.match(
        /eyJ[\w-]{9,}|S3cr3t/,
      )
    })
  })
})
