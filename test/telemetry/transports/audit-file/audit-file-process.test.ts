import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { auditFile, verifyAudit } from '../../../../src/telemetry/index.ts'
import { skipIf } from '../../../support/skip.ts'
import { AUDIT_SECRET, auditBuilder } from '../../../support/telemetry/audit.ts'

const PROGRAM = fileURLToPath(new URL('./writer.program.js', import.meta.url))
const hasProgram = (name: string): boolean => spawnSync(name, ['--version']).status === 0
const linesOf = (file: string): string[] => readFileSync(file, 'utf8').split('\n').slice(0, -1)
const verify = (file: string) => verifyAudit([readFileSync(file)], AUDIT_SECRET)

describe('auditFile in several processes', function () {
  this.timeout(60_000)

  let folder: string
  let path: string
  const children: ChildProcess[] = []
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'audit-file-'))
    path = join(folder, 'audit.log')
  })
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })

  /** Starts a process that writes an audit log. */
  function startWriter(args: readonly string[], prefix: readonly string[] = []) {
    const [command = '', ...rest] = [...prefix, process.execPath, PROGRAM, ...args]
    const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const lines = createInterface(child.stdout)
    const output: string[] = []
    lines.on('line', (line) => output.push(line))
    return { child, output, next: () => once(lines, 'line'), ended: once(child, 'close') }
  }

  it('while a limit of the file size is reached, events wait, and nothing is lost when it is raised', async function () {
    skipIf(this, hasProgram('prlimit') ? undefined : 'prlimit is not installed')
    const writer = startWriter([path, '100', '300'], ['prlimit', '--fsize=20000:unlimited'])
    const [failed] = await writer.next()
    expect(failed).to.contain('failed TELEMETRY_TRANSPORT_FAILED')
    for (const line of linesOf(path)) JSON.parse(line)
    execFileSync('prlimit', ['--pid', String(writer.child.pid), '--fsize=unlimited'])
    await writer.ended
    expect(writer.output.at(-1)).to.contain('"delivered":102,"failed":0,"dropped":0,"pending":0')
    expect(await verify(path)).to.deep.equal({ valid: true, events: 100 })
  })

  it('while the disk is full, events wait, and nothing is lost when it has space again', async function () {
    const disk = join(folder, 'disk')
    execFileSync('mkdir', [disk])
    const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', disk])
    skipIf(this, status === 0 ? undefined : 'this process may not mount a tmpfs')
    try {
      writeFileSync(join(disk, 'ballast'), 'x'.repeat(40_000))
      const writer = startWriter([join(disk, 'audit.log'), '60', '300'])
      const [failed] = await writer.next()
      expect(failed).to.contain('failed TELEMETRY_TRANSPORT_FAILED')
      for (const line of linesOf(join(disk, 'audit.log'))) JSON.parse(line)
      rmSync(join(disk, 'ballast'))
      await writer.ended
      expect(writer.output.at(-1)).to.contain('"delivered":62,"failed":0,"dropped":0,"pending":0')
      expect(await verify(join(disk, 'audit.log'))).to.deep.equal({ valid: true, events: 60 })
    } finally {
      execFileSync('umount', ['-l', disk])
    }
  })

  it('a process that is killed while it writes leaves a log to which the next one can append', async () => {
    const sizeNow = () => (existsSync(path) ? statSync(path).size : 0)
    for (let time = 0; time < 2; time++) {
      const before = sizeNow()
      const { child, ended } = startWriter([path, '400', '5000'])
      while (sizeNow() < before + 50_000) await new Promise(setImmediate)
      child.kill('SIGKILL')
      await ended
    }
    await auditBuilder(auditFile(path)).build().shutdown()
    const names = linesOf(path).map((line) => JSON.parse(line).name as string)
    expect(names.filter((name) => name === 'kit.audit.opened')).to.have.length(3)
    expect((await verify(path)).firstBreak?.reason).to.contain('closing line')
  })

  it('two processes that append to one file at the same time write whole lines, and the log verifies', async () => {
    const writers = [startWriter([path, '200', '6000']), startWriter([path, '200', '6000'])]
    await Promise.all(writers.map(({ ended }) => ended))
    expect(await verify(path)).to.deep.equal({ valid: true, events: 400 })
  })
})
