import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { VERSION } from '../../src/base/version.ts'
import { itRejects, runCommand, runProgram } from '../support/cli/run-command.ts'
import { AUDIT_SECRET, auditedLines } from '../support/telemetry/audit.ts'

const verifyAudit = (argv: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  runCommand(['verify-audit', ...argv], { env })

describe('mcp-gatekit verify-audit', () => {
  const env = { AUDIT_SECRET, SHORT: 'hunter2', EMPTY: '' }
  let folder: string
  let log: string
  let lines: string[]

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'verify-audit-'))
    log = join(folder, 'audit.log')
    lines = await auditedLines((manager) => {
      for (const name of ['a.1', 'a.2', 'a.3']) manager.emit(name, { attributes: { text: 'naïve 😀' } })
    })
    await writeFile(log, `${lines.join('\n')}\n`)
  })
  after(() => rm(folder, { recursive: true, force: true }))

  const written = async (name: string, content: string | Uint8Array): Promise<string> => {
    const path = join(folder, name)
    await writeFile(path, content)
    return path
  }

  itRejects(
    ['verify-audit'],
    [
      [[], 'the file of the audit log is missing'],
      [[''], 'the file of the audit log is missing'],
      [['a', 'b'], 'expected exactly one file'],
      [['a'], 'the secret is missing. Use --secret-env or --secret-file'],
      [['a', '--secret', 'hunter2'], 'unknown option --secret'],
      [['a', '--secret-env'], '--secret-env requires a value'],
      [
        ['a', '--secret-env', 'hunter2'],
        '--secret-env must be the name of an environment variable that is set',
      ],
      [
        ['a', '--secret-env', 'EMPTY'],
        '--secret-env must be the name of an environment variable that is set',
      ],
      [
        ['a', '--secret-env', 'toString'],
        '--secret-env must be the name of an environment variable that is set',
      ],
      [['a', '--secret-env', 'SHORT'], 'the secret must have at least 32 bytes'],
      [['a', '--secret-file', '/hunter2/x'], '--secret-file must be a file that can be read (ENOENT)'],
      [['a', '--secret-env', 'x', '--secret-file', 'y'], 'use only one of --secret-env and --secret-file'],
      [['/hunter2/x', '--secret-env', 'AUDIT_SECRET'], 'the file of the audit log cannot be read (ENOENT)'],
      [['/', '--secret-env', 'AUDIT_SECRET'], 'the file of the audit log cannot be read (EISDIR)'],
      [['a', '--json=x'], '--json takes no value'],
    ],
    env,
  )

  it('exits with 0 for a valid log and prints the number of events', async () => {
    expect(await verifyAudit([log, '--secret-env', 'AUDIT_SECRET'], env)).to.deep.equal({
      exitCode: 0,
      stdout: 'valid: 3 events\n',
      stderr: '',
    })
  })

  it('exits with 1 for a broken log and prints the first break', async () => {
    const broken = await written('broken.log', lines.toSpliced(2, 1).join('\n'))
    expect(await verifyAudit([broken, '--secret-env', 'AUDIT_SECRET'], env)).to.deep.equal({
      exitCode: 1,
      stdout:
        'invalid: 1 event verified before the first break\nsequence number 2: line 3: the line with the sequence number 2 is missing before 3.\n',
      stderr: '',
    })
  })

  it('prints the result as JSON with --json', async () => {
    const report = { schema: 1, tool: 'mcp-gatekit verify-audit', version: VERSION }
    const valid = await verifyAudit([log, '--secret-env', 'AUDIT_SECRET', '--json'], env)
    expect(valid.exitCode).to.equal(0)
    expect(JSON.parse(valid.stdout)).to.deep.equal({ ...report, valid: true, events: 3 })
    const cut = await written('cut.log', lines.slice(0, 3).join('\n'))
    const invalid = await verifyAudit([cut, '--secret-env', 'AUDIT_SECRET', '--json'], env)
    expect(invalid.exitCode).to.equal(1)
    const { firstBreak, ...rest } = JSON.parse(invalid.stdout)
    expect(rest).to.deep.equal({ ...report, valid: false, events: 2 })
    expect(firstBreak.seq).to.equal(3)
    expect(Object.keys(firstBreak)).to.deep.equal(['seq', 'reason'])
  })

  for (const [what, content] of [
    ['without a line break', AUDIT_SECRET],
    ['with a line break', `${AUDIT_SECRET}\n`],
    ['with a line break of Windows', `${AUDIT_SECRET}\r\n`],
  ] as const) {
    it(`reads a secret ${what} from a file`, async () => {
      const secret = await written('secret', content)
      expect((await verifyAudit([log, '--secret-file', secret])).exitCode).to.equal(0)
    })
  }

  it('reads a secret that ends in a space from a file, and removes only the line break', async () => {
    const spaced = `${AUDIT_SECRET} `
    const audit = await auditedLines((manager) => manager.emit('a.b'), spaced)
    const audited = await written('spaced.log', audit.join('\n'))
    const secret = await written('spaced', `${spaced}\n`)
    expect((await verifyAudit([audited, '--secret-file', secret])).exitCode).to.equal(0)
  })

  it('reads a secret of bytes that end in a line break from a file', async () => {
    const secret = await written('secret.bin', Buffer.concat([Buffer.alloc(31, 0xff), Buffer.from('\n')]))
    const { exitCode, stdout } = await verifyAudit([log, '--secret-file', secret])
    expect({ exitCode, reason: stdout.includes('the MAC is wrong') }).to.deep.equal({
      exitCode: 1,
      reason: true,
    })
  })

  it('the line break of a short secret does not make it long enough', async () => {
    const secret = await written('short', `${AUDIT_SECRET.slice(1)}\n`)
    expect((await verifyAudit([log, '--secret-file', secret])).exitCode).to.equal(2)
  })

  it('as a program, reads the standard input with - and prints the same', async () => {
    const argv = ['-', '--secret-env', 'AUDIT_SECRET']
    expect(await runProgram(['verify-audit', ...argv], env, lines.join('\r\n'))).to.deep.equal({
      exitCode: 0,
      stdout: 'valid: 3 events\n',
      stderr: '',
    })
  })
})
