// Runs before `npm publish`, and fails with what the owner of the package has to fill in. docs/internals/releasing.md describes each entry.
import { readFileSync } from 'node:fs'

const { version, repository, bugs } = JSON.parse(readFileSync('package.json', 'utf8'))
const changelog = readFileSync('CHANGELOG.md', 'utf8')
const security = readFileSync('SECURITY.md', 'utf8')

const missing = [
  [typeof repository?.url === 'string', 'package.json: repository, with the URL of the sources'],
  [
    typeof bugs?.email === 'string' || typeof bugs?.url === 'string',
    'package.json: bugs, with an address for private reports of vulnerabilities',
  ],
  [
    new RegExp(`^## ${version.replaceAll('.', '\\.')} \\(\\d{4}-\\d{2}-\\d{2}\\)$`, 'm').test(changelog),
    `CHANGELOG.md: the date of ${version} instead of "unreleased"`,
  ],
  [
    security.includes(`| ${version.split('.').slice(0, 2).join('.')}.x | Security fixes |`),
    `SECURITY.md: ${version} among the supported versions`,
  ],
].flatMap(([isPresent, what]) => (isPresent ? [] : [what]))

if (missing.length > 0) {
  console.error(`Not published. Fill in first:\n${missing.map((what) => `- ${what}`).join('\n')}`)
  process.exitCode = 1
}
