// Runs the tests outside test/full in several mocha processes at a time, since many of them wait for sockets, timers, and
// other processes. `npm test` runs the group `code`, and `npm run test:full` all groups.
// usage: node scripts/test.mjs [--lint] [--group code|more|package|slow ...] [--reporter <name>] [--ignore <path within test> ...] [--jobs <number>] [--again]
// With --again, processes that have failed run again after the others, one at a time. Only those that fail again count.
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs, stripVTControlCharacters } from 'node:util'
import { runCommand, runSeveral } from './run-commands.mjs'

const MOCHA = 'node_modules/mocha/bin/mocha.js'

/** About how long the slowest files take, in seconds. The others take about a second. */
const SECONDS = {
  'cli/doctor': 15,
  'attacks/authorization': 14,
  'authorization/facade': 17,
  'attacks/resources/telemetry': 10,
  'attacks/cli': 10,
  'mcp/operations/odd-handlers': 13,
  'express/node-response': 12,
  'mcp/stdio/serve-stdio': 25,
  'attacks/silent-stores': 14,
  'telemetry/transports/store-stream/client-options': 20,
  'telemetry/transports/shutdown': 10,
  'telemetry/transports/otlp/otlp': 17,
  'browser/app-chart': 5,
  'browser/console': 15,
  'attacks/gate': 14,
  'base/shutdown/graceful-shutdown': 14,
  'attacks/otlp': 13,
  'attacks/outbound': 25,
  'api-report': 12,
  'express/mcp-auth': 11,
  'telemetry/transports/store-stream/store-stream': 11,
  'oauth/verifiers/jwks': 10,
  'attacks/growth': 20,
  'telemetry/transports/http/http': 9,
  'cli/faults-of-protection': 8,
  'telemetry/transports/otlp/otlp-process': 8,
  package: 7,
  'attacks/batches': 7,
  'attacks/bodies': 7,
  'attacks/chats': 4,
  'authorization/client-documents': 7,
  'attacks/slow-readers': 6,
  'attacks/target-secrets': 6,
  'mcp/events/webhooks/webhooks': 4,
  'mcp/hosts': 6,
  'telemetry/transports/otlp/otlp-faults': 6,
  'attacks/regular-expressions': 35,
  'cli/dev/dev-command': 5,
  'mcp/entry-points': 5,
  'mcp/instrumentation/traces': 17,
  'openapi/tools-from-open-api': 10,
  'redis/event-bus': 5,
  'mcp/events/event-store': 9,
  'telemetry/transports/chat/community-chat': 11,
  'attacks/dpop': 4,
  'attacks/events': 16,
  'authorization/records': 6,
  'authorization/refresh': 9,
  'authorization/settlement': 6,
  'attacks/limits': 4,
  'attacks/pipelines': 4,
  'attacks/refused-bodies': 5,
  'attacks/observation': 4,
  'attacks/sessions': 4,
  'cli/doctor-causes': 4,
  'cli/faults-of-serving': 4,
  'cli/init': 17,
  'cli/init-provider': 35,
  docs: 4,
  'examples/identity-providers': 10,
  'mcp/operations/limits/stored-call-counter': 4,
  'oauth/limits/rate-limit': 4,
  'openapi/real-documents': 4,
  'telemetry/transports/chat/messenger': 4,
}

/** The seconds of tests that share a process. Each process imports the packages, and writes its coverage, in about two seconds. */
const SECONDS_PER_PROCESS = 40

/**
 * Files that check the package, its documentation, its declarations, its examples, and its use in frameworks and browsers.
 * They start compilers, package managers, browsers, and programs, and have no part in the coverage.
 */
const PACKAGE = [
  'api-report',
  'browser/',
  'docs',
  'examples/basic',
  'examples/browser',
  'examples/demo',
  'examples/identity-providers',
  'examples/keys-for-ci',
  'examples/openapi',
  'examples/orders',
  'examples/otlp-collector',
  'examples/serve',
  'examples/team-notes',
  'examples/testing',
  'frameworks/',
  'package',
]

/**
 * Files that measure time or memory, wait for real timeouts, start a process for each test, or take more than a few seconds.
 * Faster tests cover the same code in the group `code`.
 */
