// Counts the lines of code of each room, the lines of the tests, and the words of the guides, and compares them with the limits
// in budget.json. It exits with 1 if a limit is exceeded. A line of code is neither blank nor only a comment.
// usage: node scripts/check-budget.mjs [--lower]   (--lower writes the present figures as the limits that are above them)
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'

const FILE = new URL('budget.json', import.meta.url)
/** A limit that is further above the figure can be lowered. */
const SLACK = 0.03

/** Returns the files with an ending at a path, which can be a file or a folder. */
function filesOf(path, ending) {
  const names = statSync(path).isDirectory()
    ? readdirSync(path, { recursive: true }).map((name) => `${path}/${name}`)
    : [path]
  return names.filter((name) => name.endsWith(ending)).map((name) => readFileSync(name, 'utf8'))
}

/** Counts the lines of a text that are neither blank nor only a comment. */
function linesOf(text) {
  let isInComment = false
  let count = 0
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (isInComment) isInComment = !line.includes('*/')
    else if (line.startsWith('/*')) isInComment = !line.includes('*/')
    else if (line !== '' && !line.startsWith('//')) count++
  }
  return count
}

const wordsOf = (text) => text.split(/\s+/).filter((word) => word !== '').length

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)

/** Every file at the top of `src` and each of its folders, which must belong to exactly one room. */
const parts = [...readdirSync('src').map((name) => `src/${name}`), 'cli']
const { rooms, all, tests, words } = JSON.parse(readFileSync(FILE, 'utf8'))
const named = Object.values(rooms).flatMap(({ paths }) => paths)
const figures = {}
const problems = [
  ...parts.filter((part) => !named.includes(part)).map((part) => `${part} belongs to no room.`),
  ...named.filter((part) => !parts.includes(part)).map((part) => `${part} does not exist.`),
]

/** Compares a figure with its limit, and returns the limit that holds from now on. */
function limitOf(name, figure, limit) {
  figures[name] = { figure, limit }
  if (figure > limit) problems.push(`${name} has ${figure}, and its limit is ${limit}.`)
  return Math.min(figure, limit)
}

if (problems.length === 0) {
  const lines = (paths) => sum(paths.flatMap((path) => filesOf(path, '.ts')).map(linesOf))
  const lowered = {
    rooms: Object.fromEntries(
      Object.entries(rooms).map(([name, { paths, lines: limit }]) => [
        name,
        { paths, lines: limitOf(name, lines(paths), limit) },
      ]),
    ),
    all: limitOf('all code', lines(parts), all),
    tests: limitOf('the tests', lines(['test']), tests),
    words: limitOf('docs, in words,', sum(filesOf('docs', '.md').map(wordsOf)), words),
  }
  if (process.argv.includes('--lower')) {
    writeFileSync(FILE, JSON.stringify(lowered))
    execFileSync('npx', ['biome', 'format', '--write', 'scripts/budget.json'])
  } else
    for (const [name, { figure, limit }] of Object.entries(figures))
      if (figure < limit * (1 - SLACK))
        console.log(`The limit of ${name} can be lowered from ${limit} to ${figure}.`)
}
if (problems.length > 0) {
  console.error(
    `${problems.join('\n')}\nRemove code, or raise a limit of scripts/budget.json in a commit that names what left instead.`,
  )
  process.exitCode = 1
}
