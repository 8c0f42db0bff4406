import { readdirSync, readFileSync } from 'node:fs'
import { posix, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

/** One import of a file. */
interface Import {
  readonly specifier: string
  readonly typeOnly: boolean
}

/** `import … from 'x'`, `export … from 'x'`, `import 'x'` and `import('x')`, over several lines too. */
const STATEMENT = /^[ \t]*(?:import|export)\b(?<what>[^'"`;=()]*?)\bfrom\s*'(?<from>[^']+)'/gm
const BARE = /^[ \t]*import\s*'(?<from>[^']+)'/gm
const DYNAMIC = /(?<type>typeof\s+)?\bimport\(\s*'(?<from>[^']+)'/gm

function importsOf(source: string): Import[] {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
  return [
    ...[...code.matchAll(STATEMENT)].map(({ groups }) => ({
      specifier: groups?.from as string,
      typeOnly: isTypeOnly(groups?.what as string),
    })),
    ...[...code.matchAll(BARE)].map(({ groups }) => ({
      specifier: groups?.from as string,
      typeOnly: false,
    })),
    ...[...code.matchAll(DYNAMIC)].map(({ groups }) => ({
      specifier: groups?.from as string,
      typeOnly: groups?.type !== undefined,
    })),
  ]
}

/** `type { A }`, or `{ type A, type B }`. */
function isTypeOnly(clause: string): boolean {
  if (/^\s*type\b/.test(clause)) return true
  const names = /\{([^}]*)\}/
    .exec(clause)?.[1]
    ?.split(',')
    .filter((name) => name.trim() !== '')
  return names?.every((name) => /^\s*type\s/.test(name)) ?? false
}

/** The folders that a folder may import, by name: `types` if it may import only types. */
const MAP: Readonly<Record<string, Readonly<Record<string, 'all' | 'types'>>>> = {
  base: {},
  oauth: { base: 'all' },
  mcp: { base: 'all', oauth: 'all', telemetry: 'types' },
  redis: { base: 'all', oauth: 'all', mcp: 'types' },
  express: { base: 'all', oauth: 'all', mcp: 'all', telemetry: 'types' },
  telemetry: { base: 'all' },
  openapi: { base: 'all', oauth: 'all', mcp: 'all' },
  testing: { base: 'all', oauth: 'all', telemetry: 'all' },
  upstream: { base: 'all', oauth: 'all', mcp: 'all' },
  skills: { base: 'all', mcp: 'all' },
  authorization: { base: 'all', oauth: 'all', mcp: 'all', upstream: 'all', telemetry: 'types' },
}

/** The folders of base/ that a folder of base/ may import. All import the files next to these folders. */
const BASE_MAP: typeof MAP = {
  http: {},
  options: { http: 'all' },
  shutdown: { options: 'all', http: 'all' },
}

/** The files of mcp/ and express/ that may import types of telemetry. */
const MAY_IMPORT_TELEMETRY = [
  'mcp/instrumentation/request-events.ts',
  'mcp/operations/operation.ts',
  'mcp/router/context.ts',
  'mcp/telemetry-option.ts',
  'mcp/wire/exchange.ts',
]

/** The folders of mcp/ that a folder of mcp/ may import. The files next to these folders import all of them. */
const MCP_MAP: typeof MAP = {
  wire: {},
  router: { wire: 'all' },
  operations: { wire: 'all', router: 'all' },
  tasks: { wire: 'all', router: 'all', operations: 'all' },
  events: { wire: 'all', router: 'all', operations: 'all', instrumentation: 'types' },
  sdk: { wire: 'all', router: 'all', operations: 'all', tasks: 'all', events: 'types' },
  instrumentation: { wire: 'all', sdk: 'all' },
  stdio: {
    wire: 'all',
    router: 'all',
    operations: 'all',
    events: 'all',
    sdk: 'all',
    instrumentation: 'all',
  },
}

/** The folders of telemetry/ that a folder of telemetry/ may import. The files next to these folders import all of them. */
const TELEMETRY_MAP: typeof MAP = {
  events: {},
  envelope: {},
  session: { envelope: 'all', events: 'types', delivery: 'all' },
  delivery: { envelope: 'types' },
  audit: { envelope: 'all', delivery: 'all', session: 'all' },
  transports: { envelope: 'types', delivery: 'all' },
}

/** The files of telemetry/ that a transport may import, besides types of the envelope and other transports. */
const TRANSPORT_CONTRACT = [
  'delivery/transport',
  'delivery/pending-work',
  'envelope/envelope',
  'errors',
  'levels',
  'options',
  'otel-context',
].map((name) => `telemetry/${name}.ts`)

/** Where packages that users bring themselves may be imported. */
const PEERS: readonly { readonly peer: RegExp; readonly where: RegExp; readonly types?: true }[] = [
  { peer: /^@modelcontextprotocol\//, where: /^(?:mcp|redis|skills)\// },
  {
    peer: /^@opentelemetry\//,
    where: /^(?:telemetry\/transports\/otlp\/[^/]*|mcp\/instrumentation\/tracing)\.ts$/,
  },
  { peer: /^express$/, where: /^express\//, types: true },
  { peer: /^(?:@seriousme\/openapi-schema-validator|light-my-request|yaml)$/, where: /^openapi\// },
  { peer: /^(?:oidc-provider|openid-client)$/, where: /^authorization\// },
  { peer: /^bullmq$/, where: /^redis\// },
]

const folderOf = (file: string): string => (file.includes('/') ? (file.split('/')[0] as string) : '')

/** Returns the violations of the rules in `files`, whose keys are paths within src. */
function violations(files: ReadonlyMap<string, string>): string[] {
  const found: string[] = []
  for (const [file, source] of files) {
    const folder = folderOf(file)
    if (!file.split('/').every((part) => /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.ts)?$/.test(part)))
      found.push(`${file}: is not in kebab-case`)
    if (/(?:^|\/)(?:utils?|helpers?|types)\.ts$/.test(file))
      found.push(`${file}: has a name that does not describe its content`)
    if (/^\s*export\s+default\b|\bas\s+default\b/m.test(source)) found.push(`${file}: has a default export`)
    if (folder === '' && file !== 'index.ts' && file !== 'gate.ts') found.push(`${file}: is not in a folder`)
    if (folder !== '' && !(folder in MAP)) found.push(`${file}: is in a folder that is not in the map`)
    for (const { specifier, typeOnly } of importsOf(source)) {
      const wrong = specifier.startsWith('.')
        ? wrongOwnImport(file, posix.join(posix.dirname(file), specifier), typeOnly)
        : wrongPackage(file, specifier, typeOnly)
      if (wrong !== undefined) found.push(`${file}: ${wrong} (${specifier})`)
    }
  }
  return found
}

function wrongOwnImport(file: string, target: string, typeOnly: boolean): string | undefined {
  const [from, to] = [folderOf(file), folderOf(target)]
  if (!target.endsWith('.ts')) return 'does not name the file'
  if (target.startsWith('../')) return 'imports what is not part of the library'
  if (target === 'index.ts') return 'imports the root index'
  if (file === 'index.ts' || file === 'gate.ts') return to === 'testing' ? 'imports testing' : undefined
  if (to === 'testing' && from !== 'testing') return 'imports testing'
  if (from !== to) {
    const allowed = MAP[from]?.[to]
    if (allowed === undefined) return `${from} may not import ${to}`
    if (allowed === 'types' && !typeOnly) return `${from} may import only types of ${to}`
    if ((from === 'mcp' || from === 'express') && to === 'telemetry' && !MAY_IMPORT_TELEMETRY.includes(file))
      return 'may not import telemetry'
    return undefined
  }
  if (from === 'base') return wrongSubfolder(BASE_MAP, file, target, typeOnly)
  if (from === 'mcp') return wrongSubfolder(MCP_MAP, file, target, typeOnly)
  if (from !== 'telemetry') return undefined
  const isTransport = (path: string): boolean => path.startsWith('telemetry/transports/')
  if (isTransport(file) && !isTransport(target) && !TRANSPORT_CONTRACT.includes(target))
    return 'a transport imports more than its contract'
  if (!isTransport(file) && isTransport(target) && file !== 'telemetry/index.ts') return 'imports a transport'
  return wrongSubfolder(TELEMETRY_MAP, file, target, typeOnly)
}

/** Checks an import between two folders of one folder. */
function wrongSubfolder(
  map: typeof MAP,
  file: string,
  target: string,
  typeOnly: boolean,
): string | undefined {
  const [, from, to] = [file, file.split('/')[1], target.split('/')[1]] as [string, string, string]
  if (from.endsWith('.ts') || to.endsWith('.ts') || from === to) return undefined
  const allowed = map[from]?.[to]
  if (allowed === undefined) return `${from} may not import ${to}`
  return allowed === 'types' && !typeOnly ? `${from} may import only types of ${to}` : undefined
}

/** Returns the circles of imports, of types too, each as its files in alphabetical order. */
function circles(files: ReadonlyMap<string, string>): string[][] {
  const imported = (file: string): string[] =>
    importsOf(files.get(file) ?? '')
      .filter(({ specifier }) => specifier.startsWith('.'))
      .map(({ specifier }) => posix.join(posix.dirname(file), specifier))
  const reached = new Map(
    [...files.keys()].map((file) => {
      const seen = new Set<string>()
      const open = imported(file)
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        if (seen.has(next)) continue
        seen.add(next)
        open.push(...imported(next))
      }
      return [file, seen] as const
    }),
  )
  const found = new Map<string, string[]>()
  for (const [file, seen] of reached) {
    if (!seen.has(file)) continue
    const circle = [...seen].filter((other) => reached.get(other)?.has(file)).sort()
    found.set(circle.join(), circle)
  }
  return [...found.values()]
}

function wrongPackage(file: string, specifier: string, typeOnly: boolean): string | undefined {
  if (specifier.startsWith('mcp-gatekit')) return 'imports the package by its name'
  const rule = PEERS.find(({ peer }) => peer.test(specifier))
  if (rule === undefined) return undefined
  if (!rule.where.test(file)) return 'imports a peer in the wrong place'
  return rule.types === true && !typeOnly ? 'imports a peer at run time' : undefined
}

/** Returns the sources of the library by their path within `src`. */
function sources(): Map<string, string> {
  return filesOf(fileURLToPath(new URL('../../src/', import.meta.url)))
}

/** Returns the sources of the command line by their path within `cli`. */
function commandLine(): Map<string, string> {
  return filesOf(fileURLToPath(new URL('../../cli/', import.meta.url)))
}

function filesOf(folder: string): Map<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}${sep}${entry.name}`)
  return new Map(
    files.map((file) => [relative(folder, file).split(sep).join('/'), readFileSync(file, 'utf8')] as const),
  )
}

describe('architecture', () => {
  it('every import and file name in src follows the map', () => {
    const files = sources()
    expect(files.size).to.be.greaterThan(30)
    expect([...files.keys()]).to.include.members(['index.ts', 'mcp/adapter.ts', 'telemetry/index.ts'])
    expect(violations(files)).to.deep.equal([])
  })

  it('no folder has more than 20 files beside its folders, and no file more than 400 lines', () => {
    const counts = new Map<string, number>()
    const long: string[] = []
    for (const [room, files] of [
      ['src', sources()],
      ['cli', commandLine()],
    ] as const)
      for (const [file, text] of files) {
        const folder = posix.join(room, posix.dirname(file))
        counts.set(folder, (counts.get(folder) ?? 0) + 1)
        if (text.split('\n').length > 401) long.push(`${room}/${file}`)
      }
    expect([...counts].filter(([, count]) => count > 20)).to.deep.equal([])
    expect(long).to.deep.equal([])
  })

  for (const [folder, files] of [
    ['src', sources],
    ['cli', commandLine],
  ] as const) {
    it(`the imports in ${folder} have no circles, not even of types`, () => {
      expect(circles(files())).to.deep.equal([])
    })
  }

  for (const entry of ['index.ts', 'gate.ts'])
    it(`${entry} loads no code that imports the MCP SDK, which users of the gate need not install`, () => {
      const files = sources()
      const loaded = new Set([entry])
      for (const file of loaded)
        for (const { specifier, typeOnly } of importsOf(
          (files.get(file) ?? '').replaceAll('import(', 'later('),
        ))
          if (!typeOnly)
            loaded.add(specifier.startsWith('.') ? posix.join(posix.dirname(file), specifier) : specifier)
      expect(loaded).to.include('base/runtime.ts')
      expect([...loaded].filter((one) => one.startsWith('@modelcontextprotocol'))).to.deep.equal([])
    })

  it('a circle of imports is found, and a file that only leads to it is not part of it', () => {
    const files = new Map([
      ['mcp/a.ts', "import type { B } from './wire/b.ts'"],
      ['mcp/wire/b.ts', "import { c } from '../c.ts'"],
      ['mcp/c.ts', "import { a } from './a.ts'"],
      ['mcp/d.ts', "import { a } from './a.ts'"],
    ])
    expect(circles(files)).to.deep.equal([['mcp/a.ts', 'mcp/c.ts', 'mcp/wire/b.ts']])
  })

  it('the command line imports only base, oauth, the keys, the stored grants, and the filter of warnings of authorization, verify-audit, the form of webhooks, and the limits of tools', () => {
    const imported = [...commandLine()].flatMap(([file, source]) =>
      importsOf(source)
        .map(({ specifier }) => posix.join('cli', posix.dirname(file), specifier))
        .filter((target) => target.startsWith('src/')),
    )
    expect(imported).to.include('src/base/version.ts')
    for (const target of imported)
      expect(target).to.match(
        /^src\/(?:base\/|oauth\/|authorization\/(?:keys|store|unavailable|grants\/grants|server\/without-notices)\.ts$|telemetry\/(?:audit\/verify-audit|errors)\.ts$|mcp\/router\/limits\.ts$|mcp\/events\/(?:store|webhooks\/(?:callback-url|signature))\.ts$)/,
      )
  })

  for (const [file, source, complaint] of [
    ['oauth/gate.ts', "import { a } from '../mcp/wire/json-rpc.ts'", 'oauth may not import mcp'],
    [
      'mcp/router/tool.ts',
      "import type { A } from '../operations/tool-call.ts'",
      'may not import operations',
    ],
    ['telemetry/manager.ts', "import { a } from './transports/mock.ts'", 'imports a transport'],
    ['version.ts', '', 'is not in a folder'],
    ['oauth/gate.ts', "import { a } from './scope'", 'does not name the file'],
    ['express/mcp-cors.ts', "const e = await import('express')", 'at run time'],
    ['mcp/adapter.ts', "import type { A } from 'express'", 'wrong place'],
    ['mcp/helpers.ts', '', 'does not describe'],
    ['mcp/adapter.ts', 'export default class A {}', 'default export'],
    ['grpc/server.ts', '', 'folder that is not in the map'],
  ] as const) {
    it(`the check reports ${file}: ${source === '' ? 'its name' : source.split('\n').at(-1)}`, () => {
      const found = violations(new Map([[file, source]]))
      expect(found).to.have.length(1)
      expect(found[0]).to.contain(complaint)
    })
  }
})
