import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
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
import { createProject, filesOf, type PageProject } from '../frameworks/page-programs.ts'
import { type RunningProgram, startProgram } from '../frameworks/running-program.ts'
import { MODERN } from '../support/mcp/wire.ts'
import { pack } from '../support/packed.ts'

const run = promisify(execFile)

describe('the page about Next.js, built by Next.js', function () {
  this.timeout(600_000)

  const LAYOUT = `import type { ReactNode } from 'react'
export default function Layout({ children }: { children: ReactNode }) {
  return <html lang="en"><body>{children}</body></html>
}
`
  /** The configuration that create-next-app writes. */
  const TSCONFIG = {
    compilerOptions: {
      target: 'ES2017',
      lib: ['dom', 'dom.iterable', 'esnext'],
      allowJs: true,
      skipLibCheck: true,
      strict: true,
      noEmit: true,
      esModuleInterop: true,
      module: 'esnext',
      moduleResolution: 'bundler',
      resolveJsonModule: true,
      isolatedModules: true,
      jsx: 'react-jsx',
      incremental: true,
      plugins: [{ name: 'next' }],
      paths: { '@/*': ['./*'] },
    },
    include: ['next-env.d.ts', '**/*.ts', '**/*.tsx', '.next/types/**/*.ts', '.next/dev/types/**/*.ts'],
    exclude: ['node_modules'],
  }
  const PACKAGES = ['@modelcontextprotocol/server@2', 'next@16', 'react@19', 'react-dom@19', 'zod@4']
  const TYPES = ['typescript@5', '@types/node@20', '@types/react@19']

  let folder: string | undefined
  let server: RunningProgram | undefined

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'next-'))
    const { tarball } = await pack(folder)
    const files = new Map([
      ...(await filesOf('frameworks.md#Next.js')),
      ['app/layout.tsx', LAYOUT],
      ['tsconfig.json', JSON.stringify(TSCONFIG)],
      ['package.json', JSON.stringify({ name: 'greetings', private: true })],
    ])
    for (const [path, text] of files) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), text)
    }
    const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1' }
    const options = { cwd: folder, env }
    await run(
      'npm',
      ['install', '--ignore-scripts', '--no-audit', '--no-fund', tarball, ...PACKAGES, ...TYPES],
      options,
    )
    const next = join(folder, 'node_modules', 'next', 'dist', 'bin', 'next')
    await run(process.execPath, [next, 'build'], options).catch(({ stdout, stderr }) => {
      throw new Error(`next build failed: ${stdout}${stderr}`)
    })
    server = await startProgram(process.execPath, [next, 'start', '--hostname', '127.0.0.1'], folder)
  })
  after(async () => {
    await server?.stop()
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  })

  const running = (): RunningProgram => server as RunningProgram

  it('a client that has a token calls a tool on Next.js', () => expectGreetings(running()))

  it('a request without a token to Next.js gets a challenge that names the metadata document', () =>
    expectChallenge(running()))

  it('a page of another origin may call Next.js', () => expectPreflights(running()))

  it('an event stream of Next.js opens before it ends', async () => {
    const { status, type } = await openStream(running())
    expect(status).to.equal(200)
    expect(type).to.match(/^text\/event-stream/)
  })

  it('an event stream of Next.js ends when its client disconnects', () => expectStreamsToClose(running()))

  it('a request with a foreign Host is rejected on Next.js', async () => {
    expect(await statusFor(running().origin, 'attacker.example')).to.equal(403)
  })

  it('a path with a trailing slash is redirected by Next.js', async () => {
    const { origin } = running()
    const { status, headers } = await fetch(`${origin}/mcp/`, { method: 'POST', redirect: 'manual' })
    expect(status).to.equal(308)
    expect(new URL(headers.get('location') ?? '', origin).href).to.equal(`${origin}/mcp`)
  })
})

describe('the page about AWS Lambda, over the longest time of a call', function () {
  this.timeout(60_000)

  let project: PageProject | undefined
  let server: RunningProgram | undefined

  before(async () => {
    project = await createProject('frameworks.md#AWS Lambda')
    const script = fileURLToPath(new URL('../frameworks/serve-lambda.js', import.meta.url))
    server = await startProgram(process.execPath, [script, project.compiled('index.ts')])
  })
  after(async () => {
    await server?.stop()
    await project?.remove()
  })

  it('a subscription on AWS Lambda ends before API Gateway stops waiting', async () => {
    const { origin, issuer } = server as RunningProgram
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    const started = performance.now()
    const response = await fetch(`${origin}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': MODERN,
        'mcp-method': 'subscriptions/listen',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: {
          notifications: { toolsListChanged: true },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': MODERN,
            'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    })
    expect(response.status).to.equal(200)
    expect(await response.text()).to.include('notifications/subscriptions/acknowledged')
    expect(performance.now() - started).to.be.within(20_000, 30_000)
  })
})
