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
const NAMES = ['commonjs', 'jsdoc', 'sdk-1', 'typescript', 'typescript-5.8', 'typescript-commonjs']
const HEADERS = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }

describe('projects that install the package', () => {
  let scratch: string
  let tarball: string

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'consumers-'))
    tarball = (await pack(scratch)).tarball
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  it('the list of consumers has every project in test/consumers', async () => {
    expect(await readdir(consumers)).to.have.members(NAMES)
  })

  for (const name of NAMES) {
    describe(name, () => {
      const { scripts } = JSON.parse(readFileSync(join(consumers, name, 'package.json'), 'utf8'))
      let folder: string

      /** Returns the output of npm if it fails, and an empty string otherwise. */
      async function npm(...argv: string[]): Promise<string> {
        const { code, stdout, stderr } = await run('npm', argv, { cwd: folder }).catch((error) => error)
        return code === undefined ? '' : `${stdout}${stderr}`
      }

      before(async () => {
        folder = join(scratch, name)
        await cp(join(consumers, name), folder, { recursive: true })
      })

      it(`the project ${name} installs the package without a conflict of peers`, async () => {
        expect(await npm('install', '--strict-peer-deps', '--no-audit', '--no-fund', tarball)).to.equal('')
      })

      if (scripts.check !== undefined)
        it(`the project ${name} compiles with the types of the package`, async () => {
          expect(await npm('run', '--silent', 'check')).to.equal('')
        })

      it(`the server of ${name} rejects a call without a token and serves a call with one`, async () => {
        const server = spawn(process.execPath, scripts.start.split(' ').slice(1), {
          cwd: folder,
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
