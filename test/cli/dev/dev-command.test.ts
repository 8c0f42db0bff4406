import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { Arguments, UsageError } from '../../../cli/command.ts'
import { devOptions, HELP } from '../../../cli/dev/command.ts'
import { startDev } from '../../../cli/dev/dev.ts'
import { nodeArguments, typescriptFlags } from '../../../cli/dev/server-process.ts'
import {
  type DevProgram,
  SAMPLE,
  startDevProgram,
  startSample,
  stopDevPrograms,
} from '../../support/cli/dev.ts'
import { startServerSentEvents } from '../../support/cli/events.ts'
import { itRejects, runCommand } from '../../support/cli/run-command.ts'
import { callTool } from '../../support/cli/sample.ts'
import { listen } from '../../support/listen.ts'
import { signalled } from '../../support/mcp/wire.ts'

/** An event of the console. */
interface SeenEvent {
  readonly name: string
  readonly attributes: object
  readonly request?: { readonly id: string }
}

/** The contents of elements of the page. */
type Seen = Readonly<Record<string, string | undefined>>

describe('the command line of dev', () => {
  const optionsOf = (...argv: string[]) => devOptions(new Arguments(HELP, argv, true))

  it('has defaults for everything except the file', () => {
    expect(optionsOf(SAMPLE)).to.deep.equal({
      file: SAMPLE,
      name: SAMPLE,
      serverArguments: [],
      port: { number: 4983, orAnother: true },
      authorization: { port: { number: 4984, orAnother: true }, tokenSeconds: 3600 },
      watch: false,
    })
  })

  it('passes the arguments after the file to the server', () => {
    const options = optionsOf(
      '--port=1',
      '--auth-port',
      '2',
      '--token-seconds',
      '3',
      '--watch',
      SAMPLE,
      '--port',
      '9',
      'x',
    )
    expect(options).to.deep.include({
      port: { number: 1, orAnother: false },
      authorization: { port: { number: 2, orAnother: false }, tokenSeconds: 3 },
      watch: true,
      serverArguments: ['--port', '9', 'x'],
    })
    expect(optionsOf('--no-auth', '--', SAMPLE, '--', '--help')).to.deep.include({
      authorization: undefined,
      serverArguments: ['--help'],
    })
  })

  itRejects(
    ['dev'],
    [
      [[], 'the file of your server is missing'],
      [['--watch'], 'the file of your server is missing'],
      [['nothing.js'], 'nothing.js is not a file'],
      [['.'], '. is not a file'],
      [['--prot', '1', SAMPLE], 'Did you mean --port?'],
      [['--nonsense', SAMPLE], 'unknown option --nonsense. Run the command with --help'],
      [['--watch=1', SAMPLE], '--watch takes no value'],
      [['--port'], '--port requires a value'],
      [['--port', '65536', SAMPLE], '--port must be a number'],
      [['--auth-port', 'x', SAMPLE], '--auth-port must be a number'],
      [['--token-seconds', '0', SAMPLE], '--token-seconds must be'],
      [['--token-seconds', '86401', SAMPLE], '--token-seconds must be'],
      [['--no-auth', '--auth-port', '1', SAMPLE], '--auth-port cannot be combined with --no-auth'],
    ],
  )

  it('reports a given port that is in use', async () => {
    const { port } = await listen((_req, res) => res.end())
    for (const option of ['--port', '--auth-port']) {
      const other = option === '--port' ? ['--auth-port', '0'] : ['--port', '0']
      const { exitCode, stderr } = await runCommand(['dev', option, String(port), ...other, SAMPLE])
      expect(exitCode).to.equal(2)
      expect(stderr).to.contain(`${option}: port ${port} on 127.0.0.1 is not available (EADDRINUSE)`)
    }
  })

  it('uses a free port if the default port is in use', async () => {
    const { port } = await listen((_req, res) => res.end())
    const options = { ...optionsOf('--no-auth', SAMPLE), port: { number: port, orAnother: true } }
    const dev = await startDev(options)
    expect(new URL(dev.url).port).not.to.equal(String(port))
    expect((await fetch(dev.url)).status).to.equal(200)
    await dev.close()
  })
})

