import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { pack } from '../support/packed.ts'
import type { ProgramReport } from './otel-program.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../', import.meta.url))
const tsc = join(root, 'node_modules', '.bin', 'tsc')

/** The files of `otel-program`, relative to `test/`. */
const PROGRAM = ['full/otel-program', 'support/free-port', 'support/otlp-receiver', 'support/otlp-protobuf']

describe('OTLP on both lines of OpenTelemetry', () => {
  let scratch: string
  let tarball: string

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'otel-lines-'))
    tarball = (await pack(scratch)).tarball
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  describe('2.x, in this project', () => onNode(['24'], async () => root, '2.'))

  describe('3.x, with the packed package', () => {
    let folder: string

    before(async () => {
      folder = join(scratch, '3x')
      await cp(join(root, 'test', 'otel-3x'), folder, { recursive: true })
      await mkdir(join(folder, 'build'))
      for (const file of PROGRAM) {
        await cp(join(root, 'build', 'test', `${file}.js`), join(folder, 'build', 'test', `${file}.js`))
      }
    })

    it('OpenTelemetry 3.x installs from its lock file, and the package installs with it without a conflict of peers', async () => {
      // On Node 20, npm warns about `engines` that require 22.15 or later, but installs the packages.
      await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder })
      const options = ['--no-save', '--strict-peer-deps', '--no-audit', '--no-fund']
      await run('npm', ['install', ...options, tarball], { cwd: folder })
    })

    it('the types of the package compile with OpenTelemetry 3.x', async () => {
      for (const file of PROGRAM) {
        await cp(join(root, 'test', `${file}.ts`), join(folder, 'test', `${file}.ts`))
      }
      const compilerOptions = {
        target: 'es2023',
        module: 'nodenext',
        strict: true,
        exactOptionalPropertyTypes: true,
        allowImportingTsExtensions: true,
        skipLibCheck: true,
        noEmit: true,
        typeRoots: [join(root, 'node_modules', '@types')],
        types: ['node'],
      }
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['test'] }))
      const { stdout } = await run(tsc, ['-p', folder]).catch((error) => error)
      expect(stdout).to.equal('')
    })

    onNode(['20', '24'], async () => folder, '3.')
  })
})

/** Runs the program in a folder on some lines of Node. The other tests of OTLP run with OpenTelemetry 2.x on Node 20. */
function onNode(lines: readonly string[], folder: () => Promise<string>, sdkLine: string): void {
  for (const line of lines) {
    it(`the OTLP transport passes every check with OpenTelemetry ${sdkLine}x on Node ${line}`, async () => {
      const program = join(await folder(), 'build', 'test', 'full', 'otel-program.js')
      const { stdout, stderr } = await run(await nodeOf(line), [program], { cwd: await folder() })
      const report: ProgramReport = JSON.parse(stdout)
      expect(report.node.split('.')[0]).to.equal(line)
      expect(report.sdk.slice(0, sdkLine.length)).to.equal(sdkLine)
      expect(report.checks).to.have.length.greaterThan(6)
      expect(stderr).to.equal('')
    })
  }
}

/** Returns the binary of a line of Node: the current one, or that of the npm package. */
async function nodeOf(line: string): Promise<string> {
  if (process.versions.node.split('.')[0] === line) return process.execPath
  const { stdout } = await run('npx', [
    '--yes',
    '--package',
    `node@${line}`,
    '--',
    'node',
    '-p',
    'process.execPath',
  ])
  return stdout.trim()
}
