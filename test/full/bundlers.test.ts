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

/** Each module builds one application. */
const BUNDLERS: Readonly<Record<string, string>> = {
  esbuild: `
    import { build as bundle } from 'esbuild'
    export async function build({ entry, format, outfile }) {
      await bundle({ entryPoints: [entry], bundle: true, platform: 'node', format, outfile, logLevel: 'error' })
    }`,
  webpack: `
    import { promisify } from 'node:util'
    import { dirname, basename } from 'node:path'
    import webpack from 'webpack'
    export async function build({ entry, format, outfile }) {
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
      if (stats.hasErrors()) throw new Error(stats.toString('errors-only'))
    }`,
  rolldown: `
    import { rolldown } from 'rolldown'
    export async function build({ entry, format, outfile }) {
      const bundle = await rolldown({ input: entry, platform: 'node', logLevel: 'silent' })
      await bundle.write({ file: outfile, format, codeSplitting: false })
    }`,
  vite: `
    import { dirname, basename } from 'node:path'
    import { build as bundle } from 'vite'
    export async function build({ entry, format, outfile }) {
      await bundle({
        configFile: false,
        logLevel: 'error',
        ssr: { noExternal: true, target: 'node' },
        build: {
          ssr: entry,
          outDir: dirname(outfile),
          emptyOutDir: false,
          rolldownOptions: { output: { format, entryFileNames: basename(outfile), codeSplitting: false } },
        },
      })
    }`,
}

/** Builds each application of a list, and prints the errors by the files that could not be written. */
const BUILD_ALL = `
  const [, , bundler, list] = process.argv
  const { build } = await import(bundler)
  const errors = {}
  for (const application of JSON.parse(list))
    await build(application).catch((error) => {
      errors[application.outfile] = String(error)
    })
  console.log(JSON.stringify(errors))
  process.exit()`

const FORMATS = ['esm', 'cjs'] as const

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
    plain = join(scratch, 'plain')
    await mkdir(plain)
    await writeFile(join(plain, 'package.json'), '{"private":true,"type":"module"}')
    const install = (cwd: string, ...packages: string[]) =>
      run('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd })
    await install(plain, tarball, ...VERSIONS)
    withSdk = join(scratch, 'with-sdk')
    await run('cp', ['-al', plain, withSdk])
    await install(withSdk, '@modelcontextprotocol/server@2')
    for (const folder of [plain, withSdk]) {
      await writeFile(join(folder, 'build-all.js'), BUILD_ALL)
      for (const [bundler, code] of Object.entries(BUNDLERS))
        await writeFile(join(folder, `${bundler}.build.js`), code)
      for (const [entry, program] of Object.entries(PROGRAMS))
        await writeFile(join(folder, `${nameOf(entry)}.source.js`), program)
    }
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  const nameOf = (entry: string) => `entry${entry.replace(/\W/g, '')}`
  const folderOf = (entry: string) => (WITH_SDK.includes(entry) ? withSdk : plain)
  const outfileOf = (bundler: string, format: string, entry: string) =>
    join(folderOf(entry), 'out', `${bundler}-${format}-${nameOf(entry)}.${format === 'esm' ? 'mjs' : 'cjs'}`)

  /** Builds all applications with a bundler, in one process for each folder. Returns the errors. */
  async function buildAll(bundler: string): Promise<Readonly<Record<string, string>>> {
    const errors = await Promise.all(
      [plain, withSdk].map(async (folder) => {
        const applications = FORMATS.flatMap((format) =>
          Object.keys(PROGRAMS)
            .filter((entry) => folderOf(entry) === folder)
            .map((entry) => ({
              entry: join(folder, `${nameOf(entry)}.source.js`),
              format,
              outfile: outfileOf(bundler, format, entry),
            })),
        )
        const args = ['build-all.js', `./${bundler}.build.js`, JSON.stringify(applications)]
        const { stdout } = await run(process.execPath, args, { cwd: folder })
        return JSON.parse(stdout.trim().split('\n').at(-1) as string)
      }),
    )
    return Object.assign({}, ...errors)
  }

  it('every entry has a program', () => {
    expect([...Object.keys(PROGRAMS), ...WITHOUT]).to.have.members(Object.keys(entries))
  })

  for (const bundler of Object.keys(BUNDLERS))
    describe(bundler, () => {
      let errors: Readonly<Record<string, string>>
      before(async () => {
        errors = await buildAll(bundler)
      })

      for (const format of FORMATS)
        for (const entry of Object.keys(PROGRAMS))
          it(`${bundler} builds an application with ${entry} as ${format}, and it runs`, async () => {
            const outfile = outfileOf(bundler, format, entry)
            expect(errors[outfile]).to.equal(undefined)
            const { stdout } = await run(process.execPath, [outfile], { cwd: tmpdir() })
            expect(stdout.trim()).to.equal('true')
          })
    })
})
