// Writes a report of the surface of each entry into test/api-report/, from the declarations that `tsc` has emitted.
// The diff of the reports shows what has changed for users.
//
//   node scripts/api-report.mjs            writes the files
//   node scripts/api-report.mjs --check    fails if the files differ from the declarations
//
// `--declarations` and `--reports` name other folders. Other files in the folder of the reports are removed.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import extractor from '@microsoft/api-extractor'
import { ApiSurface } from './api-surface.mjs'

const { CompilerState, Extractor, ExtractorConfig } = extractor

// The extractor looks for the types of Node from the working directory.
const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)

/** The entries of package.json. The first re-exports the second; its report omits these exports. */
const ENTRIES = [
  { name: 'gate', specifier: 'mcp-gatekit', declarations: 'index.d.ts' },
  { name: 'telemetry', specifier: 'mcp-gatekit/telemetry', declarations: 'telemetry/index.d.ts' },
  { name: 'testing', specifier: 'mcp-gatekit/testing', declarations: 'testing/index.d.ts' },
  {
    name: 'authorization',
    specifier: 'mcp-gatekit/authorization',
    declarations: 'authorization/index.d.ts',
  },
  { name: 'openapi', specifier: 'mcp-gatekit/openapi', declarations: 'openapi/index.d.ts' },
  { name: 'skills', specifier: 'mcp-gatekit/skills', declarations: 'skills/index.d.ts' },
  { name: 'upstream', specifier: 'mcp-gatekit/upstream', declarations: 'upstream/index.d.ts' },
]

/**
 * Types in public signatures that no entry exports, because users do not write them. The reports show them.
 * Every other type in a public signature must be exported.
 */
const NOT_EXPORTED = new Set([
  // Members that several public types share. Each of these types lists them.
  ...['RedisClient', 'McpAuthHandlers'],
  ...['ChatTransport', 'DefinitionConfig', 'OtlpDeliveryOptions', 'ResourceMembers'],
  // Types that the compiler computes from a user's code. Editors show the result.
  ...[
    'AnyDescriptor',
    'AppOf',
    'EventsOf',
    'EventType',
    'MemberOf',
    'PrefixedEvents',
    'ArgsOf',
    'ArgumentNames',
    'Fits',
    'Flat',
    'GivenOf',
    'HandlerGiving',
    'Inputs',
    'Loosely',
  ],
  ...[
    'Names',
    'NamesOf',
    'NoEvents',
    'PathNames',
    'PlainName',
    'Prefixed',
    'QueryNames',
    'ReturnOf',
    'UserOfRouter',
    'ValueOf',
    'WithEvents',
    'WithName',
  ],
  // One of several accepted forms of a literal.
  ...['Listed', 'OtlpAttributes', 'OtlpRecord', 'OtlpValue', 'WholePrompt', 'WrittenMessage'],
])

/** The used parts of other packages' clients. Those packages document the members. */
const FOREIGN_SHAPES = new Set([
  ...[
    'ErrorTrackerContext',
    'ErrorTrackerScope',
    'ErrorTrackerSdk',
    'LineLogger',
    'ObjectLogger',
    'OtlpLoggerProvider',
  ],
  ...['RedisClient'],
])

/** The reported messages of the extractor. It would report the JSDoc of the docstrings as malformed TSDoc. */
const MESSAGES = {
  compilerMessageReporting: { default: { logLevel: 'error' } },
  extractorMessageReporting: {
    default: { logLevel: 'warning' },
    'ae-missing-release-tag': { logLevel: 'none' },
    // `undocumented` below checks this and respects inherited docstrings.
    'ae-undocumented': { logLevel: 'none' },
  },
  tsdocMessageReporting: { default: { logLevel: 'none' } },
}

const { values: given } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    declarations: { type: 'string', default: 'build/package/src' },
    reports: { type: 'string', default: 'test/api-report' },
  },
})
const folder = resolve(given.reports)
const scratch = mkdtempSync(join(tmpdir(), 'mcp-gatekit-api-'))
try {
  const { surface, reports, messages } = extract(resolve(given.declarations))
  const files = new Map(reports.map(([name, text]) => [join(folder, name), text]))
  const problems = [...messages, ...undocumented(surface), ...(given.check ? differences(files) : [])]
  if (!given.check) write(files)
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true })
}

