import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { pack } from '../support/packed.ts'

const run = promisify(execFile)
const consumers = fileURLToPath(new URL('../../../test/consumers/', import.meta.url))
/** The consumers that install the package, and those whose packages one of them installs as well. */
const INSTALLING = ['sdk-1', 'typescript', 'typescript-5.8', 'typescript-commonjs']
const WITH_PACKAGES_OF: Readonly<Record<string, string>> = { commonjs: 'typescript-5.8', jsdoc: 'typescript' }
const NAMES = [...INSTALLING, ...Object.keys(WITH_PACKAGES_OF)]
const HEADERS = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }

describe('projects that install the package', function () {
  this.timeout(300_000)
  let scratch: string
  /** The output of npm for each consumer that installs the package. It is empty unless npm has failed. */
  const printed = new Map<string, string>()

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'consumers-'))
    const { tarball } = await pack(scratch)
    for (const name of NAMES) await cp(join(consumers, name), join(scratch, name), { recursive: true })
    const options = ['--strict-peer-deps', '--prefer-offline', '--no-audit', '--no-fund']
    await Promise.all(
      INSTALLING.map(async (name) => printed.set(name, await npm(name, 'install', ...options, tarball))),
    )
    for (const [name, other] of Object.entries(WITH_PACKAGES_OF))
      await run('cp', ['-al', join(scratch, other, 'node_modules'), join(scratch, name)])
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  /** Returns the output of npm if it fails, and an empty string otherwise. */
  async function npm(name: string, ...argv: string[]): Promise<string> {
    const { code, stdout, stderr } = await run('npm', argv, { cwd: join(scratch, name) }).catch(
      (error) => error,
    )
    return code === undefined ? '' : `${stdout}${stderr}`
  }

  it('the list of consumers has every project in test/consumers', async () => {
    expect(await readdir(consumers)).to.have.members(NAMES)
  })

  for (const name of NAMES) {
    describe(name, () => {
      const { scripts } = JSON.parse(readFileSync(join(consumers, name, 'package.json'), 'utf8'))

      if (INSTALLING.includes(name))
        it(`the project ${name} installs the package without a conflict of peers`, () => {
          expect(printed.get(name)).to.equal('')
        })

      if (scripts.check !== undefined)
        it(`the project ${name} compiles with the types of the package`, async () => {
          expect(await npm(name, 'run', '--silent', 'check')).to.equal('')
        })

      it(`the server of ${name} rejects a call without a token and serves a call with one`, async () => {
        const server = spawn(process.execPath, scripts.start.split(' ').slice(1), {
          cwd: join(scratch, name),
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        try {
          const [line] = await Promise.race([
            once(createInterface(server.stdout), 'line'),
            once(server, 'close').then(() => ['{"error":"it has ended"}']),
          ])
          const { url, token, error } = JSON.parse(line)
          expect(error).to.equal(undefined)
          const params = { name: 'greet', arguments: { name: 'Ada' } }
          const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
          const refused = await fetch(url, { method: 'POST', headers: HEADERS, body })
          expect(refused.status).to.equal(401)
          expect(refused.headers.get('WWW-Authenticate')).to.match(/^Bearer .*resource_metadata="/)
          const headers = { ...HEADERS, Authorization: `Bearer ${token}` }
          const accepted = await fetch(url, { method: 'POST', headers, body })
          expect(accepted.status).to.equal(200)
          expect(await accepted.text()).to.contain('Hello, Ada')
        } finally {
          server.kill('SIGKILL')
        }
      })
    })
  }
})
