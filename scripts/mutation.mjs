// Measures how well the tests notice mistakes: makes small changes (mutants) to the compiled code, one at a time, and
// runs the tests of the same folder. A mutant that no test notices has survived, and its diff is printed.
// usage: npm run test:mutation -- [options]
//   --count <number>   mutants to make; defaults to 100
//   --seed <number>    chooses the mutants; defaults to 1
//   --only <path>      a file or a folder of build, such as src/oauth/verifiers or cli/doctor
//   --kind <name>      condition, boundary, statement, arithmetic, constant, or return
//   --mutant <id>      this mutant, instead of random ones; may be repeated
//   --wide             if the tests of the folder notice nothing, runs others of `npm test` that execute the code
//   --jobs <number>    mutants that are tested at the same time; defaults to 1
//   --list             prints the mutants without testing them
import { spawn } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { constants, setPriority, tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { parseAst } from 'rolldown/parseAst'
import { executes, measureCoverage, onlyLoads } from './mutation-coverage.mjs'

/** The compiled code that is changed, within `build`. */
const ROOTS = ['cli', 'src']
const MOCHA = 'node_modules/mocha/bin/mocha.js'
/** A test run of a mutant may take this many times as long as without the mutant, and `EXTRA_MS` more. */
const TIME_FACTOR = 4
const EXTRA_MS = 12_000
/** A single test may take twice as long as the slowest file of its process, and this long at least. */
const MIN_TEST_MS = 5_000
/** Test files run in one process until they take this long together. The first test that fails ends the process. */
const STAGE_MS = 15_000
/** Files outside the folder that take longer than this are left out, and all beyond this time together, the slowest first. */
const OTHER_FILE_MS = 8_000
const OTHER_FILES_MS = 90_000
/** The failure of a test that ran out of time. */
const RAN_OUT = /Error: Timeout of \d+ms exceeded/
/** Heap of a test process, in MiB. A mutant in an endless loop cannot use the memory of the machine up. */
const HEAP_MIB = 1_024

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    kind: { type: 'string' },
    mutant: { type: 'string', multiple: true },
    wide: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '1' },
    list: { type: 'boolean', default: false },
  },
})

// Child processes inherit the priority.
setPriority(constants.priority.PRIORITY_LOW)

/** An estimate of the time of a test that starts a browser. */
const BROWSER_TEST_MS = 15_000

/** Tests of code that runs in a browser. They have no coverage, and are not part of `npm test`. */
const IN_BROWSER = { 'cli/dev/page/': ['browser/console.test.js'] }

const SWAPPED = {
  '<': ['<=', 'boundary'],
  '<=': ['<', 'boundary'],
  '>': ['>=', 'boundary'],
  '>=': ['>', 'boundary'],
  '===': ['!==', 'condition'],
  '!==': ['===', 'condition'],
  '==': ['!=', 'condition'],
  '!=': ['==', 'condition'],
  '&&': ['||', 'condition'],
  '||': ['&&', 'condition'],
  '+': ['-', 'arithmetic'],
  '-': ['+', 'arithmetic'],
  '*': ['/', 'arithmetic'],
  '/': ['*', 'arithmetic'],
  '%': ['*', 'arithmetic'],
  '**': ['*', 'arithmetic'],
  '+=': ['-=', 'arithmetic'],
  '-=': ['+=', 'arithmetic'],
  '++': ['--', 'arithmetic'],
  '--': ['++', 'arithmetic'],
}

