import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { builtinModules } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect } from 'chai'
import { rolldown } from 'rolldown'
import { esmExternalRequirePlugin } from 'rolldown/plugins'
import { createTestIssuer, type TestIssuer } from '../../src/testing/test-issuer.ts'
import { freePort } from '../support/free-port.ts'
import { installRuntimes } from '../support/runtimes.ts'
import { until } from '../support/until.ts'

/** The program of the page about other runtimes, as a worker. */
const WORKER = `
import { createMcpAdapter, jwtVerifier, KitMcpRouter } from 'mcp-gatekit'
import { z } from 'zod'

function make({ ISSUER: issuer, RESOURCE: resource }) {
  const router = KitMcpRouter.create().tool(
    'greet',
    { description: 'Greets a person', input: z.object({ name: z.string() }) },
    ({ name }, { auth }) => 'Hello, ' + name + '! You are signed in as ' + auth.user.id + '.',
  )
  const verifyToken = jwtVerifier({ issuer, audience: resource })
  const oauth = { issuer, resource, scopes: ['mcp:read'], verifyToken }
  const { server, auth } = createMcpAdapter({ router, allowedHosts: ['127.0.0.1'], oauth })
  return (request) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/mcp') return server(request)
    return request.method === 'OPTIONS' ? auth.cors(request) : auth.resource(request)
  }
}

let serve
export default { fetch: (request, env) => (serve ??= make(env))(request) }`

/** The optional packages, which the worker does not use, and the modules of the runtime. */
const EXTERNAL =
  /^(?:node:|@opentelemetry\/|@seriousme\/|bullmq$|express$|light-my-request$|oidc-provider$|openid-client$|yaml$)/

describe('a protected server in workerd, the runtime of Cloudflare Workers', function () {
  this.timeout(300_000)

  let keys: Server
  let issuer: TestIssuer
  let resource: string
  let stop: (() => Promise<void>) | undefined

  before(async function () {
    const runtimes = await installRuntimes()
    runtimes.skipIfMissing(this, 'workerd')
    const folder = await runtimes.makeFolder('workers', { 'worker.js': WORKER })
    keys = createServer((req, res) => {
      const documents: Record<string, unknown> = {
        '/.well-known/oauth-authorization-server': {
          issuer: issuer.issuer,
          jwks_uri: `${issuer.issuer}/jwks`,
        },
        '/jwks': issuer.jwks,
      }
      const document = documents[req.url ?? '']
      res.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
      res.end(JSON.stringify(document ?? {}))
    }).listen(0, '127.0.0.1')
    await once(keys, 'listening')
    const port = await freePort()
    resource = `http://127.0.0.1:${port}/mcp`
    issuer = createTestIssuer({
      issuer: `http://127.0.0.1:${(keys.address() as AddressInfo).port}`,
      audience: resource,
    })
    const bundle = await rolldown({
      input: join(folder, 'worker.js'),
      platform: 'neutral',
      resolve: { mainFields: ['module', 'main'], conditionNames: ['workerd', 'node', 'import', 'default'] },
      // CommonJS modules require modules of Node.js.
      plugins: [esmExternalRequirePlugin({ external: [...builtinModules, EXTERNAL] })],
    })
    await bundle.write({ file: join(folder, 'bundle.js'), codeSplitting: false })
    await bundle.close()
    await writeFile(
      join(folder, 'config.capnp'),
      `using Workerd = import "/workerd/workerd.capnp";
      const config :Workerd.Config = (
        services = [(name = "main", worker = .main), (name = "internet", network = (allow = ["private"]))],
        sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")] );
      const main :Workerd.Worker = (
        modules = [(name = "main", esModule = embed "bundle.js")],
        bindings = [(name = "ISSUER", text = "${issuer.issuer}"), (name = "RESOURCE", text = "${resource}")],
        compatibilityDate = "2026-08-01", compatibilityFlags = ["nodejs_compat"]);`,
    )
    const child = execFile(runtimes.binary('workerd'), ['serve', 'config.capnp'], { cwd: folder })
    const exited = once(child, 'exit')
    let errors = ''
    child.stderr?.on('data', (text) => {
      errors += text
    })
    stop = async () => {
      child.kill()
      await exited
    }
    await until(async () => {
      if (child.exitCode !== null) throw new Error(errors)
      return (await fetch(resource).catch(() => undefined)) !== undefined
    })
  })
  after(async () => {
    await stop?.()
    keys?.close()
  })

  const tokenOf = (id: string, scopes = ['mcp:read']) => issuer.issueToken({ claims: { sub: id }, scopes })
  const call = (token?: string, init: RequestInit = {}) =>
    fetch(resource, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'greet', arguments: { name: 'Ada' } },
      }),
      ...init,
    })

  it('concurrent first calls of different users on workerd get the results of their own users', async () => {
    const users = Array.from({ length: 20 }, (_, index) => `u${index}`)
    // The first client disconnects while the keys are fetched.
    const gone = new AbortController()
    const first = call(await tokenOf('gone'), { signal: gone.signal }).catch(() => undefined)
    const calls = users.map(async (id) => await (await call(await tokenOf(id))).text())
    gone.abort()
    await first
    for (const [index, text] of (await Promise.all(calls)).entries())
      expect(text).to.contain(`Hello, Ada! You are signed in as u${index}.`)
  })

  it('requests without a token and with an invalid token on workerd get a challenge', async () => {
    for (const token of [undefined, 'a.b.c']) {
      const response = await call(token)
      expect(response.status).to.equal(401)
      expect(response.headers.get('www-authenticate')).to.contain('/.well-known/oauth-protected-resource')
    }
  })

  it('a token without the scopes on workerd gets 403', async () => {
    const response = await call(await tokenOf('u1', []))
    expect(response.status).to.equal(403)
    expect(response.headers.get('www-authenticate')).to.contain('error="insufficient_scope"')
  })

  it('the metadata document and preflights are served on workerd', async () => {
    const metadata = await fetch(new URL('/.well-known/oauth-protected-resource/mcp', resource))
    expect(await metadata.json()).to.include({ resource })
    const preflight = await fetch(resource, {
      method: 'OPTIONS',
      headers: { origin: new URL(resource).origin, 'access-control-request-method': 'POST' },
    })
    expect(preflight.status).to.equal(204)
  })
})
