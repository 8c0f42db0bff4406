import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { rolldown } from 'rolldown'
import { parse } from 'yaml'
import { VERSION } from '../src/base/version.ts'
import { installed, link, type Packed, pack, unpack } from './support/packed.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))
const bin = (name: string): string => join(root, 'node_modules', '.bin', name)

/** The limits of an installation without optional peers. The packages are those besides this one. */
const MAX_INSTALLED = { packages: 9, bytes: 10 * 1024 * 1024 }

/** The limits of the tarball in bytes. */
const MAX_TARBALL = { packed: 750_000, unpacked: 2_600_000 }

/** Bytes that an import adds to an application's minified and compressed bundle, without the packages it needs. */
const MAX_BUNDLED: Readonly<Record<string, number>> = {
  "export * from 'mcp-gatekit'": 184_000,
  "export * from 'mcp-gatekit/telemetry'": 63_500,
  "export { KitTelemetry, LoggerTransportAdapter } from 'mcp-gatekit/telemetry'": 33_500,
}

/** The docstring of a declaration and its first words. */
const DECLARATION =
  /^(?:\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?(?:export |declare )*(?:abstract )?(?:class|function|interface|type|const) (\w+)/gm

/** Returns the declarations of a file by name, each with its docstrings and without differences of format. */
function declarations(text: string): { readonly name: string; readonly text: string }[] {
  const found = [...text.matchAll(DECLARATION)]
  return found.map((match, index) => {
    const [whole] = text.slice(match.index, found[index + 1]?.index).split(/^export \{/m)
    const bare = whole?.replace(/\b(?:export|declare) |\s\*(?!\/)|\$\d+|[\s;,'"|()]/g, '') ?? ''
    return { name: match[1] ?? '', text: bare }
  })
}

/** Returns the targets of the relative links of a page, without those in code blocks, as paths in the package. */
function linksOf(page: string, markdown: string): string[] {
  const prose = markdown.replace(/^ *```[\s\S]*?^ *```$/gm, '').replace(/`[^`\n]*`/g, '')
  return Array.from(prose.matchAll(/\]\(<?([^)\s>#]*)[^)]*\)|^\[[^\]]+\]: +(\S+)/gm))
    .map(([, inline, reference]) => (inline ?? reference ?? '').replace(/#.*/, ''))
    .filter((target) => target !== '' && !/^[a-z]+:/.test(target))
    .map((target) => posix.join(posix.dirname(page), target))
}

function declarationsIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.d.ts'))
    .map((file) => readFileSync(join(folder, file), 'utf8'))
}

describe('the package', function () {
  this.timeout(60_000)

  let folder: string
  let tarball: string
  let packed: Packed
  /** The folder of an application that has installed the package, and the package in it. */
  let application: string
  let unpacked: string
  /** The folder of an application without the SDK. */
  let withoutSdk: string

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mcp-gatekit-'))
    packed = await pack(folder)
    tarball = packed.tarball
    application = join(folder, 'application')
    unpacked = await unpack(tarball, application)
    await link([...Object.keys(manifest().dependencies), '@modelcontextprotocol/server'], application)
    withoutSdk = join(folder, 'without-sdk')
    await unpack(tarball, withoutSdk)
    await link(Object.keys(manifest().dependencies), withoutSdk)
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  /** The package.json of the tarball. */
  function manifest() {
    return JSON.parse(readFileSync(join(unpacked, 'package.json'), 'utf8'))
  }

  it('the tarball contains the bundles, the template, the documentation, and nothing else', () => {
    const others = packed.files.filter(
      (path) =>
        !/^dist\/.*\.(?:js|d\.ts)$|^template\/|^docs\/(?!internals\/).*\.md$|^skills\/mcp-gatekit\/SKILL\.md$|^examples\/.*\.(?:ts|md|yaml|conf)$|^examples\/browser\/(?:index\.html|page\.js)$|^examples\/observability\/dashboard\.json$/.test(
          path,
        ),
    )
    const legal = ['package.json', 'LICENSE', 'README.md', 'SECURITY.md']
    expect(others).to.include.members(legal)
    expect([...legal, 'llms.txt']).to.include.members(others)
    expect(packed.files).to.include.members([
      'docs/reference/errors.md',
      'skills/mcp-gatekit/SKILL.md',
      'dist/index.js',
      'dist/index.d.ts',
      'dist/telemetry/index.js',
      'dist/telemetry/index.d.ts',
      'docs/reference/errors.md',
      'template/gitignore',
      'template/package.json',
      'template/app.ts',
      'template/server.ts',
    ])
  })

  it('the tarball has at most 750 kB, and 2.6 MB unpacked', () => {
    expect(packed.size).to.be.at.most(MAX_TARBALL.packed)
    expect(packed.unpackedSize).to.be.at.most(MAX_TARBALL.unpacked)
  })

  it('an installation without optional peers adds at most 9 packages and 10 MB, without the SDK and zod', () => {
    const sizes = installed(Object.keys(manifest().dependencies))
    expect(sizes.size).to.be.within(1, MAX_INSTALLED.packages)
    expect([...sizes.keys()].filter((path) => /@modelcontextprotocol|zod/.test(path))).to.deep.equal([])
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, packed.unpackedSize)
    expect(bytes).to.be.within(MAX_INSTALLED.bytes / 4, MAX_INSTALLED.bytes)
  })

  it('every peer is optional', () => {
    const { peerDependencies, peerDependenciesMeta } = manifest()
    const required = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta[name]?.optional)
    expect(required).to.deep.equal([])
  })

  for (const [how, args, prologue] of [
    [
      'import',
      ['--input-type=module'],
      "import * as kit from 'mcp-gatekit'; import * as gate from 'mcp-gatekit/gate'",
    ],
    ['require', [], "const kit = require('mcp-gatekit'), gate = require('mcp-gatekit/gate')"],
  ] as const) {
    it(`${how} loads the main entry and ./gate without the SDK, and functions that need it name the command`, async () => {
      const script = `${prologue}
        const router = kit.KitMcpRouter.create().tool('ping', { description: 'Pings' }, () => 'pong')
        const oauth = { issuer: 'https://a.example', resource: 'https://m.example/mcp', verifyToken: () => undefined }
        console.log(typeof gate.mcpAuth(oauth), Object.keys(gate).every((name) => gate[name] === kit[name]))
        for (const call of [
          () => kit.createMcpAdapter({ router }),
          () => kit.KitMcpServer.create().router(router).build(),
          () => kit.serveStdio(router),
        ])
          try {
            call()
          } catch (error) {
            console.log(error instanceof gate.KitMcpConfigError, error.message.split('. ').slice(0, 2).join('. '))
          }`
      const { stdout, stderr } = await run(process.execPath, [...args, '-e', script], { cwd: withoutSdk })
      const command = 'Run npm install @modelcontextprotocol/server'
      const missing = 'needs the package @modelcontextprotocol/server, which is not installed'
      expect(stdout.trim().split('\n')).to.deep.equal([
        'function true',
        `true createMcpAdapter ${missing}. ${command}`,
        `true KitMcpServer ${missing}. ${command}`,
        `true serveStdio ${missing}. ${command}`,
      ])
      expect(stderr).to.equal('')
    })
  }

  it('a hook of require that compiles modules once more, as tsx does, does not separate a verifier from its gate', async () => {
    const hook = join(application, 'hook.cjs')
    writeFileSync(
      hook,
      `const { Module } = require('node:module')
      const load = Module._extensions['.js']
      Module._extensions['.js'] = (loaded, file) => {
        if (!file.endsWith('serving.js')) return load(loaded, file)
        console.log('replaced')
        loaded.exports = { KitMcpConfigError: class extends Error {}, McpEndpoint: class {} }
      }`,
    )
    const script = `
      import { createMcpAdapter, jwtVerifier, KitMcpRouter } from 'mcp-gatekit'
      import { createTestIssuer } from 'mcp-gatekit/testing'
      const issuer = createTestIssuer()
      const { server } = createMcpAdapter({
        router: KitMcpRouter.create().tool('ping', { description: 'Pings' }, () => 'pong'),
        oauth: {
          issuer: issuer.issuer,
          resource: issuer.audience,
          verifyToken: jwtVerifier({ publicKey: issuer.verifierOptions.publicKey }),
        },
      })
      const response = await server(new Request('http://localhost/mcp', {
        method: 'POST',
        headers: {
          authorization: 'Bearer ' + (await issuer.issueToken({ sub: 'ada' })),
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2025-06-18',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      }))
      console.log(response.status)`
    const { stdout, stderr } = await run(
      process.execPath,
      ['--require', hook, '--input-type=module', '-e', script],
      { cwd: application },
    )
    expect(stderr).to.equal('')
    expect(stdout.trim().split('\n')).to.deep.equal(['replaced', '200'])
  })

  it('an application in a bundle gets the SDK that the bundler has found', async () => {
    const output = await bundled("export { createMcpAdapter } from 'mcp-gatekit'")
    const code = output.map((file) => ('code' in file ? file.code : '')).join()
    expect(code).to.contain('@modelcontextprotocol/server').but.not.contain('serving.js')
  })

  it('every relative link of a shipped page leads to a file of the tarball', () => {
    const pages = packed.files.filter((path) => /^(?!template\/).*\.(?:md|txt)$/.test(path))
    const links = pages.flatMap((page) =>
      linksOf(page, readFileSync(join(unpacked, page), 'utf8')).map((target) => ({ page, target })),
    )
    expect(links).to.have.length.above(300)
    expect(links.filter(({ page }) => page === 'README.md')).to.have.length.above(10)
    // The registry shows the README with the pictures of the repository.
    const files = links.filter(({ target }) => !target.startsWith('docs/images/'))
    const broken = files.filter(({ target }) => !existsSync(join(unpacked, target)))
    expect(broken.map(({ page, target }) => `${page}: ${target}`)).to.deep.equal([])
  })

  it('the skill has the name of its folder and a description, as Agent Skills require', () => {
    const text = readFileSync(join(unpacked, 'skills', 'mcp-gatekit', 'SKILL.md'), 'utf8')
    const { name, description, ...others } = parse(/^---\n([\s\S]*?)^---$/m.exec(text)?.[1] ?? '')
    expect(name).to.equal('mcp-gatekit')
    expect(description).to.be.a('string').and.have.length.within(1, 1_024)
    expect(Object.keys(others)).to.deep.equal(['license', 'compatibility'])
    expect(others.compatibility).to.have.length.below(501)
  })

  it('every test and source that a shipped page names exists in the repository', () => {
    const pages = packed.files.filter((path) => /^docs\/.*\.md$/.test(path))
    const named = pages.flatMap((page) =>
      Array.from(
        readFileSync(join(unpacked, page), 'utf8').matchAll(/`((?:test|src)\/[\w./-]+)`/g),
        ([, path = '']) => ({ page, path }),
      ),
    )
    expect(named).to.have.length.above(20)
    const unknown = named.filter(({ path }) => !existsSync(join(root, path)))
    expect(unknown.map(({ page, path }) => `${page}: ${path}`)).to.deep.equal([])
  })

  it('package.json, package-lock.json, the sources, and the changelog have one version', () => {
    const versions = ['package.json', 'package-lock.json'].map(
      (file) => JSON.parse(readFileSync(join(root, file), 'utf8')).version,
    )
    expect(versions).to.deep.equal([VERSION, VERSION])
    const [, latest] = /^## (\S+)/m.exec(readFileSync(join(root, 'CHANGELOG.md'), 'utf8')) ?? []
    expect(latest).to.equal(VERSION)
  })

  it('the stack trace of an error in a handler names the functions of the package', async () => {
    const script = `
      import { createMcpAdapter, KitMcpRouter } from 'mcp-gatekit'
      Error.stackTraceLimit = 100
      const router = KitMcpRouter.create().tool('fail', { description: 'Fails' }, async function failingHandler() {
        const error = new Error('failed')
        console.log(error.stack)
        throw error
      })
      const { server } = createMcpAdapter({ router })
      await server(new Request('http://localhost/mcp', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2025-06-18',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'fail', arguments: {} } }),
      }))`
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: application,
    })
    expect(stdout).to.match(/^ +at Object\.failingHandler \[as handler\] \(/m)
    const frames = stdout.split('\n').filter((line) => line.includes('/node_modules/mcp-gatekit/dist/'))
    // Arrow functions that are passed as arguments do not have a name.
    const named = frames.filter((line) => !line.includes(' at file:'))
    expect(named).to.have.length.above(1)
    for (const frame of named) expect(frame).to.match(/^ +at (?:async |new )*[\w.#<>]{4,}(?: \[as \w+\])? \(/)
  })

  it('the bundles keep their lines and the names of functions', () => {
    const shared = join(root, 'dist', 'shared')
    const code = readdirSync(shared)
      .map((file) => readFileSync(join(shared, file), 'utf8'))
      .join('\n')
    expect(code).to.match(/^\s*return function mcpAuth\(/m)
    expect(code).to.match(/^async function callTool\(/m)
  })

  /** Returns the files of an application's bundle whose only module is `code`. */
  async function bundled(code: string) {
    const entry = join(root, 'entry.js')
    const bundle = await rolldown({
      input: entry,
      platform: 'node',
      external: /^(?!mcp-gatekit)[^./#]/,
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
    return output
  }

  for (const [names, isBundled] of [
    ['KitTelemetry', false],
    ['COMMON_SECRET_PATTERNS, KitTelemetry', true],
  ] as const) {
    it(`the patterns of common secrets are ${isBundled ? '' : 'not '}part of the bundle of an application that imports ${names}`, async () => {
      const output = await bundled(`export { ${names} } from 'mcp-gatekit/telemetry'`)
      const code = output.map((file) => ('code' in file ? file.code : '')).join()
      for (const part of ['GOCSPX', 'PRIVATE KEY', 'BH CR DE', 'whsec_|sntrys_'])
        expect(code.includes(part), part).to.equal(isBundled)
    })
  }

  for (const [code, limit] of Object.entries(MAX_BUNDLED)) {
    it(`an application's bundle grows by at most ${limit.toLocaleString('en')} bytes: ${code}`, async () => {
      const output = await bundled(code)
      const bytes = output.reduce((sum, file) => sum + ('code' in file ? gzipSync(file.code).length : 0), 0)
      expect(bytes).to.be.within(limit / 2, limit)
    })
  }

  it('the published declarations are those of the sources, with every docstring', () => {
    const written = declarationsIn(join(root, 'build', 'package', 'src')).flatMap(declarations)
    const published = declarationsIn(join(root, 'dist')).flatMap(declarations)
    const known = new Set(written.map(({ text }) => text))
    expect(published).to.have.length.above(150)
    expect(published.filter(({ text }) => !known.has(text))).to.deep.equal([])
    expect(published.find(({ name }) => name === 'mcpAuth')?.text).to.match(/^\/\*\*Requires.*@throws.*\*\//)
  })

  it('publint finds no problem in the tarball', async () => {
    const { stdout } = await run(bin('publint'), ['run', tarball, '--strict'], { cwd: root })
    expect(stdout).to.contain('All good!')
  })

  it('the types resolve for every consumer that can load ESM', async () => {
    const { stdout } = await run(bin('attw'), [tarball, '--profile', 'esm-only', '--format', 'json'], {
      cwd: root,
      maxBuffer: 64 * 1024 * 1024,
    })
    const { analysis } = JSON.parse(stdout)
    expect(Object.keys(analysis.entrypoints)).to.include.members([
      '.',
      './authorization',
      './gate',
      './openapi',
      './skills',
      './telemetry',
      './testing',
      './upstream',
    ])
    const esm = Object.values<{ kind: string; resolutionKind?: string }>(analysis.problems).filter(
      ({ resolutionKind }) => resolutionKind === undefined || /node16-esm|bundler/.test(resolutionKind),
    )
    expect(esm).to.deep.equal([])
  })

  it('the declarations need only the dependencies, the SDK, and the types of Node', async () => {
    // The types of Express, cors, and OpenTelemetry are missing, as in an application that does not use them.
    const consumer = join(folder, 'consumer')
    await unpack(tarball, consumer)
    const needed = ['@modelcontextprotocol', '@standard-schema', 'jose', 'oauth4webapi', 'zod']
    await link([...needed, '@types/node', 'undici-types'], consumer)
    await writeFile(
      join(consumer, 'use.ts'),
      [
        'mcp-gatekit',
        'mcp-gatekit/authorization',
        'mcp-gatekit/gate',
        'mcp-gatekit/openapi',
        'mcp-gatekit/skills',
        'mcp-gatekit/telemetry',
        'mcp-gatekit/testing',
        'mcp-gatekit/upstream',
      ]
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

  it('the declarations of ./gate need neither the SDK nor zod', async () => {
    const consumer = join(folder, 'consumer-of-gate')
    await unpack(tarball, consumer)
    await link(['@standard-schema', 'jose', 'oauth4webapi', '@types/node', 'undici-types'], consumer)
    await writeFile(
      join(consumer, 'use.ts'),
      `import { jwtVerifier, mcpAuth } from 'mcp-gatekit/gate'
      mcpAuth({ issuer: 'https://a.example', resource: 'https://m.example/mcp', verifyToken: jwtVerifier() }).name.length`,
    )
    await writeFile(join(consumer, 'package.json'), '{"type":"module"}')
    const options = ['--strict', '--module', 'nodenext', '--target', 'es2022', '--noEmit', '--types', 'node']
    const { stdout } = await run(bin('tsc'), [...options, 'use.ts'], { cwd: consumer }).catch(
      (error) => error,
    )
    expect(stdout).to.equal('')
  })

  describe('the files that an import loads', () => {
    /** Returns the packages and the files of `dist` that `specifier` loads in a separate process. */
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
      // Node finds the package by its own name through `exports`.
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: root })
      const urls = `${await readFile(log, 'utf8')}\n${stdout}`.split('\n').filter((line) => line !== '')
      const names = urls.map((url) => {
        const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url) ?? []
        return name ?? url.slice(url.indexOf('/dist/') + 1)
      })
      return [...new Set(names)]
    }

    /** Returns the code of the loaded files of `dist`. */
    function oursAmong(loaded: readonly string[]): string {
      const files = loaded.filter((name) => name.startsWith('dist/'))
      return files.map((name) => readFileSync(join(root, name), 'utf8')).join('\n')
    }

    it('importing ./telemetry loads neither Express, nor the SDK, nor OpenTelemetry', async () => {
      const loaded = await loadedBy('mcp-gatekit/telemetry')
      expect(loaded).to.include('dist/telemetry/index.js')
      expect(
        loaded.filter((name) => /^(?:express|cors|jose)$|^@modelcontextprotocol|^@opentelemetry/.test(name)),
      ).to.deep.equal([])
      expect(oursAmong(loaded)).to.contain('TELEMETRY_SERVICE_REQUIRED').but.not.contain('WWW-Authenticate')
    })

    it('./telemetry and its chunks import neither a module of Node.js nor a package', () => {
      const visited = new Set<string>()
      const foreign = new Set<string>()
      const visit = (file: string): void => {
        if (visited.has(file)) return
        visited.add(file)
        const code = readFileSync(join(root, file), 'utf8')
        for (const [, name = ''] of code.matchAll(
          /^(?:import|export)\b(?:[^'"`;]*?\bfrom)?\s*["']([^"']+)["']/gm,
        )) {
          if (name.startsWith('.')) visit(posix.join(posix.dirname(file), name))
          else foreign.add(name)
        }
      }
      visit('dist/telemetry/index.js')
      expect([...foreign]).to.deep.equal([])
      expect(visited).to.have.property('size').above(2)
      // A dynamic import of a module of Node.js would also be an error in bundles for browsers.
      const code = [...visited].map((file) => readFileSync(join(root, file), 'utf8')).join('\n')
      expect(code)
        .to.contain('getBuiltinModule')
        .but.not.match(/(?:import|require)\(["'](?!@opentelemetry\/)/)
    })

    it('importing ./telemetry loads no slow module of Node', async () => {
      const builtins = async (code: string): Promise<string[]> => {
        const script = `${code}; console.log(process.moduleLoadList.join('\\n'))`
        const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: root })
        return stdout.split('\n').filter((name) => /^NativeModule (?:crypto|https?|tls|net)$/.test(name))
      }
      expect(await builtins("await import('mcp-gatekit/telemetry')")).to.deep.equal(await builtins('0'))
      expect(await builtins("await import('node:crypto')")).to.include('NativeModule crypto')
    })

    it('importing ./testing loads neither Express, nor the SDK, nor OpenTelemetry', async () => {
      const loaded = await loadedBy('mcp-gatekit/testing')
      expect(loaded).to.include('dist/testing/index.js')
      expect(
        loaded.filter((name) => /^(?:express|cors)$|^@modelcontextprotocol|^@opentelemetry/.test(name)),
      ).to.deep.equal([])
    })

    it('importing ./gate loads neither the SDK, nor telemetry, nor routers', async () => {
      const loaded = await loadedBy('mcp-gatekit/gate')
      expect(loaded).to.include('dist/gate.js')
      expect(loaded.filter((name) => /^(?:express|jose|zod)$|^@/.test(name))).to.deep.equal([])
      expect(oursAmong(loaded))
        .to.contain('WWW-Authenticate')
        .but.not.match(/TELEMETRY_SERVICE_REQUIRED|class KitMcpRouter|class McpEndpoint/)
    })

    it('importing the main entry loads neither the SDK, nor OpenTelemetry, nor jose, nor Express', async () => {
      const loaded = await loadedBy('mcp-gatekit')
      expect(loaded).to.include('dist/index.js')
      const unwanted =
        /^(?:express|jose|oauth4webapi|express-oauth2-jwt-bearer|zod)$|^@opentelemetry|^@modelcontextprotocol/
      expect(loaded.filter((name) => unwanted.test(name))).to.deep.equal([])
      expect(loaded.filter((name) => name.startsWith('dist/cli/'))).to.deep.equal([])
      expect(oursAmong(loaded)).to.contain('oauth-protected-resource').but.not.contain('toolsFromOpenApi')
    })

    it('importing ./openapi loads none of its optional peers', async () => {
      const loaded = await loadedBy('mcp-gatekit/openapi')
      expect(oursAmong(loaded)).to.contain('toolsFromOpenApi').but.not.contain('TELEMETRY_SERVICE_REQUIRED')
      expect(
        loaded.filter((name) => /^(?:@seriousme\/.*|ajv.*|yaml|light-my-request|express)$/.test(name)),
      ).to.deep.equal([])
    })

    it('importing ./authorization loads none of its optional peers', async () => {
      const loaded = await loadedBy('mcp-gatekit/authorization')
      expect(loaded).to.include('dist/authorization/index.js')
      expect(
        loaded.filter((name) => /^(?:oidc-provider|openid-client|koa|express)$/.test(name)),
      ).to.deep.equal([])
    })

    it('the check of loaded packages sees ESM and CommonJS', async () => {
      expect(await loadedBy('express')).to.include.members(['express', 'body-parser'])
      expect(await loadedBy('jose')).to.include('jose')
      expect(await loadedBy('@opentelemetry/sdk-logs')).to.include('@opentelemetry/api')
    })
  })

  it('authorizationFacade without its optional peers throws an error with the command that installs them', async () => {
    const script = `
      import { authorizationFacade, google } from 'mcp-gatekit/authorization'
      authorizationFacade({
        url: 'http://127.0.0.1:3000',
        resource: 'http://127.0.0.1:3000/mcp',
        upstream: google({ clientId: 'a', clientSecret: 'b' }),
        scopes: { 'mcp:read': 'Read' },
        allow: 'everyone',
      })`
    const { stderr } = await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: application,
    }).catch((error) => error)
    expect(stderr).to.match(/KitMcpConfigError: authorizationFacade needs the package oidc-provider/)
    expect(stderr).to.contain('npm install oidc-provider@9 openid-client@6')
  })

  it('redisEventStore without BullMQ throws an error with the command that installs it', async () => {
    const script = `
      import { redisEventStore } from 'mcp-gatekit'
      redisEventStore({ eval() {}, publish() {}, duplicate() {} })`
    const { stderr } = await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: application,
    }).catch((error) => error)
    expect(stderr).to.match(
      /KitMcpConfigError: redisEventStore needs packages \(bullmq\) that are not installed/,
    )
    expect(stderr).to.contain('npm install bullmq@6')
  })

  it('the installed command runs without Express and the SDK', async () => {
    const prefix = join(folder, 'installed')
    const { bin } = manifest()
    const file = join(await unpack(tarball, prefix), bin['mcp-gatekit'])
    expect(await readFile(file, 'utf8')).to.match(/^#!\/usr\/bin\/env node\n/)
    await link(['jose', 'oauth4webapi', 'lru-cache'], prefix)
    const { stdout } = await run(process.execPath, [file, 'doctor', '--list'])
    expect(stdout).to.match(/^server\.reachable +The server \w+$/m)
    const explained = await run(process.execPath, [file, 'explain', 'oauth-issuer'])
    expect(explained.stdout).to.match(/^oauth: issuer\n/)
  })

  it('the stack trace of a wrong option names the called function, and its lines are short', async () => {
    const script = "import { mcpAuth } from 'mcp-gatekit'\nmcpAuth({ isuer: 'https://auth.example.com' })"
    const { stderr } = await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: root,
    }).catch((error) => error)
    expect(stderr).to.match(
      /KitMcpConfigError: .*isuer.*\n(?: +at .*\n)* +at mcpAuth \(.*dist\/shared\/\w+\.js:\d+/,
    )
    expect(Math.max(...stderr.split('\n').map((line: string) => line.length))).to.be.below(1_500)
  })

  it('only the entries of the package can be imported', async () => {
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

  it('require() loads the package if Node can require ESM', async () => {
    const script =
      "console.log(typeof require('mcp-gatekit').mcpAuth, typeof require('mcp-gatekit/telemetry').KitTelemetry)"
    const { stdout } = await run(process.execPath, ['-e', script], { cwd: root })
    expect(stdout.trim()).to.equal('function function')
  })
})