/** Returns a pseudo-random generator of numbers from 0 up to 1 (mulberry32). */
function randomFrom(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The compiled files as they were at the start, since the project may be built again meanwhile. */
const sources = new Map()

/** Returns every mutant of a compiled file: `{ file, kind, start, end, text }`, where `text` replaces a range. */
function mutantsOf(file) {
  const code = readFileSync(join('build', file), 'utf8')
  sources.set(file, code)
  const mutants = []
  const add = (kind, { start, end }, text) => {
    if (code.slice(start, end) !== text) mutants.push({ file, kind, start, end, text })
  }
  const textOf = ({ start, end }) => code.slice(start, end)
  const swap = (node, from, to) => {
    const [text, kind] = SWAPPED[node.operator] ?? []
    if (text === undefined) return
    const start = code.indexOf(node.operator, from)
    if (start >= from && start < to) add(kind, { start, end: start + node.operator.length }, text)
  }
  const visit = (node) => {
    switch (node.type) {
      case 'ImportDeclaration':
      case 'ExportAllDeclaration':
      case 'ImportExpression':
        return
      case 'IfStatement':
      case 'ConditionalExpression':
      case 'WhileStatement':
        add('condition', node.test, `!(${textOf(node.test)})`)
        break
      case 'LogicalExpression':
        // `a ?? b && c` is not valid.
        if (node.operator === '??')
          add('condition', node, `((${textOf(node.left)}) && (${textOf(node.right)}))`)
        else swap(node, node.left.end, node.right.start)
        break
      case 'BinaryExpression':
      case 'AssignmentExpression':
        swap(node, node.left.end, node.right.start)
        break
      case 'UpdateExpression':
        swap(node, node.start, node.end)
        break
      case 'UnaryExpression':
        if (node.operator === '!') add('condition', node, textOf(node.argument))
        break
      case 'ExpressionStatement':
        if (node.expression.callee?.type !== 'Super' && node.directive == null) add('statement', node, ';')
        break
      case 'ReturnStatement':
        if (node.argument != null) add('return', node.argument, 'undefined')
        break
      case 'ArrowFunctionExpression':
        if (node.body.type !== 'BlockStatement') {
          // The parentheses around an object literal belong to the range that is replaced.
          const start = code.indexOf('=>', node.params.at(-1)?.end ?? node.start) + 2
          add('return', { start, end: node.end }, ' undefined')
        }
        break
      case 'Literal':
        if (typeof node.value === 'number') add('constant', node, String(node.value + 1))
        else if (typeof node.value === 'boolean') add('constant', node, String(!node.value))
        // Sentences are for people. They are left alone.
        else if (typeof node.value === 'string' && !node.value.includes(' '))
          add('constant', node, node.value === '' ? "'mutant'" : "''")
        return
    }
    for (const [key, value] of Object.entries(node)) {
      if (key === 'key' && node.computed !== true) continue
      for (const child of Array.isArray(value) ? value : [value])
        if (typeof child?.type === 'string' && child.start !== undefined) visit(child)
    }
  }
  visit(parseAst(code))
  return mutants
}

/** Returns `count` of the mutants. Each kind is as likely as the others, however many mutants it has. */
function choose(mutants, count, random) {
  const kinds = new Map()
  for (const mutant of mutants) {
    const same = kinds.get(mutant.kind)
    if (same === undefined) kinds.set(mutant.kind, [mutant])
    else same.push(mutant)
  }
  const chosen = []
  while (chosen.length < count && kinds.size > 0) {
    const names = [...kinds.keys()].sort()
    const kind = names[Math.floor(random() * names.length)]
    const rest = kinds.get(kind)
    chosen.push(...rest.splice(Math.floor(random() * rest.length), 1))
    if (rest.length === 0) kinds.delete(kind)
  }
  return chosen
}

/**
 * Returns groups of the test files that execute the code of a mutant, in the order in which they run: the file of the
 * same name, then those of the same folder, or of the nearest parent folder that has tests. With `--wide`, those of the
 * same area and others follow, unless they only load the file. The fastest files of a group are the first.
 */
function stagesOf({ file, start }) {
  const mirror = mirrorOf(file)
  const rankOf = (test) => {
    if (dirname(test) === mirror) return basename(test, '.test.js') === basename(file, '.js') ? 0 : 1
    return test.startsWith(`${testOf(file).split('/')[0]}/`) ? 2 : 3
  }
  const ranked = [...measured]
    .filter(([, { passed }]) => passed)
    .filter(([, result]) => executes(result, file, start))
    .map(([test, result]) => ({ test, ms: result.ms, rank: rankOf(test), result }))
    .filter(({ rank }) => values.wide || rank < 2)
    .filter(({ rank, ms, result }) => rank < 2 || (ms <= OTHER_FILE_MS && !onlyLoads(result, file, measured)))
    .concat(browserTestsOf(file))
    .sort((one, other) => one.rank - other.rank || one.ms - other.ms)
  const stages = []
  let leftMs = OTHER_FILES_MS
  for (const { test, ms, rank } of ranked) {
    if (rank >= 2) leftMs -= ms
    if (leftMs < 0) break
    const last = stages.at(-1)
    if (last === undefined || last.rank !== rank || last.ms + ms > STAGE_MS)
      stages.push({ rank, ms, slowestMs: ms, tests: [join('build/test', test)] })
    else {
      last.ms += ms
      last.slowestMs = Math.max(last.slowestMs, ms)
      last.tests.push(join('build/test', test))
    }
  }
  return stages
}

/** Returns the tests of a file that runs in a browser, with an estimate of their time. */
function browserTestsOf(file) {
  const [, tests] = Object.entries(IN_BROWSER).find(([folder]) => file.startsWith(folder)) ?? []
  return (tests ?? []).map((test) => ({ test, ms: BROWSER_TEST_MS, rank: 0 }))
}

/** The place of a source file within the tests, which mirror `src` and `cli`. */
function testOf(file) {
  return file.replace(/^src\//, '')
}

/** The folder of the tests of a source file. */
function mirrorOf(file) {
  let folder = dirname(testOf(file))
  while (folder !== '.' && ![...measured.keys()].some((test) => dirname(test) === folder))
    folder = dirname(folder)
  return folder
}

/** Makes a copy of the project in which `build` is a copy and the rest are links. */
function copyProject(folder) {
  mkdirSync(folder)
  for (const name of readdirSync('.'))
    if (name !== 'build' && name !== '.git') symlinkSync(resolve(name), join(folder, name))
  mkdirSync(join(folder, 'build'))
  for (const name of readdirSync('build'))
    if (!name.startsWith('docs-') && !name.endsWith('.json'))
      cpSync(join('build', name), join(folder, 'build', name), { recursive: true })
}

const groups = new Set()

/** Runs mocha, or another program, in a copy of the project. Resolves to `passed`, `failed`, or `timeout`, and the output. */
function runTests(folder, args, timeoutMs, { program = MOCHA } = {}) {
  const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MIB}`, program, ...args], {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  groups.add(child.pid)
  let output = ''
  let outcome
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-20_000)
    })
  }
  const timer = setTimeout(() => {
    outcome = 'timeout'
    kill(child.pid)
  }, timeoutMs)
  return new Promise((resolve) => {
    child.once('exit', (status) => {
      clearTimeout(timer)
      // Servers that a test has not stopped belong to the same group.
      kill(child.pid)
      groups.delete(child.pid)
      outcome ??= status === 0 ? 'passed' : 'failed'
      resolve({ outcome, output })
    })
  })
}

function kill(group) {
  try {
    process.kill(-group, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

function titleOf({ id, kind, file }) {
  return `mutant ${id}, ${kind} in ${file}`
}

/** The lines of a file that a mutant changes, as in a unified diff. */
function diffOf({ file, start, end, text }) {
  const code = sources.get(file)
  const from = code.lastIndexOf('\n', start - 1) + 1
  const to = code.indexOf('\n', end)
  const line = code.slice(0, start).split('\n').length
  const before = code.slice(from, to)
  const after = code.slice(from, start) + text + code.slice(end, to)
  const marked = (mark, lines) => lines.split('\n').map((one) => mark + one)
  return [`--- build/${file}:${line}`, ...marked('-', before), ...marked('+', after)].join('\n')
}

const all = ROOTS.flatMap((root) =>
  readdirSync(join('build', root), { recursive: true })
    .filter((name) => name.endsWith('.js') && basename(name) !== 'index.js')
    .map((name) => join(root, name))
    .sort(),
)
  .flatMap(mutantsOf)
  .map((mutant, index) => ({ id: String(index), ...mutant }))
const mutants =
  values.mutant === undefined
    ? choose(
        all
          .filter(({ file }) => file.startsWith(values.only))
          .filter(({ kind }) => values.kind === undefined || kind === values.kind),
        Number(values.count),
        randomFrom(Number(values.seed)),
      )
    : all.filter(({ id }) => values.mutant.includes(id))
if (values.list) {
  for (const mutant of mutants) console.log(`${titleOf(mutant)}\n${diffOf(mutant)}\n`)
  process.exit()
}

const scratch = mkdtempSync(join(tmpdir(), 'mcp-gatekit-mutation-'))
process.once('exit', () => {
  for (const group of groups) kill(group)
  rmSync(scratch, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => report().then(() => process.exit(1)))

const results = { killed: [], survived: [], timeout: [], untested: [] }
const waiting = mutants.entries()

async function work(job) {
  const folder = join(scratch, `job-${job}`)
  if (!existsSync(folder)) copyProject(folder)
  for (const [index, mutant] of waiting) {
    const { file, start, end, text } = mutant
    const path = join(folder, 'build', file)
    const code = sources.get(file)
    const stages = stagesOf(mutant)
    let result = stages.length > 0 ? 'survived' : 'untested'
    let reason = ''
    writeFileSync(path, code.slice(0, start) + text + code.slice(end))
    for (const { tests, ms, slowestMs } of stages) {
      const run = (factor) => {
        const timeout = String(factor * Math.max(MIN_TEST_MS, 2 * slowestMs))
        const args = ['--no-config', '--bail', '--exit', '--timeout', timeout, ...tests]
        return runTests(folder, args, factor * (TIME_FACTOR * ms + EXTRA_MS))
      }
      let { outcome, output } = await run(1)
      // On a busy machine, a test may run out of time without the mutant.
      if (outcome === 'failed' && RAN_OUT.test(output)) ({ outcome, output } = await run(2))
      if (outcome === 'passed') continue
      result = outcome === 'failed' ? 'killed' : 'timeout'
      reason = outcome === 'failed' ? ` by "${failureIn(output)}"` : ` in ${tests.join(' ')}`
      break
    }
    writeFileSync(path, code)
    results[result].push(mutant)
    console.log(`${index + 1}/${mutants.length} ${result}: ${titleOf(mutant)}${reason}`)
    if (result === 'survived' || result === 'untested') console.log(diffOf(mutant))
  }
}

/** The title of the first test that failed, and its error. */
function failureIn(output) {
  const lines = output.slice(Math.max(output.lastIndexOf(' failing\n'), 0)).split('\n')
  const first = Math.max(
    lines.findIndex((line) => /^ {2}1\) /.test(line)),
    0,
  )
  return lines
    .slice(first, first + 8)
    .map((line) => line.trim())
    .join(' ')
    .trim()
    .slice(0, 300)
}

async function report() {
  for (const [result, found] of Object.entries(results)) console.log(`${result}: ${found.length}`)
  const { killed, survived, timeout } = results
  const ran = killed.length + survived.length + timeout.length
  if (ran > 0) console.log(`${Math.round((100 * (killed.length + timeout.length)) / ran)} % were noticed.`)
  for (const mutant of [...survived, ...results.untested])
    console.log(`\n${titleOf(mutant)}\n${diffOf(mutant)}`)
}

copyProject(join(scratch, 'job-0'))
const measured = await measureCoverage(join(scratch, 'job-0'), runTests, Number(values.jobs))
await Promise.all(Array.from({ length: Number(values.jobs) }, (_, job) => work(job)))
await report()
