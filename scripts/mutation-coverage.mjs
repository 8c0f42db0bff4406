// Finds out which test files execute which parts of the compiled code, and how long they take. scripts/mutation.mjs
// uses it to run the tests that can notice a mutant, the fastest first.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The results of earlier runs. One stays valid until the code that it loads changes. A build does not remove them. */
const CACHE = 'coverage/mutation.json'
const BASELINE_TIMEOUT_MS = 600_000
/** Runs test files, and writes reports. */
const PROGRAM = 'scripts/mutation-coverage-process.mjs'
/** The number of test files that are measured in one process, which loads the packages once. */
const GROUP = 12
/** Tests that read the sources or that measure, which notice no mutant of the compiled code, or every one. */
const OF_ALL_SOURCES = ['attacks/growth.test.js', 'attacks/regular-expressions.test.js']
/** The tests of the package, its examples, and test/full. */
const TOO_LONG = /^(?:full\/|examples\/|browser\/|frameworks\/|(?:api-report|docs|package)\.)/

/** Returns the tests of the code, as paths within `build/test`. */
export function testFiles() {
  return readdirSync('build/test', { recursive: true })
    .filter((name) => name.endsWith('.test.js') && !TOO_LONG.test(name))
    .filter((name) => !OF_ALL_SOURCES.includes(name))
    .sort()
}

/**
 * Measures every test file that has changed since the last run, in a copy of the project. Returns a map from the test
 * file to `{ passed, ms, covered }`. `covered` has a list of executed ranges for each file of `build/src` and `build/cli`.
 */
export async function measureCoverage(folder, runTests, jobs) {
  const code = hashesOfCode()
  const cached = existsSync(CACHE) ? JSON.parse(readFileSync(CACHE, 'utf8')) : { code: {}, tests: {} }
  const known = Object.fromEntries(
    Object.entries(cached.tests).filter(([, { covered }]) =>
      Object.keys(covered).every((file) => cached.code[file] === code[file]),
    ),
  )
  const tests = {}
  const waiting = []
  for (const test of testFiles()) {
    const hash = hashOf(readFileSync(join('build/test', test)))
    if (known[test]?.hash === hash) tests[test] = known[test]
    else waiting.push({ test, hash })
  }
  if (waiting.length > 0) console.log(`Measuring ${waiting.length} test files without a mutant.`)
  mkdirSync(dirname(CACHE), { recursive: true })
  const groups = []
  while (waiting.length > 0) groups.push(waiting.splice(0, GROUP))
  const measureAll = async () => {
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      const results = await measure(folder, group, runTests)
      for (const [index, { test, hash }] of group.entries()) {
        // A test may fail because the machine is busy, or because of the other files.
        const [result] = results[index].passed
          ? [results[index]]
          : await measure(folder, [group[index]], runTests)
        if (!result.passed) console.log(`Without a mutant, ${test} does not pass. It is left out.`)
        tests[test] = { hash, ...result }
      }
      writeFileSync(CACHE, JSON.stringify({ code, tests }))
    }
  }
  await Promise.all(Array.from({ length: jobs }, measureAll))
  return new Map(Object.entries(tests))
}

/** Runs test files in one process. Returns for each of them its result, its time, and the ranges of the code that it executes. */
async function measure(folder, group, runTests) {
  const reports = mkdtempSync(join(tmpdir(), 'mcp-gatekit-coverage-'))
  try {
    const tests = group.map(({ test }) => join('build/test', test))
    await runTests(folder, [reports, ...tests], BASELINE_TIMEOUT_MS, { program: PROGRAM })
    return group.map((_, index) => {
      const own = join(reports, String(index))
      const summary = join(own, 'summary.txt')
      if (!existsSync(summary)) return { passed: false, ms: 0, covered: {} }
      const covered = coveredIn([join(reports, 'load'), own], folder)
      return { ...JSON.parse(readFileSync(summary, 'utf8')), covered }
    })
  } finally {
    rmSync(reports, { recursive: true, force: true })
  }
}

/** Returns the ranges that one or more of the processes of a test have executed, by file within `build`. */
function coveredIn(folders, folder) {
  const root = pathToFileURL(join(folder, 'build')).href
  const painted = new Map()
  const reports = folders.flatMap((name) => readdirSync(name).map((report) => join(name, report)))
  for (const report of reports.filter((name) => name.endsWith('.json'))) {
    let scripts
    try {
      scripts = JSON.parse(readFileSync(report, 'utf8')).result
    } catch {
      // The process was killed while it wrote its report.
      continue
    }
    for (const { url, functions } of scripts) {
      if (!url.startsWith(`${root}/`)) continue
      const file = url.slice(root.length + 1)
      if (!/^(?:cli|src)\//.test(file)) continue
      const ranges = functions
        .flatMap(({ ranges }) => ranges)
        .sort((one, other) => one.startOffset - other.startOffset || other.endOffset - one.endOffset)
      const executed = new Uint8Array(Math.max(...ranges.map(({ endOffset }) => endOffset)))
      // Inner ranges follow the outer ones that they correct.
      for (const { startOffset, endOffset, count } of ranges)
        executed.fill(count > 0 ? 1 : 0, startOffset, endOffset)
      const before = painted.get(file)
      if (before === undefined) painted.set(file, executed)
      else
        for (let index = 0; index < before.length; index++)
          before[index] = Math.max(before[index], executed[index])
    }
  }
  return Object.fromEntries([...painted].map(([file, executed]) => [file, rangesOf(executed)]))
}

/** Returns the ranges of ones in a list of zeros and ones, as `[start, end, start, end, …]`. */
function rangesOf(executed) {
  const ranges = []
  for (let index = 0; index <= executed.length; index++)
    if ((executed[index] ?? 0) !== (executed[index - 1] ?? 0)) ranges.push(index)
  return ranges
}

/** Reports whether a test executes the code at an offset of a file. */
export function executes({ covered }, file, offset) {
  const ranges = covered[file] ?? []
  for (let index = 0; index < ranges.length; index += 2)
    if (ranges[index] <= offset && offset < ranges[index + 1]) return true
  return false
}

/** Reports whether a test executes nothing of a file but what every test executes that imports it. */
export function onlyLoads({ covered }, file, results) {
  const sizes = [...results.values()]
    .filter((result) => file in result.covered)
    .map((result) => sizeOf(result.covered[file]))
  return sizeOf(covered[file]) === Math.min(...sizes) && Math.max(...sizes) > Math.min(...sizes)
}

function sizeOf(ranges) {
  return ranges.reduce((size, offset, index) => size + (index % 2 === 0 ? -offset : offset), 0)
}

/** The hashes of the files that are measured. */
function hashesOfCode() {
  const hashes = {}
  for (const root of ['cli', 'src'])
    for (const name of readdirSync(join('build', root), { recursive: true }).sort())
      if (name.endsWith('.js')) hashes[`${root}/${name}`] = hashOf(readFileSync(join('build', root, name)))
  return hashes
}

function hashOf(content) {
  return createHash('sha256').update(content).digest('hex')
}