describe('dev runs', () => {
  it('JavaScript with Node.js', () => {
    expect(nodeArguments('/a/server.js', false)).to.deep.equal(['/a/server.js'])
    expect(nodeArguments('/a/server.mjs', true)).to.deep.equal([
      '--watch',
      '--watch-preserve-output',
      '/a/server.mjs',
    ])
  })
  for (const [tsx, version, strips, flags] of [
    ['file:///tsx', '20.19.0', false, ['--import', 'file:///tsx']],
    ['file:///tsx', '24.1.0', true, ['--import', 'file:///tsx']],
    [undefined, '24.1.0', true, []],
    [undefined, '22.18.0', true, []],
    [undefined, '22.6.0', false, ['--experimental-strip-types', '--disable-warning=ExperimentalWarning']],
    [undefined, '23.1.0', false, ['--experimental-strip-types', '--disable-warning=ExperimentalWarning']],
  ] as const) {
    it(`TypeScript on Node.js ${version} ${tsx === undefined ? 'without' : 'with'} tsx`, () =>
      expect(typescriptFlags(tsx, version, strips)).to.deep.equal(flags))
  }
  for (const version of ['20.19.0', '22.5.1']) {
    it(`no TypeScript on Node.js ${version} without tsx`, () =>
      expect(() => typescriptFlags(undefined, version, false)).to.throw(
        UsageError,
        'npm install --save-dev tsx',
      ))
  }
})

