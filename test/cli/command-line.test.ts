import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { z } from 'zod'
import { CHECKS } from '../../cli/doctor/checks.ts'
import { run } from '../../cli/run.ts'
import { VERSION } from '../../src/base/version.ts'
import { selfSigned } from '../support/certificates.ts'
import { startTarget } from '../support/cli/doctor-target.ts'
import { itRejects, runCommand, runProgram } from '../support/cli/run-command.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { listen } from '../support/listen.ts'

const IDS = CHECKS.map(({ id }) => id)

const count = z.number().int().min(0)
const status = z.enum(['ok', 'warn', 'fail', 'skip'])
/** The output of `--json`, as docs/reference/doctor.md describes it. */
const REPORT = z.strictObject({
  schema: z.literal(1),
  tool: z.literal('mcp-gatekit doctor'),
  version: z.literal(VERSION),
  url: z.url(),
  startedAt: z.iso.datetime(),
  durationMs: count,
  requests: count,
  verdict: z.enum(['ok', 'warn', 'fail']),
  summary: z.strictObject({ ok: count, warn: count, fail: count, skip: count }),
  checks: z.array(
    z.strictObject({
      id: z.enum(IDS as [string, ...string[]]),
      group: z.string().min(1),
      title: z.string().min(1),
      status,
      seen: z.string().min(1),
      hint: z.string().min(1).optional(),
      durationMs: count,
    }),
  ),
})

