import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { Browser } from '../support/authorization/browser.ts'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { freePort } from '../support/free-port.ts'
import { until } from '../support/until.ts'

const SUITE = '@modelcontextprotocol/conformance@0.2.0-alpha.12'
/** The suite needs a newer Node.js than the server. */
const NODE = 'node@24'

/**
 * The checks of the suite, and their expected results. All of them apply. The suite has none for registration, refresh tokens,
 * or assertions.
 */
const EXPECTED: Readonly<Record<string, string>> = {
  'authorization-code-grant': 'SUCCESS',
  'authorization-server-metadata': 'SUCCESS',
  'authorization-server-metadata-cimd': 'SUCCESS',
}

interface Check {
  readonly id: string
  readonly status: string
  readonly errorMessage?: string
}

/** Runs the suite for an authorization server, with a user who signs in and allows the request. */
async function runSuite(facade: TestFacade, port: number, args: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-'))
  try {
    const suiteArgs = ['authorization', '--url', facade.issuer, '--port', String(port), '-o', folder, ...args]
    const command = ['-y', '-p', NODE, '-p', SUITE, '--', 'conformance', ...suiteArgs]
    // The group of the suite ends with it if the user cannot sign in.
    const suite = spawn('npx', command, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    const callback = `http://127.0.0.1:${port}/callback`
    let output = ''
    let user: Promise<unknown> | undefined
    const signIn = async (url: string): Promise<void> => {
      const browser = new Browser()
      const page = await browser.open(url)
      const { url: end } = await browser.submit(page, 'allow', (target) => target.startsWith(callback))
      // The suite prints the URL before it listens.
      await until(() => fetch(end).then(Boolean, () => false), 20)
    }
    for (const stream of [suite.stdout, suite.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
        const url = /^https?:\S+authorize\?\S+(?=\n)/m.exec(output)?.[0]
        if (url !== undefined && user === undefined) {
          user = signIn(url).catch((error: unknown) => {
            output += String(error)
            process.kill(-Number(suite.pid))
          })
        }
      })
    const [code] = await once(suite, 'close')
    await user
    const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('checks.json'))
    const checks: Check[] = []
    for (const file of files) checks.push(...JSON.parse(await readFile(join(folder, file), 'utf8')))
    return { code, output, checks }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

describe('conformance of the authorization facade: the suite for authorization servers', function () {
  this.timeout(180_000)
  for (const path of ['', '/auth'])
    for (const registered of [true, false])
      it(`a facade with the path '${path}' passes the suite with a client that ${registered ? 'registered itself' : 'is registered in advance'}`, async () => {
        const port = await freePort()
        const redirectUris = [`http://127.0.0.1:${port}/callback`]
        const facade = await startFacade(
          { clients: { static: [{ clientId: 'desk', redirectUris }] } },
          { path },
        )
        try {
          const id = registered ? (await facade.register({ redirect_uris: redirectUris })).client_id : 'desk'
          const args = ['--client-id', id, '--resource', facade.resource]
          const { code, output, checks } = await runSuite(facade, port, args)
          expect(Object.fromEntries(checks.map(({ id, status }) => [id, status])), output).to.deep.equal(
            EXPECTED,
          )
          expect(code, output.slice(-4000)).to.equal(0)
        } finally {
          await facade.close()
        }
      })
})
