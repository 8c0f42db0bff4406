import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { skipIf } from '../../support/skip.ts'
import { AUDIT_SECRET, auditedLines } from '../../support/telemetry/audit.ts'

const page = readFileSync(fileURLToPath(new URL('../../../../docs/guides/audit.md', import.meta.url)), 'utf8')
const [, source = ''] = /^```python\n([\s\S]*?)^```$/m.exec(page) ?? []

/** Reads lines and writes their JSON with sorted members, indentation removed, and other escapes. */
const REWRITE = `import json, sys
for line in open(sys.argv[1], encoding='utf-8'):
    print(json.dumps(json.loads(line), sort_keys=True, ensure_ascii=True))
`

describe('the verifier in Python of docs/guides/audit.md', () => {
  let folder: string
  let lines: string[]

  before(async function () {
    skipIf(this, spawnSync('python3', ['--version']).status === 0 ? undefined : 'python3 is not installed')
    folder = await mkdtemp(join(tmpdir(), 'audit-python-'))
    await writeFile(join(folder, 'verify.py'), source)
    await writeFile(join(folder, 'rewrite.py'), REWRITE)
    const one = await auditedLines((manager) => {
      const numbers = [0, -0, 1, -1.5, 0.1, 1e21, 1e-7, 2 ** 53, 5e-324, 1.7976931348623157e308, 1 / 3]
      const texts = ['', '"\\/\b\f\n\r\t\u0000\u007f', 'é\u2028\ufeff\ue000', '😀\ud83d', '\udc00']
      manager.emit('a.1', {
        attributes: { numbers, texts, flags: [true, false, null], nested: { 'é😀': {}, '\ue000': [] } },
      })
      manager.emit('a.2', {
        error: new Error('failed'),
        actor: { type: 'user', id: 'u1', tags: { plan: 'pro' } },
      })
      manager.emit('a.3', { attributes: JSON.parse('{"__proto__":1,"constructor":{"":2}}') })
    })
    const two = await auditedLines((manager) => manager.emit('a.4'))
    lines = [...one.flatMap((line, index) => [line, ...two.slice(index, index + 1)])]
  })
  after(async () => {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  })

  /** Runs a program with a file of lines. */
  async function python(program: string, content: readonly string[], secret = AUDIT_SECRET) {
    await writeFile(join(folder, 'audit.log'), `${content.join('\n')}\n`)
    const child = spawn('python3', [join(folder, program), join(folder, 'audit.log')], {
      env: { ...process.env, AUDIT_SECRET: secret },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => {
        said[name] += text
      })
    const [exitCode] = await once(child, 'close')
    return { exitCode, ...said }
  }

  it('the program in Python has at most 30 lines', () => {
    expect(source.trim().split('\n')).to.have.length.within(15, 30)
  })

  it('the program in Python accepts a valid log of two chains', async () => {
    expect(await python('verify.py', lines)).to.deep.equal({ exitCode: 0, stdout: '', stderr: '' })
  })

  it('the program in Python and verifyAudit accept lines that Python has written again', async () => {
    const { stdout } = await python('rewrite.py', lines)
    const rewritten = stdout.trim().split('\n')
    expect(rewritten).to.have.length(lines.length).and.not.deep.equal(lines)
    expect((await python('verify.py', rewritten)).exitCode).to.equal(0)
    const { verifyAudit } = await import('../../../src/telemetry/index.ts')
    expect(await verifyAudit(rewritten, AUDIT_SECRET)).to.deep.equal({ valid: true, events: 4 })
  })

  for (const [what, change, message] of [
    ['a missing opening line', (all) => all.slice(1), 'break at sequence number 0'],
    ['a missing event', (all) => all.toSpliced(4, 1), 'break at sequence number 2'],
    [
      'a changed event',
      (all) => all.map((line) => line.replace('"pro"', '"team"')),
      'break at sequence number 2',
    ],
    ['a missing closing line', (all) => all.slice(0, -1), 'an opening or closing line is missing'],
    ['no line', () => [], 'an opening or closing line is missing'],
  ] satisfies readonly (readonly [string, (all: string[]) => string[], string])[]) {
    it(`the program in Python reports ${what}`, async () => {
      const { exitCode, stderr } = await python('verify.py', change(lines))
      expect({ exitCode, stderr }).to.deep.equal({ exitCode: 1, stderr: `${message}\n` })
    })
  }

  it('the program in Python reports the MACs of another secret', async () => {
    const { stderr } = await python('verify.py', lines, AUDIT_SECRET.toLowerCase())
    expect(stderr).to.equal('break at sequence number 0\n')
  })
})
