import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'chai'
import {
  expectChallenge,
  expectGreetings,
  expectPreflights,
  expectStreamsToClose,
  openStream,
  statusFor,
} from '../frameworks/expect-protected.ts'
import { filesOf } from '../frameworks/page-programs.ts'
import { type RunningProgram, startProgram } from '../frameworks/running-program.ts'
import { pack } from '../support/packed.ts'
import { skipIf } from '../support/skip.ts'

const run = promisify(execFile)

/** Longer than the time between two keep-alive comments. */
const STREAM_MS = 35_000

interface Program {
  readonly page: string
  /** The path of the folder, relative to the project. */
  readonly folder: string
  /** The command for each runtime, with `%PORT%` for the port. */
  readonly commands: Readonly<Record<string, readonly string[]>>
  readonly rebound: number
}

const RUNTIMES = ['bun', 'deno']
const PERMISSIONS = ['--allow-env', '--allow-net']
const PROGRAMS: readonly Program[] = [
  {
    page: 'other-runtimes.md',
    folder: 'web',
    commands: {
      bun: ['server.ts'],
      deno: ['serve', '--host', '127.0.0.1', '--port', '%PORT%', ...PERMISSIONS, 'server.ts'],
    },
    rebound: 403,
  },
  {
    page: 'frameworks.md#Express',
    folder: 'express',
    commands: { bun: ['server.ts'], deno: ['run', ...PERMISSIONS, 'server.ts'] },
    rebound: 403,
  },
]

describe('the programs for Bun and Deno', function () {
  this.timeout(600_000)

  let folder: string
  /** The reason why a runtime cannot be used, by its name. */
  const missing = new Map<string, string>()
  const binary = (runtime: string) => join(folder, 'node_modules', '.bin', runtime)

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'runtimes-'))
    const { tarball } = await pack(folder)
    await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
    for (const { page, folder: name } of PROGRAMS) {
      await mkdir(join(folder, name))
      for (const [path, code] of await filesOf(page)) await writeFile(join(folder, name, path), code)
    }
    const install = (...packages: string[]) =>
      run('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: folder })
    await install(tarball, '@modelcontextprotocol/server@2', 'express@5', 'zod@4')
    for (const [runtime, version] of [
      ['bun', 'bun@1'],
      ['deno', 'deno@2'],
    ] as const) {
      try {
        await install(version)
        const { stdout } = await run(binary(runtime), ['--version'])
        console.log(`    ${runtime} ${stdout.split('\n', 1)[0]?.replace(/^\D+/, '')}`)
      } catch (error) {
        missing.set(runtime, (error as Error).message.split('\n', 1)[0] as string)
      }
    }
  })
  after(() => rm(folder, { recursive: true, force: true }))

  for (const runtime of RUNTIMES)
    for (const { page, folder: name, commands, rebound } of PROGRAMS) {
      describe(`${page} on ${runtime}`, () => {
        let server: RunningProgram

        before(async function () {
          const reason = missing.get(runtime)
          if (reason !== undefined) skipIf(this, `${runtime} cannot be installed: ${reason}`)
          server = await startProgram(binary(runtime), commands[runtime] ?? [], join(folder, name))
        })
        after(() => server?.stop())

        it(`a client that has a token calls a tool of ${page} on ${runtime}`, () => expectGreetings(server))

        it(`a request without a token to ${page} on ${runtime} gets a challenge that names the document`, () =>
          expectChallenge(server))

        it(`a page of another origin may call ${page} on ${runtime}`, () => expectPreflights(server))

        it(`a request with a foreign Host to ${page} on ${runtime} is rejected`, async () => {
          expect(await statusFor(server.origin, 'attacker.example')).to.equal(rebound)
        })

        it(`an event stream of ${page} on ${runtime} ends when its client disconnects`, () =>
          expectStreamsToClose(server))

        it(`an event stream of ${page} on ${runtime} stays open while nothing happens`, async () => {
          const { status, type, chunks } = await openStream(server, STREAM_MS)
          expect(status).to.equal(200)
          expect(type).to.match(/^text\/event-stream/)
          expect(chunks.join('').match(/: keep-alive/g)).to.have.length.above(1)
        })
      })
    }
})