const SLOW = [
  'attacks/batches',
  'attacks/bodies',
  'attacks/chats',
  'attacks/cli',
  'attacks/dpop',
  'attacks/events',
  'attacks/gate',
  'attacks/growth',
  'attacks/limits',
  'attacks/observation',
  'attacks/otlp',
  'attacks/outbound',
  'attacks/regular-expressions',
  'attacks/resources/bodies',
  'attacks/resources/otlp',
  'attacks/resources/telemetry',
  'attacks/silent-stores',
  'attacks/slow-readers',
  'attacks/target-secrets',
  'authorization/client-documents',
  'authorization/grants',
  'authorization/records',
  'authorization/refresh',
  'authorization/settlement',
  'cli/clients-checks',
  'cli/clients-discovery',
  'cli/clients-hostile',
  'cli/clients-own-servers',
  'cli/command-line',
  'cli/dev/dev-command',
  'cli/doctor-causes',
  'cli/doctor-servers',
  'cli/doctor-events',
  'cli/doctor-sign-in-flaws',
  'cli/doctor-webhooks',
  'cli/explain',
  'cli/faults-of-discovery',
  'cli/faults-of-protection',
  'cli/faults-of-serving',
  'cli/init',
  'cli/init-provider',
  'base/cut-text',
  'express/node-response',
  'mcp/disconnects',
  'mcp/hosts',
  'mcp/instrumentation/end-of-process',
  'mcp/instrumentation/traces',
  'mcp/operations/limits/stored-call-counter',
  'mcp/operations/odd-handlers',
  'mcp/stdio/serve-stdio',
  'mcp/tasks/late-store',
  'oauth/verifiers/jwks',
  'openapi/optional-peers',
  'openapi/real-documents',
  'mcp/events/event-store',
  'base/shutdown/graceful-shutdown',
  'telemetry/audit/python-verifier',
  'telemetry/envelope/redaction-memory',
  'telemetry/transports/audit-file/audit-file-process',
  'telemetry/transports/chat/community-chat',
  'telemetry/transports/chat/messenger',
  'telemetry/transports/chat/team-chat',
  'telemetry/transports/http/http',
  'telemetry/transports/logger-memory',
  'telemetry/transports/otlp/otlp',
  'telemetry/transports/otlp/otlp-faults',
  'telemetry/transports/otlp/otlp-process',
  'telemetry/transports/shutdown',
  'telemetry/transports/store-stream/client-options',
  'telemetry/transports/store-stream/store-stream',
]

/**
 * The attacks, the authorization server, the command line, and files that use most time of a processor. They would make
 * `npm test` too long.
 */
const MORE = [
  'attacks/',
  'authorization/',
  'cli/',
  'mcp/concurrency',
  'mcp/connections',
  'mcp/events/backpressure',
  'mcp/events/nodes',
  'mcp/events/webhooks/webhooks',
  'mcp/every-message',
  'mcp/sdk/notify-in-trouble',
  'mcp/sdk/streams/event-streams',
  'oauth/verifiers/asked-issuers',
  'oauth/verifiers/client-certificate',
  'openapi/tools-from-open-api',
  'telemetry/audit/verify-audit',
  'telemetry/transports/otlp/otlp-poison',
]

/** The groups with their files and folders. A file belongs to the first group that names it, and otherwise to `code`. */
const GROUPS = { slow: SLOW, package: PACKAGE, more: MORE }

/** A larger heap for new objects makes fewer collections of garbage. Slow tests measure memory, and keep the default. */
const HEAP = ['--max-semi-space-size=64']

const { values } = parseArgs({
  options: {
    lint: { type: 'boolean', default: false },
    group: { type: 'string', multiple: true },
    reporter: { type: 'string', default: 'dot' },
    ignore: { type: 'string', multiple: true, default: [] },
    // Many tests wait, so two jobs more than processors keep all processors busy.
    jobs: { type: 'string', default: String(availableParallelism() + 2) },
    again: { type: 'boolean', default: false },
  },
})
const { timeout } = JSON.parse(readFileSync('.mocharc.json', 'utf8'))
const existing = readdirSync('build/test', { recursive: true })
  .filter((file) => file.endsWith('.test.js') && !file.startsWith('full/'))
  .map((file) => file.replace(/\.test\.js$/, ''))
  .sort()
const names = existing.filter((name) => !values.ignore.some((path) => name.startsWith(path)))

/** Returns whether a file is listed, by its name or by its folder. */
function isIn(paths, name) {
  return paths.some((path) => (path.endsWith('/') ? name.startsWith(path) : name === path))
}

const gone = [...Object.keys(SECONDS), ...SLOW, ...PACKAGE, ...MORE].filter(
  (path) => !existing.some((name) => isIn([path], name)),
)
if (gone.length > 0) throw new Error(`scripts/test.mjs lists files that do not exist: ${gone.join(', ')}`)

/** The group of a file. */
function groupOf(name) {
  return Object.keys(GROUPS).find((group) => isIn(GROUPS[group], name)) ?? 'code'
}

