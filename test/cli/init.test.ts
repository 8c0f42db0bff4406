import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { VERSION } from '../../src/base/version.ts'
import { linkPackage } from '../support/cli/init-project.ts'
import { itRejects, runCommand } from '../support/cli/run-command.ts'
import { freePort } from '../support/free-port.ts'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../../../', import.meta.url))
const FILES = [
  'package.json',
  'tsconfig.json',
  'app.ts',
  'server.ts',
  'server.test.ts',
  'README.md',
  '.gitignore',
  'Dockerfile',
  '.dockerignore',
]

const init = (...argv: string[]) => runCommand(['init', ...argv])

describe('mcp-gatekit init', () => {
  let scratch: string

  before(async () => {
    // In this project, so that the packages of the new project are found.
    await mkdir(join(root, 'build'), { recursive: true })
    scratch = await mkdtemp(join(root, 'build', 'init-'))
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  itRejects(
    ['init'],
    [
      [['a', 'b'], 'expected one folder'],
      [[''], 'must not be an empty string'],
      [['--nam', 'x'], 'unknown option --nam. Did you mean --name?'],
      [['--n4me'], 'unknown option'],
      [['--name'], '--name requires a value'],
      [['--help=x'], '--help takes no value'],
      [['--name', 'A b'], '--name must consist of lowercase letters'],
      [['--issuer', 'auth.example.com'], '--issuer must be an absolute URL'],
      [
        ['--issuer', 'http://auth.example.com'],
        "--issuer must be an https URL, or an http URL of a loopback host; received 'http://auth.example.com'\n",
      ],
      [['--resource', 'https://ada:hunter2@mcp.example.com'], '--resource must not contain credentials'],
      [['--issuer', 'https://auth.example.com/?'], '--issuer must not contain a query'],
      [['--resource', 'https://mcp.example.com/#x'], '--resource must not contain a fragment'],
      [['--provider', 'okta'], '--provider must be one of github, google, entra, cognito'],
      [['--provider', 'constructor'], '--provider must be one of github, google, entra, cognito'],
      [
        ['--provider', 'github', '--issuer', 'https://auth.example.com'],
        '--provider and --issuer cannot be combined',
      ],
    ],
  )

  it('writes a project and prints the next steps', async () => {
    const folder = join(scratch, 'Über My_Server')
    const { exitCode, stdout, stderr } = await init(folder)
    expect({ exitCode, stderr }).to.deep.equal({ exitCode: 0, stderr: '' })
    expect(await readdir(folder)).to.have.members(FILES)
    for (const name of FILES) expect(stdout).to.contain(`wrote ${join(folder, name)}\n`)
    expect(stdout).to.contain(`  cd '${folder}'\n  npm install\n  npm test\n  npm start `)
    expect(stdout).to.contain('prints a test token')
    expect(stdout).to.match(/^ {2}npm run dev /m)
    const { name, dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
    expect({ name, kit: dependencies['mcp-gatekit'] }).to.deep.equal({
      name: 'ber-my_server',
      kit: `^${VERSION}`,
    })
    expect(await readFile(join(folder, 'README.md'), 'utf8')).to.match(
      /^# ber-my_server\n\n.+\n\n(?:- .+\n){4}(?:\n.+\n){2}$/,
    )
  })

  it('writes the given name, issuer, and resource into the project', async () => {
    const folder = join(scratch, 'with-options')
    const [issuer, resource] = ["https://auth.example.com/o'hara", 'https://mcp.example.com/tools']
    const { stdout } = await init(folder, '--name', 'notes', '--issuer', issuer, '--resource', resource)
    const server = await readFile(join(folder, 'server.ts'), 'utf8')
    expect(server).to.contain(`?? process.env.ISSUER ?? "${issuer}"\n`)
    expect(server).to.contain(`= process.env.RESOURCE ?? '${resource}'\n`)
    const app = await readFile(join(folder, 'app.ts'), 'utf8')
    expect(app).to.contain("name: 'notes'").and.not.contain('my-server')
    expect(stdout).to.contain(`accepts tokens from ${issuer}`)
  })

  it('the template requires the package versions that this project is tested with', () => {
    const packageIn = (folder: string) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
    const { 'mcp-gatekit': own, ...dependencies } = packageIn('template').dependencies
    expect(own).to.equal('*')
    const { devDependencies, peerDependencies } = packageIn('.')
    expect(devDependencies).to.include({ ...dependencies, ...packageIn('template').devDependencies })
    const signIn = JSON.parse(readFileSync(join(root, 'template/sign-in-package.json'), 'utf8'))
    expect(devDependencies).to.include(signIn.dependencies)
    expect(peerDependencies).to.include({
      '@modelcontextprotocol/server': dependencies['@modelcontextprotocol/server'],
    })
  })

  it('the Dockerfile installs from the lock file, copies only files of the project, and runs the server without privileges', async () => {
    const folder = join(scratch, 'container')
    await init(folder)
    const lines = (await readFile(join(folder, 'Dockerfile'), 'utf8'))
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => /^([A-Z]+) (.+)$/.exec(line)?.slice(1) ?? [line])
    const of = (instruction: string) =>
      lines.filter(([name]) => name === instruction).map(([, value]) => value)
    expect(lines.every(([, value]) => value !== undefined)).to.equal(true)
    expect(of('FROM')).to.deep.equal(['node:22-slim AS build', 'node:22-slim'])
    expect(of('RUN')).to.deep.equal(['npm ci', 'npx tsc', 'npm ci --omit=dev'])
    // npm writes the lock file.
    const present = [...(await readdir(folder)), 'package-lock.json', '*.ts']
    for (const value of of('COPY').filter((value) => !value?.startsWith('--from='))) {
      const sources = value?.split(' ').slice(0, -1) ?? []
      expect(present).to.include.members(sources)
    }
    expect(of('USER')).to.deep.equal(['node'])
    expect(lines.at(-1)).to.deep.equal(['CMD', '["node", "dist/server.js"]'])
    expect(lines.findIndex(([name]) => name === 'USER')).to.be.above(
      lines.findLastIndex(([name]) => name === 'RUN'),
    )
    const ignored = (await readFile(join(folder, '.dockerignore'), 'utf8')).split('\n')
    expect(ignored).to.include.members(['node_modules/', '.env', 'keys.json', '.git/'])
  })

  it('writes nothing if a file exists, and names that file', async () => {
    const folder = join(scratch, 'taken')
    await mkdir(folder)
    await writeFile(join(folder, 'server.ts'), 'mine')
    await writeFile(join(folder, 'notes.txt'), 'mine')
    const { exitCode, stdout, stderr } = await init(folder)
    expect({ exitCode, stdout }).to.deep.equal({ exitCode: 1, stdout: '' })
    expect(stderr).to.equal(`mcp-gatekit: nothing was written because ${folder} already contains server.ts\n`)
    expect(await readdir(folder)).to.have.members(['server.ts', 'notes.txt'])
    expect(await readFile(join(folder, 'server.ts'), 'utf8')).to.equal('mine')
    expect((await init(folder)).stderr).to.equal(stderr)
  })

  it('exits with 1 and names a folder that cannot be written to', async () => {
    const file = join(scratch, 'file')
    await writeFile(file, '')
    expect(await init(join(file, 'below'))).to.include({
      exitCode: 1,
      stderr: `mcp-gatekit: cannot write to ${join(file, 'below')} (ENOTDIR)\n`,
    })
  })

  describe('writes a project whose server', function () {
    this.timeout(240_000)
    let folder: string

    before(async () => {
      folder = join(scratch, 'written')
      await init(folder)
      await linkPackage(folder)
    })

    it('compiles and passes its own tests', async () => {
      const { stdout } = await execute(join(root, 'node_modules', '.bin', 'tsc'), [], { cwd: folder }).catch(
        (error) => error,
      )
      expect(stdout).to.equal('')
      const env = { ...process.env, NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined }
      const tested = await execute(
        process.execPath,
        ['--test', '--test-reporter=tap', 'dist/server.test.js'],
        { cwd: folder, env },
      )
      expect(tested.stdout)
        .to.match(/^# pass 4$/m)
        .and.match(/^# fail 0$/m)
    })

    /** Starts the server, calls the command that it prints, and stops it. */
    async function startsAs(file: string, port: number): Promise<void> {
      const child = spawn(process.execPath, [file], {
        cwd: folder,
        env: { ...process.env, PORT: String(port), ISSUER: undefined, RESOURCE: undefined },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      try {
        let said = ''
        for await (const text of child.stdout.setEncoding('utf8')) {
          said += text
          if (/^curl .*\n/m.test(said)) break
        }
        const [, url = '', token = '', body = ''] =
          /^curl (\S+) -H 'Authorization: Bearer ([^']+)' .* -d '([^']+)'$/m.exec(said) ?? []
        expect(url).to.equal(`http://127.0.0.1:${port}/mcp`)
        const headers = {
          Authorization: `Bearer ${token}`,
          'Content-Type': 'application/json',
          Accept: 'application/json, text/event-stream',
        }
        const answer = await fetch(url, { method: 'POST', headers, body })
        expect(await answer.text()).to.contain('Hello, Ada!')
        const refused = await fetch(url, { method: 'POST', body })
        expect(refused.status).to.equal(401)
        const [, metadata = ''] =
          /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate') ?? '') ?? []
        expect(await (await fetch(metadata)).json()).to.include({ resource: url })
        const ended = once(child, 'close')
        child.kill('SIGTERM')
        expect(await ended).to.deep.equal([0, null])
      } finally {
        child.kill('SIGKILL')
      }
    }

    it('starts without an authorization server, prints a call that works, and exits on SIGTERM', async () => {
      await startsAs('dist/server.js', await freePort())
    })

    it('starts through a symbolic link, and without the file extension', async () => {
      const link = join(scratch, 'linked')
      await symlink(folder, link)
      await startsAs(join(link, 'dist', 'server.js'), await freePort())
      await startsAs('dist/server', await freePort())
    })
  })
})
