import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
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

  describe('2.x, in this project', () => onEveryNode(async () => root, '2.'))

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

    onEveryNode(async () => folder, '3.')
  })

  it('without OpenTelemetry, only the OTLP transport fails, and its error says how to install the packages', async () => {
    const folder = join(scratch, 'without')
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}')
    await run('npm', ['install', '--no-save', '--no-audit', '--no-fund', tarball], { cwd: folder })
    expect(existsSync(join(folder, 'node_modules', '@opentelemetry'))).to.equal(false)
    for (const [encoding, exporter] of [
      ['json', 'exporter-logs-otlp-http'],
      ['protobuf', 'exporter-logs-otlp-proto'],
    ] as const) {
      const program = `
        import { InMemoryTransportAdapter, KitTelemetry, OtlpTransportAdapter } from 'mcp-gatekit'
        const kept = InMemoryTransportAdapter.create()
        const telemetry = KitTelemetry.create().withLogger(false).withSampling({ infoRate: 1 })
          .addTransport(OtlpTransportAdapter.create({ url: 'http://127.0.0.1:4318', encoding: '${encoding}' }))
          .addTransport(kept)
          .build()
        telemetry.emit('before')
        await telemetry.flush()
        telemetry.emit('after')
        await telemetry.shutdown()
        const [otlp, memory] = telemetry.stats().transports
        const { code, message } = otlp.lastError
        console.log(JSON.stringify({ failed: otlp.failed, delivered: memory.delivered, code, message }))`
      const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', program], {
        cwd: folder,
      })
      expect(stderr).to.equal('')
      const { message, ...rest } = JSON.parse(stdout)
      expect(rest).to.deep.equal({ failed: 2, delivered: 2, code: 'TELEMETRY_TRANSPORT_INIT_FAILED' })
      expect(message).to.match(
        new RegExp(
          `Run npm install ([\\w/@-]+ )*@opentelemetry/${exporter}\\. If the application is bundled`,
        ),
      )
    }
  })
})

/** Runs the program in a folder on every supported line of Node. */
function onEveryNode(folder: () => Promise<string>, sdkLine: string): void {
  for (const line of ['20', '22', '24']) {
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
