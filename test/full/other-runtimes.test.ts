import { expect } from 'chai'
import {
  expectChallenge,
  expectGreetings,
  expectPreflights,
  expectStreamsToClose,
  type OpenedStream,
  openStream,
  statusFor,
} from '../frameworks/expect-protected.ts'
import { filesOf } from '../frameworks/page-programs.ts'
import { type RunningProgram, startProgram } from '../frameworks/running-program.ts'
import { installRuntimes, type Runtimes } from '../support/runtimes.ts'

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

const RUNTIMES = ['bun', 'deno'] as const
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

/** A program that runs, and its stream, which began with it. */
interface Running {
  readonly server: RunningProgram
  readonly stream: Promise<OpenedStream>
}

describe('the programs for Bun and Deno', function () {
  this.timeout(600_000)

  let runtimes: Runtimes
  const running = new Map<string, Promise<Running>>()

  before(async () => {
    runtimes = await installRuntimes()
    for (const { page, folder: name, commands } of PROGRAMS) {
      const folder = await runtimes.makeFolder(name, Object.fromEntries(await filesOf(page)))
      for (const runtime of RUNTIMES) {
        const begun = startProgram(runtimes.binary(runtime), commands[runtime] ?? [], folder).then(
          (server): Running => ({ server, stream: openStream(server, STREAM_MS) }),
        )
        begun.then(({ stream }) => stream).catch(() => undefined)
        running.set(`${page} ${runtime}`, begun)
      }
    }
  })
  after(async () => {
    for (const one of await Promise.allSettled(running.values()))
      if (one.status === 'fulfilled') await one.value.server.stop()
  })

  for (const runtime of RUNTIMES)
    for (const { page, rebound } of PROGRAMS) {
      describe(`${page} on ${runtime}`, () => {
        let server: RunningProgram
        let stream: Promise<OpenedStream>

        before(async function () {
          runtimes.skipIfMissing(this, runtime)
          const begun = (await running.get(`${page} ${runtime}`)) as Running
          server = begun.server
          stream = begun.stream
        })

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
          const { status, type, chunks } = await stream
          expect(status).to.equal(200)
          expect(type).to.match(/^text\/event-stream/)
          expect(chunks.join('').match(/: keep-alive/g)).to.have.length.above(1)
        })
      })
    }
})
