import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises'
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
    expect(Object.keys(analysis.entrypoints)).to.include.members([
      '.',
      './openapi',
      './telemetry',
      './testing',
    ])
    const esm = Object.values<{ kind: string; resolutionKind?: string }>(analysis.problems).filter(
      ({ resolutionKind }) => resolutionKind === undefined || /node16-esm|bundler/.test(resolutionKind),
    )
    expect(esm).to.deep.equal([])
  })

  it('has declarations that need nothing but its dependencies and the SDK', async () => {
    // Neither the types of Express, nor of cors, nor of OpenTelemetry: users have them or not.
    const consumer = join(folder, 'consumer')
    const modules = join(consumer, 'node_modules')
    await mkdir(join(modules, '@types'), { recursive: true })
    await run('tar', ['-xf', tarball, '-C', consumer])
    await rename(join(consumer, 'package'), join(modules, 'mcp-gatekit'))
    for (const name of [
      '@modelcontextprotocol',
      '@standard-schema',
      'jose',
      'oauth4webapi',
      'zod',
      '@types/node',
      'undici-types',
    ])
      await symlink(join(root, 'node_modules', name), join(modules, name))
    await writeFile(
      join(consumer, 'use.ts'),
      ['mcp-gatekit', 'mcp-gatekit/openapi', 'mcp-gatekit/telemetry', 'mcp-gatekit/testing']
        .map((name, index) => `export * as entry${index} from '${name}'`)
        .join('\n'),
    )
    await writeFile(join(consumer, 'package.json'), '{"type":"module"}')
    const options = ['--strict', '--module', 'nodenext', '--target', 'es2022', '--noEmit', '--types', 'node']
    const { stdout } = await run(bin('tsc'), [...options, 'use.ts'], { cwd: consumer }).catch(
      (error) => error,
    )
    expect(stdout.split('\n').filter((line: string) => line.includes('mcp-gatekit/dist'))).to.deep.equal([])
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

    it('./testing loads neither Express, nor the SDK, nor OpenTelemetry', async () => {
      const loaded = await loadedBy('mcp-gatekit/testing')
      expect(loaded).to.include('dist/testing/index.js')
      expect(
        loaded.filter((name) => /^(?:express|cors)$|^@modelcontextprotocol|^@opentelemetry/.test(name)),
      ).to.deep.equal([])
    })

    it('. loads neither OpenTelemetry, nor jose, nor Express', async () => {
      const loaded = await loadedBy('mcp-gatekit')
      expect(loaded).to.include.members(['dist/index.js', '@modelcontextprotocol/server'])
      const unwanted =
        /^(?:express|jose|oauth4webapi|express-oauth2-jwt-bearer)$|^@opentelemetry|^@modelcontextprotocol\/sdk/
      expect(loaded.filter((name) => unwanted.test(name))).to.deep.equal([])
      expect(loaded.filter((name) => name.startsWith('dist/cli/'))).to.deep.equal([])
    })

    it('./openapi loads what reads documents and calls apps only when it is asked to', async () => {
      const loaded = await loadedBy('mcp-gatekit/openapi')
      expect(loaded).to.include('dist/openapi/tools-from-open-api.js')
      expect(
        loaded.filter((name) => /^(?:@seriousme\/.*|ajv.*|yaml|light-my-request|express)$/.test(name)),
      ).to.deep.equal([])
      expect(
        (await loadedBy('mcp-gatekit')).filter((name) => name.startsWith('dist/openapi/')),
      ).to.deep.equal([])
    })

    it('sees what is loaded, be it ESM or CommonJS', async () => {
      expect(await loadedBy('express')).to.include.members(['express', 'body-parser'])
      expect(await loadedBy('jose')).to.include('jose')
      expect(await loadedBy('@opentelemetry/sdk-logs')).to.include('@opentelemetry/api')
    })
  })

  it('installs the command', async () => {
    const prefix = join(folder, 'installed')
    await mkdir(prefix)
    await run('tar', ['-xf', tarball, '-C', prefix])
    const { bin } = JSON.parse(await readFile(join(prefix, 'package', 'package.json'), 'utf8'))
    const file = join(prefix, 'package', bin['mcp-gatekit'])
    expect(await readFile(file, 'utf8')).to.match(/^#!\/usr\/bin\/env node\n/)
    // Beside the packages it needs, it runs without Express and the SDK.
    const modules = join(prefix, 'package', 'node_modules')
    await mkdir(modules)
    for (const name of ['fastest-levenshtein', 'oauth4webapi', 'lru-cache'])
      await symlink(join(root, 'node_modules', name), join(modules, name))
    const { stdout } = await run(process.execPath, [file, 'doctor', '--list'])
    expect(stdout).to.match(/^server\.reachable +The server answers$/m)
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