describe('mcp-gatekit dev', function () {
  this.timeout(60_000)
  let folder: string
  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'dev-')))
  })
  after(() => rm(folder, { recursive: true }))
  afterEach(stopDevPrograms)

  /** Writes files into a project without installed packages. */
  async function project(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(join(folder, name, '..'), { recursive: true })
      await writeFile(join(folder, name), text)
    }
  }

  it('prints a curl command that calls a tool with a token of its authorization server', async () => {
    const { program, url } = await startSample()
    const pattern =
      /^curl '(\S+)' -H 'Authorization: (\S+ \S+)' -H 'Content-Type: (\S+)' -H 'Accept: ([^']+)' -d '(.*)'$/m
    const [, mcp = '', authorization = '', type = '', accept = '', body = ''] = await program.said(
      'stderr',
      pattern,
    )
    const stream = await startServerSentEvents(`${url}events`)
    const headers = { Authorization: authorization, 'Content-Type': type, Accept: accept }
    const response = await fetch(mcp, { method: 'POST', headers, body })
    expect(await response.text()).to.contain('"text":"Hello, Ada!"')
    // The request that listed the tools is not shown.
    const methods = new Set<unknown>()
    while (!methods.has('tools/call'))
      for (const { event } of (await stream.next('events')) as { event: SeenEvent }[])
        methods.add((event.attributes as Record<string, unknown>)['mcp.method.name'])
    expect(methods).not.to.contain('tools/list')
  })

  it('streams refused requests of a server that uses its authorization server, and exits on SIGTERM', async () => {
    const { program, url, origin, issuer } = await startSample()
    expect(program.stderr).to.contain(`authorization server  ${issuer}`)
    const metadata = await fetch(`${origin}/.well-known/oauth-protected-resource/mcp`)
    expect(await metadata.json()).to.deep.include({ authorization_servers: [issuer] })

    await program.said('stderr', /doctor http:\S+ --login/)
    expect(program.stderr)
      .to.contain(`MCP URL               ${origin}/mcp\n`)
      .and.to.contain(`claude mcp add --transport http dev ${origin}/mcp\n`)
      .and.to.contain(`codex mcp add dev --url ${origin}/mcp\n`)
    const stream = await startServerSentEvents(`${url}events`)
    const contents = await stream.next('contents')
    expect(contents).to.include({ command: 'sample-server.js', issuer, connection: 'live' })
    expect(await callTool(origin, 'foreign', 'greet')).to.equal(401)
    const events: SeenEvent[] = []
    const find = (name: string, path?: string) =>
      events.find(
        (event) => event.name === name && (event.attributes as Record<string, unknown>)['url.path'] === path,
      )
    while (find('kit.mcp.auth.refused') === undefined || find('dev.request', '/mcp') === undefined)
      events.push(...((await stream.next('events')) as { event: SeenEvent }[]).map(({ event }) => event))
    const [request, refused] = [find('dev.request', '/mcp'), find('kit.mcp.auth.refused')]
    expect(refused?.attributes).to.include({ reason: 'wrong_resource' })
    expect(request?.attributes).to.include({ 'http.response.status_code': 401 })
    expect(request?.request?.id).to.be.a('string').and.to.equal(refused?.request?.id)
    expect(JSON.stringify(events)).not.to.contain('"foreign"')

    program.kill('SIGTERM')
    // What the server expects of tokens may have been reported in the meantime.
    let seen = (await stream.next('contents')) as Seen
    while (!seen.ended) seen = (await stream.next('contents')) as Seen
    expect(seen.ended).to.match(/^The server has exited: exit code 0\. .* run mcp-gatekit dev again\.$/)
    expect(await program.exitCode).to.equal(0)
    expect(program.stdout).to.contain('asked to stop')
  })

  it('warns if the resource names another port than the server', async () => {
    await project({
      'other-port.mjs': `
        import { createServer } from 'node:http'
        const document = JSON.stringify({ resource: 'http://127.0.0.1:1/mcp' })
        createServer((req, res) => res.end(document)).listen(0, '127.0.0.1')`,
    })
    const program = startDevProgram(['--no-auth', '--port', '0', 'other-port.mjs'], { cwd: folder })
    const [, port] = await program.said(
      'stderr',
      /resource is http:\/\/127\.0\.0\.1:1\/mcp, but the server listens on port (\d+)/,
    )
    expect(Number(port)).to.be.above(0)
    await seenOf(program, ({ warnings }) => warnings?.split('<li>').length === 2)
    program.kill('SIGTERM')
    await program.exitCode
  })

  it('exits with the exit code of the server', async () => {
    const { program, ending } = await startSample(['--no-auth', '--port', '0'])
    expect(program.stderr).to.contain('not started (--no-auth)')
    await fetch(`${ending}7`)
    expect(await program.exitCode).to.equal(7)
  })

  it('passes arguments and environment variables to the server, and names the package to install', async () => {
    const server = `console.log(JSON.stringify([process.argv.slice(2), Object.keys(process.env).filter((name) => name.startsWith('MCP_GATEKIT'))]))`
    await project({ 'server.mjs': server })
    const program = startDevProgram(['--port', '0', 'server.mjs', '--port', '9'], { cwd: folder })
    expect(await program.exitCode).to.equal(0)
    expect(JSON.parse(program.stdout)).to.deep.equal([['--port', '9'], ['MCP_GATEKIT_DEV_URL']])
    expect(program.stderr).to.contain(
      'not started, because oidc-provider is not installed. Run: npm install --save-dev oidc-provider',
    )
  })

  it('runs TypeScript with the tsx of the project', async () => {
    await project({
      'node_modules/tsx/package.json': '{"name":"tsx","exports":{".":"./loader.mjs"}}',
      'node_modules/tsx/loader.mjs': 'console.log("tsx is here"); process.exit(5)',
      'server.ts': 'const answer: number = 42',
    })
    const program = startDevProgram(['--no-auth', '--port', '0', 'server.ts'], { cwd: folder })
    expect(await program.exitCode).to.equal(5)
    expect(program.stdout).to.contain('tsx is here')
  })

  it('kills a server at the second signal', async () => {
    await project({
      'stubborn.mjs': `
        process.on('SIGTERM', () => console.log('never mind'))
        setInterval(() => {}, 1000)
        console.log('up')`,
    })
    const program = startDevProgram(['--no-auth', '--port', '0', 'stubborn.mjs'], { cwd: folder })
    await program.said('stdout', /up/)
    program.kill('SIGTERM')
    await program.said('stdout', /never mind/)
    program.kill('SIGTERM')
    expect(await program.exitCode).to.equal(0)
  })

  it('restarts the server when its file changes', async () => {
    await project({ 'watched.mjs': `console.log('first'); setInterval(() => {}, 1000)` })
    const program = startDevProgram(['--no-auth', '--port', '0', '--watch', 'watched.mjs'], { cwd: folder })
    await program.said('stdout', /first/)
    const change = () => project({ 'watched.mjs': `console.log('second'); setInterval(() => {}, 1000)` })
    // Node.js may begin to watch the file after its first line, and then misses the first change.
    const changing = setInterval(() => void change(), 3_000)
    try {
      await change()
      await program.said('stdout', /second/)
    } finally {
      clearInterval(changing)
    }
    program.kill('SIGTERM')
    expect(await program.exitCode).to.equal(0)
  })

  /** Reads contents of the page until they match. */
  async function seenOf(
    program: DevProgram,
    matches: (contents: Seen) => boolean,
    isReading: () => void = () => undefined,
  ): Promise<Seen> {
    const [, url] = (await program.said('stderr', /console +(http:\S+)/)) as unknown as [string, string]
    const stream = await startServerSentEvents(`${url}events`)
    isReading()
    let contents = (await stream.next('contents')) as Seen
    while (!matches(contents)) contents = (await stream.next('contents')) as Seen
    return contents
  }

  it('shows the last lines of a server that crashes, and that --watch starts it again', async () => {
    await project({ 'crash.mjs': `console.error('\\u001b[31mfirst'); throw new Error('the index is gone')` })
    const program = startDevProgram(['--no-auth', '--port', '0', '--watch', 'crash.mjs'], { cwd: folder })
    const { ended } = await seenOf(program, ({ ended }) => ended?.includes('the index is gone') === true)
    expect(ended).to.match(/^The server has exited: exit code 1\..* It starts again .*<pre>first\n/)
    await program.said('stderr', /the index is gone/)
    const write = () => project({ 'crash.mjs': `console.log(process.pid); setInterval(() => {}, 1000)` })
    // Node.js may begin to watch the file after the crash, and then misses the first change.
    const changing = setInterval(() => void write(), 3_000)
    try {
      await write()
      const { server } = await seenOf(program, ({ server }) => server?.startsWith('running, pid ') === true)
      await program.said('stdout', new RegExp(`^${server?.slice('running, pid '.length)}$`, 'm'))
    } finally {
      clearInterval(changing)
    }
  })

  for (const watch of [[], ['--watch']])
    it(`says in one sentence that the port of the server is in use, ${watch[0] ?? 'without --watch'}`, async () => {
      const { promise: reading, resolve: isReading } = signalled()
      const { port, origin } = await listen((_req, res) => void reading.then(() => res.end()))
      await project({
        'busy.mjs': `
          import { createServer } from 'node:http'
          await fetch('${origin}')
          createServer().listen(${port}, '127.0.0.1')`,
      })
      const program = startDevProgram(['--no-auth', '--port', '0', ...watch, 'busy.mjs'], { cwd: folder })
      const { ended } = await seenOf(program, ({ ended }) => ended?.includes('<pre>') === true, isReading)
      expect(ended).to.contain(`<pre>Port ${port} is in use. Set PORT.</pre>`)
      await program.said('stderr', new RegExp(`mcp-gatekit dev: Port ${port} is in use. Set PORT.`))
    })

  it('exits with 1 if a signal ends the server', async () => {
    await project({ 'dying.mjs': `process.kill(process.pid, 'SIGKILL')` })
    const program = startDevProgram(['--no-auth', '--port', '0', 'dying.mjs'], { cwd: folder })
    expect(await program.exitCode).to.equal(1)
  })
})
