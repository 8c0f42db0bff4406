import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { until } from '../support/until.ts'
import {
  expectChallenge,
  expectGreetings,
  expectPreflights,
  expectStreamsToClose,
  openStream,
  statusFor,
} from './expect-protected.ts'
import { createProject, type PageProject, type ProjectOptions } from './page-programs.ts'
import { type RunningProgram, startProgram } from './running-program.ts'

interface Framework {
  readonly name: string
  readonly page: string
  readonly project?: ProjectOptions
  start(project: PageProject): Promise<RunningProgram>
  /** The status of a request without a token to `/mcp/`. */
  readonly trailingSlash: number
  /** The status of a GET with a token. Defaults to 200, an event stream. */
  readonly get?: number
  /** The status of a request with the `Host` of a site that points its name at 127.0.0.1. */
  readonly rebound: number
  /** Set if the program has the route `/health`. */
  readonly health?: true
}

/** Starts node with a file of the project, or with a script of this folder that loads files of the project. */
const startNode =
  (files: readonly string[], script?: string, options: readonly string[] = []) =>
  (project: PageProject): Promise<RunningProgram> => {
    const scripts = script === undefined ? [] : [fileURLToPath(new URL(script, import.meta.url))]
    return startProgram(process.execPath, [...scripts, ...files.map(project.compiled), ...options])
  }

const NEXT_FILES = ['app/mcp/route.ts', 'app/.well-known/oauth-protected-resource/[[...path]]/route.ts']

/** Decorators as the projects of NestJS compile them. */
const NEST = { experimentalDecorators: true, emitDecoratorMetadata: true }

const EXPRESS = { page: 'frameworks.md#Express', start: startNode(['server.ts']), health: true } as const
const NEST_JS = { page: 'frameworks.md#NestJS', start: startNode(['src/main.ts']) } as const
const LAMBDA = { page: 'frameworks.md#AWS Lambda', trailingSlash: 401, get: 405, rebound: 403 } as const

const FRAMEWORKS: readonly Framework[] = [
  { name: 'Express 5', ...EXPRESS, trailingSlash: 401, rebound: 403 },
  {
    name: 'Express 4',
    ...EXPRESS,
    project: { packages: { express: 'express4' } },
    trailingSlash: 401,
    rebound: 403,
  },
  {
    name: 'Hono',
    page: 'frameworks.md#Hono',
    start: startNode(['server.ts']),
    trailingSlash: 404,
    rebound: 403,
    health: true,
  },
  {
    name: 'Fastify',
    page: 'frameworks.md#Fastify',
    start: startNode(['server.ts']),
    trailingSlash: 401,
    rebound: 403,
    health: true,
  },
  {
    name: 'node:http',
    page: 'frameworks.md#node:http',
    start: startNode(['server.ts']),
    trailingSlash: 401,
    rebound: 403,
    health: true,
  },
  {
    name: 'NestJS',
    ...NEST_JS,
    project: { compilerOptions: NEST },
    trailingSlash: 401,
    rebound: 403,
  },
  {
    name: 'NestJS in CommonJS',
    ...NEST_JS,
    project: { type: 'commonjs', compilerOptions: NEST },
    trailingSlash: 401,
    rebound: 403,
  },
  {
    name: 'the route handlers of Next.js',
    page: 'frameworks.md#Next.js',
    start: startNode(NEXT_FILES, 'serve-route-handlers.js'),
    trailingSlash: 308,
    rebound: 403,
  },
  { name: 'AWS Lambda', ...LAMBDA, start: startNode(['index.ts'], 'serve-lambda.js') },
  {
    name: 'AWS Lambda with bodies in base64',
    ...LAMBDA,
    start: startNode(['index.ts'], 'serve-lambda.js', ['--base64']),
  },
]

describe('the programs of the framework pages', function () {
  this.timeout(60_000)

  for (const {
    name,
    page,
    project: options,
    start,
    trailingSlash,
    get = 200,
    rebound,
    health,
  } of FRAMEWORKS) {
    describe(name, () => {
      let project: PageProject | undefined
      let server: RunningProgram

      before(async () => {
        project = await createProject(page, options)
        server = await start(project)
      })
      after(async () => {
        await server?.stop()
        await project?.remove()
      })

      it(`a client that has a token calls a tool on ${name}`, () => expectGreetings(server))

      it(`a request without a token to ${name} gets a challenge that names the metadata document`, () =>
        expectChallenge(server))

      it(`a page of another origin may call ${name}`, () => expectPreflights(server))

      it(`slashes, streams, foreign hosts, and other paths are handled on ${name} as its page describes`, async () => {
        const { origin } = server
        const slash = await fetch(`${origin}/mcp/`, { method: 'POST', redirect: 'manual' })
        expect(slash.status, 'a trailing slash').to.equal(trailingSlash)
        const stream = await openStream(server)
        expect(stream.status, 'an event stream').to.equal(get)
        if (get === 200) expect(stream.type).to.match(/^text\/event-stream/)
        expect(await statusFor(origin, 'attacker.example'), 'a foreign Host').to.equal(rebound)
        expect((await fetch(`${origin}/unknown`)).status, 'another path').to.equal(get === 405 ? 405 : 404)
        if (health) expect(await (await fetch(`${origin}/health`)).json()).to.deep.equal({ status: 'ok' })
      })

      if (get === 200)
        it(`an event stream of ${name} ends when its client disconnects`, () => expectStreamsToClose(server))

      if (name === 'Fastify')
        it('the logger of Fastify writes the status of a request that mcpServer rejects', async () => {
          await fetch(`${server.origin}/mcp`, { method: 'POST' })
          await until(() => /"statusCode":401\}.*"msg":"request completed"/.test(server.output()))
        })
    })
  }
})
