// Runs before `npm publish`. It fails if the files lack something, and ends with the steps that only the owner of the package can do.
import { readFileSync } from 'node:fs'

const { name, version, repository, bugs } = JSON.parse(readFileSync('package.json', 'utf8'))
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

const ownerSteps = [
  `The name: npm view ${name} says E404 before the first release, and names you as a maintainer after it.`,
  'The account: npm profile enable-2fa auth-and-writes.',
  'Provenance: publish from CI, with the permission id-token: write and npm publish --provenance. The repository of package.json must be public, and the one in which CI runs.',
  `The tag: a commit "release: ${version}" with the date of today in CHANGELOG.md, and the tag v${version}, both pushed.`,
  'The address for reports: send a message to it. SECURITY.md promises a response within five working days.',
  `After the release: the links and pictures of npmjs.com/package/${name} open, and npx ${name}@${version} init works on another machine.`,
]

if (missing.length > 0) {
  console.error(`Not published. Fill in first:\n${missing.map((what) => `- ${what}`).join('\n')}`)
  process.exitCode = 1
}
console.log(`\nOnly the owner can do this:\n${ownerSteps.map((step) => `- ${step}`).join('\n')}`)