/** Runs the extractor for each entry, and returns the surface, the reports, and the messages. */
function extract(declarations) {
  const configs = ENTRIES.map((entry) => configOf(entry, declarations))
  const compilerState = CompilerState.create(configs[0])
  const received = []
  for (const config of configs) {
    Extractor.invoke(config, {
      compilerState,
      localBuild: true,
      messageCallback(message) {
        if (message.category !== 'console' && message.logLevel !== 'none') received.push(message)
        message.handled = true
      },
    })
  }
  const read = ({ name }, kind) => readFileSync(join(scratch, `${name}.api.${kind}`), 'utf8')
  const surface = new ApiSurface(
    ENTRIES.map((entry) => ({ ...entry, items: JSON.parse(read(entry, 'json')).members[0].members })),
  )
  const [whole, ...parts] = ENTRIES.map((entry) => ({ entry, items: itemsOf(read(entry, 'md'), surface) }))
  whole.items = withoutItemsOf(parts[0], whole)
  const reports = [whole, ...parts].map(({ entry, items }) => [`${entry.name}.api.md`, items.join('\n\n')])
  const messages = received
    .filter(isMistake(surface))
    .map(({ text, sourceFilePath = declarations }) => `${sourceFilePath}: ${text}`)
  return { surface, reports, messages: [...new Set(messages)] }
}

function configOf({ name, declarations }, folder) {
  return ExtractorConfig.prepare({
    configObjectFullPath: undefined,
    packageJsonFullPath: join(root, 'package.json'),
    configObject: {
      projectFolder: root,
      newlineKind: 'lf',
      mainEntryPointFilePath: join(folder, declarations),
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            target: 'es2023',
            lib: ['es2023'],
            module: 'nodenext',
            types: ['node'],
            strict: true,
            skipLibCheck: true,
            allowImportingTsExtensions: true,
            noEmit: true,
          },
          files: ENTRIES.map((entry) => join(folder, entry.declarations)),
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: name,
        reportFolder: scratch,
        reportTempFolder: scratch,
        // The reports of the other entries would repeat types of these two.
        includeForgottenExports: name === 'gate' || name === 'telemetry',
      },
      docModel: {
        enabled: true,
        apiJsonFilePath: join(scratch, `${name}.api.json`),
        includeForgottenExports: true,
      },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: MESSAGES,
    },
  })
}

/** Returns whether a message reports a mistake. A type may be exported by another entry, or be left out on purpose. */
function isMistake(surface) {
  return ({ messageId, text }) => {
    if (messageId !== 'ae-forgotten-export') return true
    const [, name] = /^The symbol "(.+?)"/.exec(text) ?? []
    return surface.find(name) !== undefined && !surface.exports(name) && !NOT_EXPORTED.has(name)
  }
}

/** Returns a message for each export, method, and option without a docstring. Other members do not need one. */
function undocumented(surface) {
  return surface.publicItems().flatMap((item) => {
    const members = FOREIGN_SHAPES.has(item.name)
      ? []
      : surface.membersOf(item).filter(mustBeDocumented(item))
    // The docstring of the first overload counts for all.
    const said = new Set(members.filter(({ docComment }) => docComment !== '').map(({ name }) => name))
    const silent = members.filter(({ name }) => !said.has(name)).map(({ name }) => `${item.name}.${name}`)
    return [...(item.docComment === '' ? [item.name] : []), ...silent].map(
      (name) => `${name} has no docstring`,
    )
  })
}

function mustBeDocumented(owner) {
  return ({ kind }) => /^(?:Method|Call)/.test(kind) || /(?:Options|Config)$/.test(owner.name)
}

/** Returns the parts of a report without types that the public surface does not use. */
function itemsOf(report, surface) {
  return report.split(/\n\n(?=\S)/).filter((item) => {
    const [, name] = /^\/\/ @public.*\n(?:abstract )?(?:class|interface|type) (\w+)/.exec(item) ?? []
    return name === undefined || surface.find(name) !== undefined
  })
}

/** Returns the parts of a report without those of another report whose entry it re-exports. */
function withoutItemsOf(other, { items }) {
  const said = new Set(other.items.filter((item) => item.startsWith('// @public')))
  const own = items.filter((item) => !said.has(item))
  return own.toSpliced(-2, 0, `export * from '${other.entry.specifier}';`)
}

/** Reports the files in the folder that differ from `files`. */
function differences(files) {
  const there = existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []
  const stale = [...new Set([...files.keys(), ...there])].filter(
    (path) => !there.includes(path) || readFileSync(path, 'utf8') !== files.get(path),
  )
  if (stale.length === 0) return []
  return [
    `Out of date: ${stale.map((path) => basename(path)).join(', ')}. Run \`npm run api\` to update them. ` +
      'The diff in test/api-report/ shows what has changed for users.',
  ]
}

function write(files) {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const [path, text] of files) writeFileSync(path, text)
}