describe('the command mcp-gatekit', () => {
  describe('with an invalid command line', () => {
    itRejects(
      [],
      [
        [['docter'], 'Did you mean doctor?'],
        [['frobnicate'], 'Run mcp-gatekit --help'],
        [['doctor'], 'the URL of an MCP server is missing'],
        [['doctor', 'example.com/mcp'], 'the URL must be an absolute URL'],
        [['doctor', 'localhost:3000/mcp'], 'must begin with https:// or http://'],
        [['doctor', 'ftp://example.com'], 'must begin with https:// or http://'],
        [['doctor', 'https://ada:hunter2@example.com/'], '--token-env'],
        [['doctor', 'https://example.com/#x'], 'fragment'],
      ],
    )
    itRejects(
      ['doctor', 'https://example.com'],
      [
        [['hunter2'], 'expected exactly one URL'],
        [['--tokn', 'x'], 'unknown option --tokn. Did you mean --token?'],
        [['--hunter2-hunter2-hunter2-hunter2-hunter2-x'], 'unknown option'],
        [['-z'], 'unknown option -z'],
        [['--token'], '--token requires a value'],
        [['--token', '-hunter2'], '--token=…'],
        [['--json=hunter2'], '--json takes no value'],
        [['--token', 'Bearer hunter2'], 'without "Bearer"'],
        [['--token-env', 'hunter2'], 'must be the name of an environment variable that is set'],
        [['--token', 'x', '--login'], 'use only one of --token and --login'],
        [['--client-id', 'x'], '--client-id requires --login'],
        [['--login', '--client-secret-env', 'x'], '--client-secret-env requires --client-id'],
        [
          ['--login', '--client-id', 'x', '--client-secret-env', 'hunter2'],
          '--client-secret-env requires --issuer',
        ],
        [['--issuer', 'https://auth.example.com'], '--issuer requires --login'],
        ...[
          'auth.example.com',
          'http://auth.example.com',
          'https://a:hunter2@b.example',
          'https://b.example?',
          'x:y',
        ]
          .concat('https://b.example/#hunter2', '')
          .map((issuer) => [['--login', `--issuer=${issuer}`], '--issuer must be the https URL'] as const),
        [['--login', '--redirect-port', '70000'], '0 to 65535'],
        [['--arguments', '{}'], '--arguments requires --call'],
        [['--call', ''], 'name of a tool'],
        [['--html', ''], 'name of a file'],
        [['--call', 'a', '--arguments', '[hunter2]'], 'JSON object'],
        [['--call', 'a', '--arguments', '[]'], 'JSON object'],
        [['--timeout', '0'], '--timeout must be a number of seconds'],
        [['--timeout', '10s'], '--timeout must be a number of seconds'],
        [['--origin', 'https://a.example/'], '--origin must be the scheme, host, and port'],
        [['--ignore', 'cors.preflght'], 'Did you mean cors.preflight?'],
        [
          ['--as', 'copilot'],
          '--as must be one of claude, claude-code, chatgpt, codex, cursor, vscode, gemini, inspector',
        ],
        [['--as', ''], '--as must be one of claude'],
        [['--events-port', '8787'], '--events-port requires --events'],
        [['--event', 'a'], '--event requires --events'],
        [['--events', ''], '--events must be an https URL'],
        [['--events', 'http://hook.example.com'], 'must be an https URL'],
        [['--events', 'https://a:hunter2@hook.example'], 'credentials'],
        [['--events', 'https://hook.example:80'], 'a port from 1024 on'],
        [['--events', 'https://hook.example', '--events-port', '0'], '--events-port must not be 0'],
        [['--register=yes'], '--register takes no value'],
      ],
    )
  })

  it('prints its help and its version, and exits with 2 without a command', async () => {
    const { stdout: help, ...said } = await runCommand(['--help'])
    expect(said).to.deep.equal({ exitCode: 0, stderr: '' })
    expect((await runCommand([])).exitCode).to.equal(2)
    expect((await runCommand(['--version'])).stdout).to.equal(`${VERSION}\n`)
    for (const name of ['dev', 'doctor', 'explain', 'grants', 'init', 'keys', 'verify-audit']) {
      const { exitCode, stdout } = await runCommand([name, '--help'])
      expect(exitCode, name).to.equal(0)
      expect(stdout).to.match(new RegExp(`^Usage: mcp-gatekit ${name} [^]*^Exit codes`, 'm'))
      expect((await runCommand([name, '-h'])).stdout).to.equal(stdout)
      expect(help).to.match(new RegExp(`^ {2}${name} `, 'm'))
    }
  })

  it('doctor --list prints the checks, each with a heading in docs/reference/doctor.md', async () => {
    const { stdout } = await runCommand(['doctor', '--list'])
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split(' ', 1)[0]),
    ).to.deep.equal(IDS)
    expect(new Set(IDS).size).to.equal(IDS.length)
    const page = readFileSync(
      fileURLToPath(new URL('../../../docs/reference/doctor.md', import.meta.url)),
      'utf8',
    )
    const headings = [...page.matchAll(/^### (\S+)$/gm)].map(([, heading]) => heading)
    expect(headings).to.deep.equal(IDS)
  })

  it('every check of doctor needs only checks that come before it', () => {
    const before = new Set<string>()
    for (const { id, needs, run } of CHECKS) {
      expect([...before]).to.include.members([...needs], id)
      expect(run, id).to.be.a('function')
      before.add(id)
    }
  })

  it('doctor prints a report, with colors only on a terminal', async () => {
    const { url } = await startTarget()
    const plain = await runCommand(['doctor', url.href])
    expect(plain.exitCode).to.equal(0)
    expect(plain.stderr).to.equal('')
    expect(plain.stdout).to.match(/^ {2}✓ Requests without a token get a 401 \(auth\.required\)\n {6}401$/m)
    expect(plain.stdout).to.match(/^\d+ passed, 0 warnings, 0 failures, \d+ skipped$/m)
    expect(plain.stdout).not.to.contain('\x1b')

    const colored = await runCommand(['doctor', url.href], { isTTY: true })
    expect(colored.stdout).to.contain('\x1b[32m✓\x1b[0m')
    expect(colored.stderr).to.contain('The server responds')
    expect(colored.stderr.endsWith('\r\x1b[2K')).to.equal(true)
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }])
      expect((await runCommand(['doctor', url.href], { isTTY: true, env })).stdout).not.to.contain('\x1b')
  })

  it('doctor --json prints only the JSON report, whatever it finds', async () => {
    const target = await startTarget()
    const broken = await listen((_req, res) => res.end())
    for (const [argv, exitCode] of [
      [[target.url.href], 0],
      [[`${broken.origin}/mcp`], 1],
      [['http://127.0.0.1:9/mcp', '--timeout', '2'], 1],
    ] as const) {
      const outcome = await runCommand(['doctor', ...argv, '--json'], { isTTY: true })
      expect(outcome).to.deep.include({ exitCode, stderr: '' })
      const report = REPORT.parse(JSON.parse(outcome.stdout))
      expect(report.checks.map(({ id }) => id)).to.deep.equal(IDS)
      for (const check of report.checks)
        expect(check.hint !== undefined, check.id).to.equal(
          check.status === 'warn' || check.status === 'fail',
        )
      for (const one of status.options)
        expect(report.summary[one]).to.equal(report.checks.filter((check) => check.status === one).length)
    }
  })

  it('doctor --ignore ignores a check, but still skips the checks that need it', async () => {
    const { url } = await startTarget({ issuerAnswer: () => ({ status: 404 }) })
    expect((await runCommand(['doctor', url.href])).exitCode).to.equal(1)
    const { exitCode, stdout } = await runCommand(['doctor', url.href, '--ignore', 'issuer.metadata'])
    expect(exitCode).to.equal(0)
    expect(stdout).to.contain('(issuer.metadata): ignored')
    expect(stdout).to.contain('(issuer.pkce): see issuer.metadata')
  })

  it('doctor never prints a token, even if the server sends it back', async () => {
    const { url, token, weakToken } = await startTarget({
      alter: (answer, { headers }) => {
        const given = headers.authorization?.slice('Bearer '.length)
        if (given === undefined) return
        // This server sends the token back in every place that doctor looks at.
        answer.headers['retry-after'] = given
        answer.headers['ratelimit-limit'] = encodeURIComponent(given)
        if (answer.headers['www-authenticate'] !== undefined)
          answer.headers['www-authenticate'] =
            `Bearer error="${given}", scope="${given}", resource_metadata="https://x.example/${given}"`
        answer.body = answer.body.replaceAll('greet', given)
      },
    })
    const env = { WEAK: weakToken, TOKEN: token }
    const secrets = [token, weakToken, ...token.split('.').slice(1), ...weakToken.split('.').slice(1)]
    for (const format of [[], ['--json']]) {
      const argv = ['doctor', `${url.href}?key=hunter2hunter2`, '--token-env', 'TOKEN', '--call', 'erase']
      const outcome = await runCommand([...argv, '--under-scoped-token-env', 'WEAK', ...format], { env })
      expect(outcome.stdout).to.contain('[secret]').and.to.contain('/mcp?…')
      expectNoSecret([outcome.stdout, outcome.stderr], [...secrets, 'hunter2hunter2'])
    }
  })

  it('doctor --login prints the sign-in URL on stderr, and reports a port that is in use', async () => {
    const { url, issuer } = await startTarget()
    const taken = await listen((_req, res) => res.end())
    const argv = ['doctor', url.href, '--login', '--client-id', 'me', '--json']
    const refused = await runCommand([...argv, '--redirect-port', String(taken.port)])
    expect(refused).to.deep.include({ exitCode: 0, stderr: '' })
    expect(refused.stdout).to.contain(`port ${taken.port} on 127.0.0.1 is not available`)

    const said: string[] = []
    const stdout = { write: (text: string) => said.push(text) }
    let visit: Promise<unknown> | undefined
    const stderr = {
      write: (text: string) => {
        const asked = new URL(/https?:\/\/\S+/.exec(text)?.[0] ?? '').searchParams
        expect(asked.get('code_challenge_method')).to.equal('S256')
        expect(asked.get('resource')).to.equal(url.href)
        const answer = new URLSearchParams({ error: 'access_denied', state: asked.get('state') ?? '' })
        visit = fetch(`${asked.get('redirect_uri')}?${answer}`)
      },
    }
    const env = { SECRET: 'hunter2hunter2' }
    const secret = ['--client-secret-env', 'SECRET', '--issuer', issuer]
    expect(await run([...argv, ...secret], { stdout, stderr, env })).to.equal(1)
    await visit
    expect(
      REPORT.parse(JSON.parse(said.join(''))).checks.find(({ id }) => id === 'token.login')?.seen,
    ).to.contain('access_denied')
  })

  describe('as a process', () => {
    it('doctor exits with 0 if no check fails, and does not print the token', async () => {
      const { url, token } = await startTarget()
      const outcome = await runProgram(['doctor', url.href, '--token', token, '--json'])
      expect(outcome).to.deep.include({ exitCode: 0, stderr: '' })
      expect(REPORT.parse(JSON.parse(outcome.stdout)).verdict).to.equal('ok')
      expectNoSecret([outcome.stdout, outcome.stderr], [token])
    })

    it('doctor trusts a private certificate authority that NODE_EXTRA_CA_CERTS names', async () => {
      const { key, cert } = selfSigned()
      const tls = createTlsServer({ key, cert }, (_req, res) => {
        res.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
      }).listen(0, '127.0.0.1')
      await once(tls, 'listening')
      const folder = await mkdtemp(join(tmpdir(), 'doctor-'))
      try {
        await writeFile(join(folder, 'ca.pem'), cert)
        const { port } = tls.address() as AddressInfo
        const { stdout } = await runProgram(['doctor', `https://127.0.0.1:${port}/mcp`, '--json'], {
          NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
        })
        const { checks } = REPORT.parse(JSON.parse(stdout))
        const tlsCheck = checks.find(({ id }) => id === 'server.tls')
        // The certificate is valid for one day only.
        expect(tlsCheck).to.include({ status: 'warn' })
        expect(tlsCheck?.seen).to.match(/^TLSv1\.3, certificate valid until \d{4}-/)
        expect(checks.find(({ id }) => id === 'auth.required')?.status).to.equal('ok')
        // A foreign Host header does not change the name that the certificate must have.
        expect(checks.find(({ id }) => id === 'host.foreign')?.seen).to.match(/^401/)
      } finally {
        tls.close()
        tls.closeAllConnections()
        await rm(folder, { recursive: true })
      }
    })
  })
})
