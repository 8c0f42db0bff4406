// Checks the texts of the project for words and forms that are hard to read. It exits with 1 if it finds any.
// The rules are in CONTRIBUTING.md, "How to write".
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

/** Each pattern with the form to use instead. */
const RULES = [
  [/\b(?:is|are|was|were) no [a-z]/, 'negate the verb: "is not a JWT"'],
  [/\bthat is none\b/, 'negate the verb: "that is not a URL"'],
  [/\b[Mm]end(?:s|ed|ing)?\b/, 'write "fix", "hint", or "change"'],
  [/\b(?:[Nn]obody|[Ww]hoever|[Ss]omebody)\b/, 'name who acts: "the client", "the gate"'],
  [/\btold\b/, 'write "reports", "emits", or "gets"'],
  [/^\s*(?:\/\*\*|\*) (?:What|Whether|Who|Why) /, 'begin with a noun or a verb: "Returns …", "The …"'],
]

/** Lines that may contain such a word, as `path: part of the line`. At most ten. */
const ALLOWED = readFileSync(new URL('words-allowed.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '')

/** Files whose text is not checked: the license, generated files, and these rules. */
const SKIPPED =
  /^(?:LICENSE|package-lock\.json|(?:docs\/reference\/api|test\/api-report)\/.*|scripts\/(?:check-words\.mjs|words-allowed\.txt))$/
const TEXT = /\.(?:ts|mjs|md|txt|sh|html|css)$|^\.ci\/run$/

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => TEXT.test(file) && !SKIPPED.test(file) && existsSync(file))

const unused = new Set(ALLOWED)
let found = 0
for (const file of files) {
  for (const [index, line] of readFileSync(file, 'utf8').split('\n').entries()) {
    const rule = RULES.find(([pattern]) => pattern.test(line))
    if (rule === undefined) continue
    const allowed = ALLOWED.find((entry) => {
      const [path, part] = entry.split(/: (.*)/s)
      return path === file && line.includes(part)
    })
    if (allowed !== undefined) {
      unused.delete(allowed)
      continue
    }
    found++
    console.error(`${file}:${index + 1}: ${line.trim()}\n  ${rule[1]}`)
  }
}
for (const entry of unused) console.error(`scripts/words-allowed.txt: nothing matches "${entry}"`)
if (ALLOWED.length > 10) console.error('scripts/words-allowed.txt: more than ten lines')
if (found > 0 || unused.size > 0 || ALLOWED.length > 10) {
  console.error(`${found} lines to rewrite`)
  process.exitCode = 1
}
