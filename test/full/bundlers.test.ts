import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { pack } from '../support/packed.ts'

const run = promisify(execFile)
const { exports: entries } = JSON.parse(
  readFileSync(fileURLToPath(new URL('../../../package.json', import.meta.url)), 'utf8'),
)

/** A program for each entry. It prints `true` if the entry works in the bundle. */
const PROGRAMS: Readonly<Record<string, string>> = {
  '.': `
    import { createMcpAdapter, KitMcpRouter } from 'mcp-gatekit'
    const router = KitMcpRouter.create().tool('greet', { description: 'Greets' }, () => 'Hello')
    const { server } = createMcpAdapter({ router })
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'greet', arguments: {} } })
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
    server(new Request('http://localhost/mcp', { method: 'POST', headers, body })).then(async (response) =>
      console.log((await response.text()).includes('Hello')),
    )`,
  './authorization': `
    import { authorizationFacade, memoryStore, oidc } from 'mcp-gatekit/authorization'
    try {
      authorizationFacade({
        url: 'http://localhost',
        resource: 'http://localhost/mcp',
        upstream: oidc({ issuer: 'http://localhost:1', clientId: 'c', clientSecret: 's' }),
        scopes: { a: 'A' },
        allow: 'everyone',
        store: memoryStore(),
      }).router({ url: '/jwks', method: 'GET', headers: {} }, {}, report)
    } catch (error) {
      report(error)
    }
    function report(error) {
      console.log(/oidc-provider.*npm install.*bundled.*external/.test(error.message) || error)
    }`,
  './gate': `
    import { createServer } from 'node:http'
    import { jwtVerifier, mcpAuth } from 'mcp-gatekit/gate'
    const issuer = 'http://localhost:1'
    const resource = 'http://localhost/mcp'
    const gate = mcpAuth({ issuer, resource, verifyToken: jwtVerifier({ issuer, audience: resource, secret: 's'.repeat(32) }) })
    const server = createServer((req, res) => gate(req, res, () => res.end())).listen(0, '127.0.0.1', async () => {
      const url = 'http://127.0.0.1:' + server.address().port
      const statuses = []
      for (const headers of [{}, { Authorization: 'Bearer a.b.c' }])
        statuses.push((await fetch(url, { method: 'POST', headers })).status)
      console.log(String(statuses) === '401,401')
      server.close()
      server.closeAllConnections()
    })`,
  './openapi': `
    import { toolsFromOpenApi } from 'mcp-gatekit/openapi'
    toolsFromOpenApi('openapi: 3.1.0', { baseUrl: 'http://localhost' }).catch((error) =>
      console.log(/npm install.*bundled.*external/.test(error.message) || error),
    )`,
  './skills': `
    import { loadSkills } from 'mcp-gatekit/skills'
    loadSkills(new URL('file:///none')).catch((error) => console.log(error.name === 'KitMcpConfigError'))`,
  './telemetry': `
    import { KitTelemetry, LoggerTransportAdapter, OtlpTransportAdapter } from 'mcp-gatekit/telemetry'
    const lines = []
    const logger = { debug() {}, info: (line) => lines.push(line), warn() {}, error: (line) => lines.push(line) }
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger({ warn() {}, error: (line) => lines.push(line) })
      .addTransport(LoggerTransportAdapter.create({ logger }))
      .addTransport(OtlpTransportAdapter.create({ url: 'http://127.0.0.1:9' }))
      .build()
    manager.emit('order.placed')
    manager.shutdown({ timeoutMs: 5_000 }).then(() => {
      const text = lines.join(' ')
      console.log((text.includes('order.placed') && /OpenTelemetry.*npm install.*bundled.*external/.test(text)) || text)
    })`,
  './testing': `
    import { createTelemetryRecorder } from 'mcp-gatekit/testing'
    console.log(createTelemetryRecorder().events().length === 0)`,
  './upstream': `
    import { upstreamToken } from 'mcp-gatekit/upstream'
    try {
      upstreamToken({})
    } catch (error) {
      console.log(error.name === 'KitMcpConfigError')
    }`,
}

