import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify, stripVTControlCharacters } from 'node:util'
import { CONFORMANCE_RUNS, runConformanceSuite } from '../support/mcp/conformance.ts'
import { pack } from '../support/packed.ts'
import { skipIf } from '../support/skip.ts'
import type { ServedForConformance } from './newest-sdk-program.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../', import.meta.url))

const SDK = '@modelcontextprotocol/server'
/** The packages of the SDK that are released together, with the same version. */
const RELEASED_TOGETHER = [SDK, '@modelcontextprotocol/client']

/** The files of the program, relative to `test/`. */
const PROGRAM = [
  'conformance/everything',
  'conformance/token-proxy',
  'full/newest-sdk-program',
  'support/mcp/conformance',
  'support/mcp/wire',
]
/** The modules of `src/` that these files import. In the packed package, the main entry exports all of them. */
const IMPORTED = /(?:from|import) '(?:\.\.\/)+(src\/[\w/-]+\.js)'/g

/** The tests that compare the fast path with the SDK, and the clients of the SDK with the server. */
const TESTS = [
  'mcp/clients',
  'mcp/every-message',
  'mcp/function-router',
  'mcp/sdk/fast-path/fast-request',
  'mcp/sdk/fast-path/fast-request-classification',
  'mcp/sdk/fast-path/fast-transport',
]

/** The time for all tests. Those that have not ended by then are reported and skipped. */
const LIMIT_MS = 210_000
const TOO_LATE = `not complete after ${LIMIT_MS / 1_000} s`
/** The maximum number of characters of a failure that are printed. */
const MAX_FAILURE = 4_000

