import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { rolldown } from 'rolldown'
import { VERSION } from '../src/version.ts'
import { pack } from './support/packed.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))
const bin = (name: string): string => join(root, 'node_modules', '.bin', name)

/** Bytes that an import adds to an application's minified and compressed bundle, without the packages it needs. */
const MAX_BUNDLED: Readonly<Record<string, number>> = {
  "export * from 'mcp-gatekit'": 110_000,
  "export * from 'mcp-gatekit/telemetry'": 42_000,
  "export { KitTelemetry, LoggerTransportAdapter } from 'mcp-gatekit/telemetry'": 20_000,
}

/** The docstring of a declaration, and how it begins. */
const DECLARATION =
  /^(?:\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?(?:export |declare )*(?:abstract )?(?:class|function|interface|type|const) (\w+)/gm

/** The declarations in a text by name, each with its docstrings, and without what whoever writes them is free to choose. */
function declarations(text: string): { readonly name: string; readonly text: string }[] {
  const found = [...text.matchAll(DECLARATION)]
  return found.map((match, index) => {
    const [whole] = text.slice(match.index, found[index + 1]?.index).split(/^export \{/m)
    const bare = whole?.replace(/\b(?:export|declare) |\s\*(?!\/)|\$\d+|[\s;,'"|()]/g, '') ?? ''
    return { name: match[1] ?? '', text: bare }
  })
}

function declarationsIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.d.ts'))
    .map((file) => readFileSync(join(folder, file), 'utf8'))
}

describe('package', function () {
  this.timeout(60_000)

  let folder: string
  let tarball: string
  let packed: readonly string[]

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mcp-gatekit-'))
    ;({ tarball, files: packed } = await pack(folder))
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  it('holds what was built, its legal and its read-me files, and nothing else', () => {
    const others = packed.filter((path) => !/^dist\/.*\.(?:js|d\.ts)$|^template\//.test(path))
    expect(others).to.include.members(['package.json', 'LICENSE'])
    expect(['package.json', 'LICENSE', 'README.md']).to.include.members(others)
    expect(packed).to.include.members([
      'dist/index.js',
      'dist/index.d.ts',
      'dist/telemetry/index.js',
      'dist/telemetry/index.d.ts',
      'template/gitignore',
      'template/package.json',
      'template/server.ts',
    ])
  })

  it('has one version', () => {
    const versions = ['package.json', 'package-lock.json'].map(
      (file) => JSON.parse(readFileSync(join(root, file), 'utf8')).version,
    )
    expect(versions).to.deep.equal([VERSION, VERSION])
  })

  it('is not minified, so that stack traces name functions', () => {
    const code = readFileSync(join(root, 'dist', 'index.js'), 'utf8')
    expect(code).to.include('return function mcpAuth(req, res, next')
    expect(code).to.match(/^function readStream\(|^async function makeContext\(/m)
  })

  for (const [code, limit] of Object.entries(MAX_BUNDLED)) {
    it(`adds no more than ${limit.toLocaleString('en')} bytes to a bundle: ${code}`, async () => {
      const entry = join(root, 'entry.js')
      const bundle = await rolldown({
        input: entry,
        platform: 'node',
        external: /^(?!mcp-gatekit)[^./]/,
        plugins: [
          {
            name: 'entry',
            resolveId: (id) => (id === entry ? id : null),
            load: (id) => (id === entry ? code : null),
          },
        ],
      })
      const { output } = await bundle.generate({ minify: true })
      await bundle.close()
      const bytes = output.reduce((sum, file) => sum + ('code' in file ? gzipSync(file.code).length : 0), 0)
      expect(bytes).to.be.within(limit / 2, limit)
    })
  }

  it('declares what the sources declare, with every docstring', () => {
    const written = declarationsIn(join(root, 'build', 'package', 'src')).flatMap(declarations)
    const published = declarationsIn(join(root, 'dist')).flatMap(declarations)
    const known = new Set(written.map(({ text }) => text))
    expect(published).to.have.length.above(150)
    expect(published.filter(({ text }) => !known.has(text))).to.deep.equal([])
    expect(published.find(({ name }) => name === 'mcpAuth')?.text).to.match(/^\/\*\*Requires.*@throws.*\*\//)
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

    /** The text of our own files among those. */
    function oursAmong(loaded: readonly string[]): string {
      const files = loaded.filter((name) => name.startsWith('dist/'))
      return files.map((name) => readFileSync(join(root, name), 'utf8')).join('\n')
    }

    it('./telemetry loads neither Express, nor the SDK, nor OpenTelemetry', async () => {
      const loaded = await loadedBy('mcp-gatekit/telemetry')
      expect(loaded).to.include('dist/telemetry/index.js')
      expect(
        loaded.filter((name) => /^(?:express|cors|jose)$|^@modelcontextprotocol|^@opentelemetry/.test(name)),
      ).to.deep.equal([])
      expect(oursAmong(loaded)).to.contain('TELEMETRY_SERVICE_REQUIRED').but.not.contain('resource_metadata')
    })

    it('./telemetry loads none of the parts of Node that take long', async () => {
      const builtins = async (code: string): Promise<string[]> => {
        const script = `${code}; console.log(process.moduleLoadList.join('\\n'))`
        const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: root })
        return stdout.split('\n').filter((name) => /^NativeModule (?:crypto|https?|tls|net)$/.test(name))
      }
      expect(await builtins("await import('mcp-gatekit/telemetry')")).to.deep.equal(await builtins('0'))
      expect(await builtins("await import('node:crypto')")).to.include('NativeModule crypto')
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
      expect(oursAmong(loaded)).to.contain('resource_metadata').but.not.contain('toolsFromOpenApi')
    })

    it('./openapi loads what reads documents and calls apps only when it is asked to', async () => {
      const loaded = await loadedBy('mcp-gatekit/openapi')
      expect(oursAmong(loaded)).to.contain('toolsFromOpenApi').but.not.contain('TELEMETRY_SERVICE_REQUIRED')
      expect(
        loaded.filter((name) => /^(?:@seriousme\/.*|ajv.*|yaml|light-my-request|express)$/.test(name)),
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
    for (const name of ['oauth4webapi', 'lru-cache'])
      await symlink(join(root, 'node_modules', name), join(modules, name))
    const { stdout } = await run(process.execPath, [file, 'doctor', '--list'])
    expect(stdout).to.match(/^server\.reachable +The server answers$/m)
  })

  it('has stack traces that name what was called, and shows the statement that threw', async () => {
    const script = "import { mcpAuth } from 'mcp-gatekit'\nmcpAuth({ isuer: 'https://auth.example.com' })"
    const { stderr } = await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: root,
    }).catch((error) => error)
    expect(stderr).to.match(
      /KitMcpConfigError: .*isuer.*\n(?: +at .*\n)* +at mcpAuth \(.*dist\/index\.js:\d+/,
    )
    expect(Math.max(...stderr.split('\n').map((line: string) => line.length))).to.be.below(1_500)
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