const ALL_GROUPS = ['code', ...Object.keys(GROUPS)]
const unknown = values.group?.find((group) => !ALL_GROUPS.includes(group))
if (unknown !== undefined) throw new Error(`--group must be one of ${ALL_GROUPS.join(', ')}, not ${unknown}`)

const jobs = ALL_GROUPS.filter((group) => values.group?.includes(group) ?? true)
  .flatMap((group) =>
    jobsOf(
      names.filter((name) => groupOf(name) === group),
      group === 'code' || group === 'more',
    ),
  )
  .sort((one, other) => other.seconds - one.seconds)
if (values.lint) {
  // It starts first, since it is the fastest to fail.
  jobs.unshift({ title: 'The linter', args: ['node_modules/@biomejs/biome/bin/biome', 'check'] })
  jobs.unshift({ title: 'The check of words', args: ['scripts/check-words.mjs'] })
  jobs.unshift({ title: 'The check of sizes', args: ['scripts/check-budget.mjs'] })
}

const totals = { passing: 0, failing: 0, pending: 0 }
let failures = []

function secondsOf(name) {
  return SECONDS[name] ?? 1
}

/** Distributes files over processes. Files of the same folder share a process, because they import the same packages. */
function jobsOf(files, isCovered) {
  const processes = []
  for (const name of files) {
    const seconds = secondsOf(name)
    const last = processes.at(-1)
    if (last === undefined || last.seconds + seconds > SECONDS_PER_PROCESS)
      processes.push({ seconds, files: [name] })
    else {
      last.seconds += seconds
      last.files.push(name)
    }
  }
  // `--exit`: clients and servers of other packages keep timers for up to a minute.
  const options = [
    '--no-config',
    '--require',
    './build/test/support/unhandled-rejections.js',
    '--forbid-only',
    '--exit',
    '--timeout',
    timeout,
    '--reporter',
    values.reporter,
  ]
  return processes.map(({ seconds, files }) => {
    const paths = files.map((name) => `build/test/${name}.test.js`)
    const heap = isCovered ? HEAP : []
    return {
      title: paths.join(' '),
      files,
      args: [...heap, MOCHA, ...options.map(String), ...paths],
      seconds,
      isCovered,
    }
  })
}

/**
 * Runs a job. When it has ended, prints all of its output if it has failed, and otherwise its number of tests and the reasons
 * of those that were skipped.
 */
async function run(job) {
  const { title, args, files = [], isCovered = false } = job
  const env = isCovered ? process.env : { ...process.env, NODE_V8_COVERAGE: undefined }
  let output = ''
  const onText = (text) => {
    output += text
  }
  const { status, signal } = await runCommand(process.execPath, args, { env, onText })
  const text = stripVTControlCharacters(output)
  const summary = text.slice(
    Math.max(text.search(/^ {2}\d+ passing \([^)]*\)\n(?: {2}\d+ (?:pending|failing)\n)*\n/m), 0),
  )
  const counts = {}
  for (const kind of Object.keys(totals)) {
    const found = [...text.matchAll(new RegExp(`^ {2}(\\d+) ${kind}\\b`, 'gm'))]
    counts[kind] = Number(found.at(-1)?.[1] ?? 0)
    totals[kind] += counts[kind]
  }
  if (status === 0) {
    const skipped = text.match(/ {4}skipped: .*/g) ?? []
    const folders = new Set(files.map((name) => name.replace(/\/[^/]*$/, '')))
    const what = files.length > 0 ? `${counts.passing} passed: ${[...folders].join(', ')}` : title
    console.log([`✓ ${what}`, ...skipped].join('\n'))
    return
  }
  process.stdout.write(output)
  const words = `${title} (${signal ?? `exit code ${status}`})\n${summary.slice(-8_000)}`
  failures.push({ job, counts, words })
}

const started = performance.now()
await runSeveral(jobs, Number(values.jobs), run)
if (values.again && failures.length > 0) {
  const first = failures
  failures = []
  for (const { job, counts, words } of first) {
    console.log(`\nThis failed beside other tests, and runs again alone:\n${words}`)
    for (const kind of Object.keys(totals)) totals[kind] -= counts[kind]
    await run(job)
  }
}
// To the standard output, from which test:full takes the failures.
for (const { words } of failures) console.log(`\n${words}`)
console.log(`\nAll tests took ${Math.round((performance.now() - started) / 1000)} s.`)
console.log(`${totals.passing} passed, ${totals.failing} failed, ${totals.pending} skipped`)
if (failures.length > 0) process.exitCode = 1
