import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))
const bin = (name: string): string => join(root, 'node_modules', '.bin', name)

describe('package', function () {
  this.timeout(60_000)

  let folder: string
  let tarball: string
  /** Paths in the tarball. */
  let packed: string[]

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mcp-gatekit-'))
    if (!existsSync(join(root, 'dist', 'index.js')))
      await run(bin('tsc'), ['-p', join(root, 'tsconfig.build.json')], { cwd: root })
    const { stdout } = await run(
      'npm',
      ['pack', '--ignore-scripts', '--json', '--loglevel=error', '--pack-destination', folder],
      { cwd: root },
    )
    const [{ filename, files }] = JSON.parse(stdout)
    tarball = join(folder, filename)
    packed = files.map(({ path }: { path: string }) => path)
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  it('holds what was built, its legal and its read-me files, and nothing else', () => {
    const others = packed.filter((path) => !/^dist\/.*\.(?:js|d\.ts)$/.test(path))
    expect(others).to.include.members(['package.json', 'LICENSE'])
    expect(['package.json', 'LICENSE', 'README.md', 'CHANGELOG.md']).to.include.members(others)
    expect(packed).to.include.members([
      'dist/index.js',
      'dist/index.d.ts',
      'dist/telemetry/index.js',
      'dist/telemetry/index.d.ts',
    ])
  })

  it('pleases publint', async () => {
    const { stdout } = await run(bin('publint'), ['run', tarball, '--strict'], { cwd: root })
    expect(stdout).to.contain('All good!')
  })

  it('has types that resolve for every consumer that can load ESM', async () => {
    const { stdout } = await run(bin('attw'), [tarball, '--profile', 'esm-only', '--format', 'json'], {
      cwd: root,
      maxBuffer: 64 * 1024 * 1024,
    })
    const { analysis } = JSON.parse(stdout)
    expect(Object.keys(analysis.entrypoints)).to.include.members(['.', './telemetry'])
    const esm = Object.values<{ kind: string; resolutionKind?: string }>(analysis.problems).filter(
      ({ resolutionKind }) => resolutionKind === undefined || /node16-esm|bundler/.test(resolutionKind),
    )
    expect(esm).to.deep.equal([])
  })

  describe('what an import loads', () => {
    /** The packages, and files of ours, that `specifier` loads in a process of its own. */
    async function loadedBy(specifier: string): Promise<string[]> {
      const log = join(folder, 'loaded.txt')
      await writeFile(log, '')
      const hooks = `
        import { appendFileSync } from 'node:fs'
        export async function load(url, context, next) {
          appendFileSync(${JSON.stringify(log)}, url + '\\n')
          return await next(url, context)
        }`
      const script = `
        import { createRequire, register } from 'node:module'
        register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}))
        await import(${JSON.stringify(specifier)})
        console.log(Object.keys(createRequire(process.cwd() + '/x.js').cache).join('\\n'))`
      // The package is found by its own name, through its `exports`.
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: root })
      const urls = `${await readFile(log, 'utf8')}\n${stdout}`.split('\n').filter((line) => line !== '')
      const names = urls.map((url) => {
        const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url) ?? []
        return name ?? url.slice(url.indexOf('/dist/') + 1)
      })
      return [...new Set(names)]
    }

    it('./telemetry loads neither Express, nor the SDK, nor OpenTelemetry', async () => {
      const loaded = await loadedBy('mcp-gatekit/telemetry')
      expect(loaded).to.include('dist/telemetry/index.js')
      expect(
        loaded.filter((name) => /^(?:express|cors|jose)$|^@modelcontextprotocol|^@opentelemetry/.test(name)),
      ).to.deep.equal([])
      expect(loaded.filter((name) => /^dist\/(?:oauth|mcp|express)\//.test(name))).to.deep.equal([])
    })

    it('. loads neither OpenTelemetry, nor jose, nor Express', async () => {
      const loaded = await loadedBy('mcp-gatekit')
      expect(loaded).to.include.members(['dist/index.js', '@modelcontextprotocol/server'])
      const unwanted =
        /^(?:express|jose|oauth4webapi|express-oauth2-jwt-bearer)$|^@opentelemetry|^@modelcontextprotocol\/sdk/
      expect(loaded.filter((name) => unwanted.test(name))).to.deep.equal([])
    })

    it('sees what is loaded, be it ESM or CommonJS', async () => {
      expect(await loadedBy('express')).to.include.members(['express', 'body-parser'])
      expect(await loadedBy('jose')).to.include('jose')
      expect(await loadedBy('@opentelemetry/sdk-logs')).to.include('@opentelemetry/api')
    })
  })

  it('opens nothing but its entries', async () => {
    const attempt = (specifier: string) =>
      run(process.execPath, ['--input-type=module', '-e', `await import('${specifier}')`], {
        cwd: root,
      }).then(
        () => 'loaded',
        ({ stderr }: { stderr: string }) => /ERR_\w+/.exec(stderr)?.[0],
      )
    expect(await attempt('mcp-gatekit/dist/index.js')).to.equal('ERR_PACKAGE_PATH_NOT_EXPORTED')
    expect(await attempt('mcp-gatekit/mcp/server')).to.equal('ERR_PACKAGE_PATH_NOT_EXPORTED')
    expect(await attempt('mcp-gatekit/telemetry')).to.equal('loaded')
  })

  it('can be required, where Node can require ESM', async () => {
    const script =
      "console.log(typeof require('mcp-gatekit').mcpAuth, typeof require('mcp-gatekit/telemetry').KitTelemetry)"
    const { stdout } = await run(process.execPath, ['-e', script], { cwd: root })
    expect(stdout.trim()).to.equal('function function')
  })
})
