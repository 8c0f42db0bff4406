import { readdirSync, readFileSync } from 'node:fs'
import { posix, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

/** One import of a file: what is imported, and whether only its types. */
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

/** Who may import what else of ours, by folder: `types` for types only. */
const MAP: Readonly<Record<string, Readonly<Record<string, 'all' | 'types'>>>> = {
  oauth: {},
  telemetry: {},
  mcp: { oauth: 'all', telemetry: 'types' },
  express: { oauth: 'all', mcp: 'all' },
  openapi: { oauth: 'all', mcp: 'all' },
  testing: { oauth: 'all', telemetry: 'all' },
  cli: { oauth: 'all' },
}

/** The files of mcp/ that may know telemetry. */
const KNOW_TELEMETRY = [
  'mcp/observation/observe.ts',
  'mcp/router/context.ts',
  'mcp/server.ts',
  'mcp/service.ts',
]

/** Which folder of mcp/ may import what of the others. What lies beside them is for all of them. */
const MCP_MAP: typeof MAP = {
  router: {},
  operations: { router: 'all', sdk: 'types' },
  sdk: { router: 'all', operations: 'all' },
  observation: { sdk: 'all' },
}

/** What a transport may import of the telemetry around it. */
const TRANSPORT_CONTRACT = [
  'transport',
  'envelope',
  'levels',
  'errors',
  'options',
  'pending-work',
  'suggestion',
].map((name) => `telemetry/${name}.ts`)

/** Where packages that users bring themselves may be imported. */
const PEERS: readonly { readonly peer: RegExp; readonly where: RegExp; readonly types?: true }[] = [
  { peer: /^@modelcontextprotocol\//, where: /^mcp\// },
  {
    peer: /^@opentelemetry\//,
    where: /^(?:telemetry\/transports\/otlp[^/]*|mcp\/observation\/tracing)\.ts$/,
  },
  { peer: /^express$/, where: /^express\//, types: true },
  // It is the user's own, and loaded from where the user has it.
  { peer: /^oidc-provider$/, where: /^cli\/dev\//, types: true },
]

const folderOf = (file: string): string => (file.includes('/') ? (file.split('/')[0] as string) : '')

/** What in `files`, by path within src, is against the map. */
function violations(files: ReadonlyMap<string, string>): string[] {
  const found: string[] = []
  for (const [file, source] of files) {
    const folder = folderOf(file)
    if (!file.split('/').every((part) => /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.ts)?$/.test(part)))
      found.push(`${file}: is not in kebab-case`)
    if (/(?:^|\/)(?:utils?|helpers?|types)\.ts$/.test(file))
      found.push(`${file}: says nothing of what is in it`)
    if (/^\s*export\s+default\b|\bas\s+default\b/m.test(source)) found.push(`${file}: has a default export`)
    if (folder !== '' && !(folder in MAP)) found.push(`${file}: is in a folder that the map does not know`)
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
  if (target === 'index.ts') return 'imports the root index'
  if (file === 'index.ts') return to === 'testing' || to === 'cli' ? `imports ${to}` : undefined
  // What lies beside the root index is for everybody, and imports nothing of ours.
  if (to === '') return undefined
  if (from === '') return 'is for everybody, and may import nothing of ours'
  if (to === 'testing' && from !== 'testing') return 'imports testing'
  if (from !== to) {
    const allowed = MAP[from]?.[to]
    if (allowed === undefined) return `${from} may not import ${to}`
    if (allowed === 'types' && !typeOnly) return `${from} may import types of ${to} only`
    if (from === 'mcp' && to === 'telemetry' && !KNOW_TELEMETRY.includes(file))
      return 'may not know telemetry'
    return undefined
  }
  if (from === 'mcp') return wrongMcpImport(file, target, typeOnly)
  const inTransports = file.startsWith('telemetry/transports/')
  const toTransports = target.startsWith('telemetry/transports/')
  if (inTransports && !toTransports && !TRANSPORT_CONTRACT.includes(target))
    return 'a transport imports more than its contract'
  if (!inTransports && toTransports && file !== 'telemetry/index.ts') return 'knows a transport'
  return undefined
}

function wrongMcpImport(file: string, target: string, typeOnly: boolean): string | undefined {
  const [from, to] = [file, target].map((path) => folderOf(path.slice('mcp/'.length))) as [string, string]
  if (from === '' || to === '' || from === to) return undefined
  const allowed = MCP_MAP[from]?.[to]
  if (allowed === undefined) return `mcp/${from} may not import mcp/${to}`
  return allowed === 'types' && !typeOnly ? `mcp/${from} may import types of mcp/${to} only` : undefined
}

function wrongPackage(file: string, specifier: string, typeOnly: boolean): string | undefined {
  if (specifier.startsWith('mcp-gatekit')) return 'imports the package by its name'
  const rule = PEERS.find(({ peer }) => peer.test(specifier))
  if (rule === undefined) return undefined
  if (!rule.where.test(file)) return 'imports a peer in the wrong place'
  return rule.types === true && !typeOnly ? 'imports a peer at run time' : undefined
}

/** The sources, wherever this file was compiled to. */
function sources(): Map<string, string> {
  const src = fileURLToPath(new URL('../../src/', import.meta.url))
  const files = readdirSync(src, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}${sep}${entry.name}`)
  return new Map(
    files.map((file) => [relative(src, file).split(sep).join('/'), readFileSync(file, 'utf8')] as const),
  )
}

describe('architecture', () => {
  it('keeps to the map', () => {
    const files = sources()
    expect(files.size).to.be.greaterThan(30)
    expect([...files.keys()]).to.include.members(['index.ts', 'mcp/server.ts', 'telemetry/index.ts'])
    expect(violations(files)).to.deep.equal([])
  })

  it('sees every import of a file', () => {
    const imports = importsOf(
      [
        "import a from 'a'",
        "import { b } from './b.ts'",
        "import type { C } from 'c'",
        "import { type D, type E } from 'd'",
        "import { type F, f } from 'f'",
        "import type * as G from 'g'",
        'import {\n  h,\n  type I,\n} from "nothing"'.replaceAll('"', "'"),
        "import 'j'",
        "export { k } from 'k'",
        "export type { L } from 'l'",
        "export * from 'm'",
        "const n = await import('n')",
        "type O = typeof import('o')",
        "// import p from 'p'",
        "/* import q from 'q' */",
      ].join('\n'),
    )
    const seen = imports.map(({ specifier, typeOnly }) => `${specifier}${typeOnly ? ' (types)' : ''}`)
    expect(seen).to.have.members([
      'a',
      './b.ts',
      'c (types)',
      'd (types)',
      'f',
      'g (types)',
      'nothing',
      'j',
      'k',
      'l (types)',
      'm',
      'n',
      'o (types)',
    ])
  })

  for (const [file, source, complaint] of [
    ['oauth/gate.ts', "import { a } from '../mcp/rpc.ts'", 'oauth may not import mcp'],
    ['oauth/gate.ts', "import type { A } from '../telemetry/levels.ts'", 'oauth may not import telemetry'],
    ['telemetry/manager.ts', "import { a } from '../oauth/scope.ts'", 'telemetry may not import oauth'],
    ['mcp/server.ts', "import { a } from '../express/target.ts'", 'mcp may not import express'],
    [
      'mcp/observation/observe.ts',
      "import { a } from '../../telemetry/manager.ts'",
      'types of telemetry only',
    ],
    [
      'mcp/router/tool.ts',
      "import type { A } from '../operations/tool-call.ts'",
      'may not import mcp/operations',
    ],
    ['mcp/operations/tool-call.ts', "import { a } from '../sdk/servers.ts'", 'types of mcp/sdk only'],
    ['mcp/rpc.ts', "import type { A } from '../telemetry/manager.ts'", 'may not know telemetry'],
    ['express/target.ts', "import type { A } from '../telemetry/manager.ts'", 'may not import telemetry'],
    ['telemetry/manager.ts', "import { a } from './transports/mock.ts'", 'knows a transport'],
    ['telemetry/transports/http.ts', "import { a } from '../manager.ts'", 'more than its contract'],
    ['mcp/server.ts', "import { a } from '../index.ts'", 'the root index'],
    ['mcp/server.ts', "import { a } from '../testing/index.ts'", 'imports testing'],
    ['index.ts', "import { a } from './cli/run.ts'", 'imports cli'],
    ['mcp/server.ts', "import { a } from '../cli/run.ts'", 'mcp may not import cli'],
    ['cli/run.ts', "import { a } from '../mcp/server.ts'", 'cli may not import mcp'],
    ['cli/run.ts', "import type { A } from '@modelcontextprotocol/client'", 'wrong place'],
    ['mcp/server.ts', "import { a } from 'mcp-gatekit'", 'by its name'],
    ['version.ts', "import { a } from './oauth/scope.ts'", 'is for everybody'],
    ['oauth/gate.ts', "import { a } from './scope'", 'does not name the file'],
    ['express/mcp-cors.ts', "import express from 'express'", 'at run time'],
    ['express/mcp-cors.ts', "const e = await import('express')", 'at run time'],
    ['mcp/server.ts', "import type { A } from 'express'", 'wrong place'],
    ['oauth/gate.ts', "import type { A } from '@modelcontextprotocol/server'", 'wrong place'],
    ['telemetry/manager.ts', "import { a } from '@opentelemetry/api'", 'wrong place'],
    ['telemetry/transports/http.ts', "import type { A } from '@opentelemetry/api'", 'wrong place'],
    ['mcp/observation/observe.ts', "import { trace } from '@opentelemetry/api'", 'wrong place'],
    ['mcp/Server.ts', '', 'kebab-case'],
    ['mcp/my_server.ts', '', 'kebab-case'],
    ['mcp/helpers.ts', '', 'says nothing'],
    ['mcp/types.ts', '', 'says nothing'],
    ['mcp/server.ts', 'export default class A {}', 'default export'],
    ['mcp/server.ts', 'const a = 1\nexport { a as default }', 'default export'],
    ['grpc/server.ts', '', 'folder that the map does not know'],
  ] as const) {
    it(`complains of ${file}: ${source === '' ? 'its name' : source.split('\n').at(-1)}`, () => {
      const found = violations(new Map([[file, source]]))
      expect(found).to.have.length(1)
      expect(found[0]).to.contain(complaint)
    })
  }

  for (const [file, source] of [
    ['index.ts', "export { a } from './telemetry/index.ts'"],
    ['mcp/service.ts', "import type { A } from '../telemetry/manager.ts'"],
    ['mcp/observation/tracing.ts', "const api = await import('@opentelemetry/api')"],
    ['mcp/operations/operation.ts', "import type { A } from '../sdk/event-stream.ts'"],
    ['mcp/router/context.ts', "import type { A } from '../exchange.ts'"],
    ['mcp/server.ts', "import { McpServer } from '@modelcontextprotocol/server'"],
    ['express/target.ts', "import type { Request } from 'express'"],
    ['express/target.ts', "import { serviceOf } from '../mcp/server.ts'"],
    ['telemetry/index.ts', "export { A } from './transports/mock.ts'"],
    ['telemetry/transports/otlp-record.ts', "import type * as Api from '@opentelemetry/api'"],
    ['telemetry/transports/otlp.ts', "import { VERSION } from '../../version.ts'"],
    ['testing/index.ts', "import { a } from '../oauth/scope.ts'"],
    ['cli/doctor/tokens.ts', "import { a } from '../../oauth/scope.ts'"],
  ] as const) {
    it(`has nothing against ${source} in ${file}`, () => {
      expect(violations(new Map([[file, source]]))).to.deep.equal([])
    })
  }
})
