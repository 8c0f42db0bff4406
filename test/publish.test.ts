import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

const root = fileURLToPath(new URL('../../', import.meta.url))
const PAGES = ['package.json', 'CHANGELOG.md', 'SECURITY.md']

describe('the check before npm publish', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mcp-gatekit-publish-'))
    for (const page of PAGES) await cp(join(root, page), join(folder, page))
  })
  afterEach(() => rm(folder, { recursive: true }))

  const check = () =>
    new Promise<{ readonly code: number; readonly stderr: string }>((resolve) => {
      const script = join(root, 'scripts/check-publish.mjs')
      const child = execFile(process.execPath, [script], { cwd: folder }, (_error, _stdout, stderr) =>
        resolve({ code: child.exitCode ?? -1, stderr }),
      )
    })

  async function change(page: string, edit: (text: string) => string): Promise<void> {
    await writeFile(join(folder, page), edit(await readFile(join(folder, page), 'utf8')))
  }

  it('npm publish runs it', async () => {
    const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
    expect(scripts.prepublishOnly).to.equal('node scripts/check-publish.mjs')
  })

  it('it fails with a list of what is missing', async () => {
    await change('package.json', (text) => JSON.stringify({ version: JSON.parse(text).version }))
    await change('CHANGELOG.md', (text) => text.replace(/^(## \S+) .*$/m, '$1 (unreleased)'))
    const { code, stderr } = await check()
    expect(code).to.equal(1)
    for (const text of ['package.json: repository', 'package.json: bugs', 'CHANGELOG.md: the date'])
      expect(stderr).to.contain(text)
  })

  it('it succeeds when everything is filled in', async () => {
    await change('package.json', (text) =>
      JSON.stringify({
        ...JSON.parse(text),
        repository: { type: 'git', url: 'git+https://git.example.com/mcp-gatekit.git' },
        bugs: { email: 'security@example.com' },
      }),
    )
    await change('CHANGELOG.md', (text) => text.replace(/^(## \S+) .*$/m, '$1 (2026-01-31)'))
    expect(await check()).to.deep.equal({ code: 0, stderr: '' })
  })
})