describe('the newest version of the SDK (results are printed; a failure is a skipped test, not a failed one)', function () {
  this.timeout(LIMIT_MS + 30_000)

  let folder: string | undefined
  let program: ChildProcess | undefined
  let served: readonly ServedForConformance[] = []
  let limit: AbortSignal

  before(async function () {
    const versions = await versionsOf()
    if ('problem' in versions) return skipIf(this, versions.problem)
    const { installed, wanted } = versions
    if (wanted === installed && process.env.MCP_SDK_VERSION === undefined)
      skipIf(this, `${SDK} ${installed} is installed, and is the newest version`)
    report(`${SDK} ${wanted}; ${installed} is installed.`)
    limit = AbortSignal.timeout(LIMIT_MS)
    folder = await mkdtemp(join(tmpdir(), 'newest-sdk-'))
    try {
      await install(folder, wanted, limit)
      program = spawn(
        process.execPath,
        [join(folder, 'suite', 'build', 'test', 'full', 'newest-sdk-program.js')],
        {
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      )
      served = await addressesOf(program)
    } catch (error) {
      skipIf(this, `The package does not start with ${wanted}.\n${failureOf(error)}`)
    }
  })
  after(async () => {
    if (program !== undefined && program.exitCode === null && program.signalCode === null) {
      const closed = once(program, 'close')
      program.kill('SIGKILL')
      await closed
    }
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  })

  for (const title of [
    'a server without a gate without sessions',
    'a server behind the gate without sessions',
    'a server without a gate with sessions',
    'a server behind the gate with sessions',
  ]) {
    for (const { revision, sessions, total, expectedFailures } of CONFORMANCE_RUNS) {
      if (title.endsWith(' with sessions') !== sessions) continue
      it(`${title} passes the suite for ${revision} with the newest SDK`, async function () {
        skipIf(this, limit.aborted ? TOO_LATE : undefined)
        const { url } = served.find((one) => one.title === title) as ServedForConformance
        const options = ['--requirements', revision]
        if (expectedFailures !== undefined)
          options.push('--expected-failures', join(root, 'test', 'conformance', expectedFailures))
        const { code, output } = await runConformanceSuite(url, options, limit)
        if (code === 0 && output.includes(total)) return
        const reason = limit.aborted ? TOO_LATE : `expected "${total}"`
        const failed = stripVTControlCharacters(output)
          .split('\n')
          .filter((line) => /^✗|^Total:/.test(line))
        skipIf(this, `${title}, ${revision}: ${reason}.\n${failed.join('\n') || output.slice(-MAX_FAILURE)}`)
      })
    }
  }

  for (const name of TESTS) {
    it(`test/${name}.test.ts passes with the newest SDK`, async function () {
      skipIf(this, limit.aborted ? TOO_LATE : undefined)
      const args = [
        join(root, 'node_modules', 'mocha', 'bin', 'mocha.js'),
        ...['--no-config', '--fail-zero', '--exit', '--timeout', '60000', '--reporter', 'dot'],
        join('build', 'test', `${name}.test.js`),
      ]
      try {
        await run(process.execPath, args, { cwd: join(folder as string, 'tests'), signal: limit })
      } catch (error) {
        skipIf(this, `test/${name}.test.ts has failed.\n${failureOf(error)}`)
      }
    })
  }
})

/** Returns the installed version, and the version to test: `MCP_SDK_VERSION`, or the newest one of the registry. */
async function versionsOf(): Promise<{ installed: string; wanted: string } | { problem: string }> {
  const { version: installed } = JSON.parse(
    await readFile(join(root, 'node_modules', SDK, 'package.json'), 'utf8'),
  )
  const version = process.env.MCP_SDK_VERSION ?? 'latest'
  try {
    const { stdout } = await run('npm', [
      'view',
      `${SDK}@${version}`,
      'version',
      '--json',
      '--loglevel=error',
    ])
    // A range has several versions.
    const wanted = [JSON.parse(stdout)].flat().at(-1)
    if (typeof wanted === 'string') return { installed, wanted }
    return { problem: `${SDK} does not have a version ${version}.` }
  } catch (error) {
    return { problem: `The newest version of ${SDK} is not known.\n${failureOf(error)}` }
  }
}

/** Installs the packed package and a version of the SDK in `folder`, and copies the program and the tests there. */
async function install(folder: string, version: string, signal: AbortSignal): Promise<void> {
  const { tarball } = await pack(folder)
  await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}')
  const { version: zod } = JSON.parse(
    await readFile(join(root, 'node_modules', 'zod', 'package.json'), 'utf8'),
  )
  const packages = [...RELEASED_TOGETHER.map((name) => `${name}@${version}`), `zod@${zod}`, tarball]
  // The version may be outside the range of the peer dependency.
  const options = ['--legacy-peer-deps', '--no-audit', '--no-fund', '--loglevel=error']
  await run('npm', ['install', ...options, ...packages], { cwd: folder, signal })
  await linkOthers(folder)
  for (const file of PROGRAM) {
    const path = join('build', 'test', `${file}.js`)
    await cp(join(root, path), join(folder, 'suite', path), { recursive: true })
    const source = await readFile(join(root, path), 'utf8')
    for (const [, module = ''] of source.matchAll(IMPORTED)) {
      const stub = join(folder, 'suite', 'build', module)
      await mkdir(dirname(stub), { recursive: true })
      await writeFile(stub, `export * from 'mcp-gatekit'\n`)
    }
  }
  for (const part of ['src', 'test', 'cli', 'examples'])
    await cp(join(root, 'build', part), join(folder, 'tests', 'build', part), { recursive: true })
}

/** Links the packages of this project that are not installed in `folder`. */
async function linkOthers(folder: string): Promise<void> {
  const modules = join(root, 'node_modules')
  const names = (await readdir(modules)).filter((name) => !name.startsWith('.'))
  for (const name of names) {
    const members = name.startsWith('@')
      ? (await readdir(join(modules, name))).map((member) => join(name, member))
      : [name]
    for (const member of members) {
      const target = join(folder, 'node_modules', member)
      if (existsSync(target)) continue
      await mkdir(dirname(target), { recursive: true })
      await symlink(join(modules, member), target)
    }
  }
}

/** Returns the addresses that the program prints. @throws with its error output if it ends before. */
async function addressesOf(child: ChildProcess): Promise<ServedForConformance[]> {
  const { stdout, stderr } = child
  if (stdout === null || stderr === null) throw new Error('The program does not have pipes')
  let errors = ''
  stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const ended = once(child, 'close').then(() => {
    throw new Error(errors)
  })
  const [line] = await Promise.race([once(createInterface({ input: stdout }), 'line'), ended])
  ended.catch(() => undefined)
  return JSON.parse(line)
}

/** Returns the end of the output of a failed command. */
function failureOf(error: unknown): string {
  const { stdout = '', stderr = '', message } = error as { stdout?: string; stderr?: string; message: string }
  return stripVTControlCharacters(`${stdout}${stderr}` || message).slice(-MAX_FAILURE)
}

function report(text: string): void {
  console.log(text.replaceAll(/^/gm, '    '))
}