/** Entries that are not code. */
const WITHOUT = ['./package.json']

/** The entries that serve MCP. They need the official SDK. */
const WITH_SDK = ['.', './openapi', './skills']

const BUNDLERS: Readonly<Record<string, string>> = {
  esbuild: `
    import { build } from 'esbuild'
    await build({ entryPoints: [entry], bundle: true, platform: 'node', format, outfile, logLevel: 'error' })`,
  webpack: `
    import { promisify } from 'node:util'
    import { dirname, basename } from 'node:path'
    import webpack from 'webpack'
    const isModule = format === 'esm'
    const stats = await promisify(webpack)({
      mode: 'production',
      target: 'node20',
      entry,
      optimization: { minimize: false },
      experiments: { outputModule: isModule },
      output: {
        path: dirname(outfile),
        filename: basename(outfile),
        chunkFilename: basename(outfile) + '.[id].' + (isModule ? 'mjs' : 'cjs'),
        module: isModule,
        library: { type: isModule ? 'module' : 'commonjs2' },
      },
    })
    if (stats.hasErrors()) throw new Error(stats.toString('errors-only'))`,
  rolldown: `
    import { rolldown } from 'rolldown'
    const bundle = await rolldown({ input: entry, platform: 'node', logLevel: 'silent' })
    await bundle.write({ file: outfile, format, codeSplitting: false })`,
  vite: `
    import { dirname, basename } from 'node:path'
    import { build } from 'vite'
    await build({
      configFile: false,
      logLevel: 'error',
      ssr: { noExternal: true, target: 'node' },
      build: {
        ssr: entry,
        outDir: dirname(outfile),
        emptyOutDir: false,
        rolldownOptions: { output: { format, entryFileNames: basename(outfile), codeSplitting: false } },
      },
    })`,
}
/** The newest versions that this test has seen. `rolldown` is a development dependency as well. */
const VERSIONS = ['esbuild@0.28', 'webpack@5', 'rolldown@1.2', 'vite@8']

describe('bundles of applications without optional peers', function () {
  this.timeout(300_000)
  let scratch: string
  let plain: string
  let withSdk: string

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'bundlers-'))
    const { tarball } = await pack(scratch)
    plain = await project('plain', [tarball, ...VERSIONS])
    withSdk = await project('with-sdk', [tarball, ...VERSIONS, '@modelcontextprotocol/server@2'])
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  async function project(name: string, packages: readonly string[]): Promise<string> {
    const folder = join(scratch, name)
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}')
    await run('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: folder })
    return folder
  }

  it('every entry has a program', () => {
    expect([...Object.keys(PROGRAMS), ...WITHOUT]).to.have.members(Object.keys(entries))
  })

  for (const [bundler, build] of Object.entries(BUNDLERS))
    for (const format of ['esm', 'cjs'])
      for (const [entry, program] of Object.entries(PROGRAMS))
        it(`${bundler} builds an application with ${entry} as ${format}, and it runs`, async () => {
          const folder = WITH_SDK.includes(entry) ? withSdk : plain
          const name = `${bundler}-${format}-${entry.replace(/\W/g, '')}`
          const source = join(folder, `${name}.source.js`)
          const outfile = join(folder, 'out', `${name}.${format === 'esm' ? 'mjs' : 'cjs'}`)
          await writeFile(source, program)
          const builder = join(folder, `${name}.build.js`)
          const settings = `const { entry, format, outfile } = ${JSON.stringify({ entry: source, format, outfile })}`
          await writeFile(builder, settings + build)
          await run(process.execPath, [builder], { cwd: folder })
          const { stdout } = await run(process.execPath, [outfile], { cwd: tmpdir() })
          expect(stdout.trim()).to.equal('true')
        })
})
