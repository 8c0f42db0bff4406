import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { freePort } from '../support/free-port.ts'
import { pack } from '../support/packed.ts'

const run = promisify(execFile)
const SKILL = fileURLToPath(new URL('../../../skills/mcp-gatekit/SKILL.md', import.meta.url))
/** The sections with a server. The section that checks it is run after each. */
const SERVERS = ['SDK 2 on Express', 'SDK 2 on a web-standard host', 'SDK 1 on Express', 'A new server']
const CHECK = 'Check it'

interface Block {
  readonly language: string
  readonly code: string
}

/** Returns the blocks of commands and code below each heading. */
async function sectionsOf(): Promise<ReadonlyMap<string, readonly Block[]>> {
  const text = await readFile(SKILL, 'utf8')
  const sections = text.split(/^## /m).slice(1)
  return new Map(
    sections.map((section) => [
      section.slice(0, section.indexOf('\n')),
      Array.from(section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm), ([, language = '', code = '']) => ({
        language,
        code,
      })),
    ]),
  )
}

describe('the skill for agents that write code', function () {
  this.timeout(180_000)
  let scratch: string
  let tarball: string
  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'skill-'))
    tarball = (await pack(scratch)).tarball
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  /** Runs a command or writes a file, as a block says. Returns the output of the command. */
  async function follow({ language, code }: Block, cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
    if (language === 'sh') {
      const command = code.replace('npm install mcp-gatekit', `npm install --no-audit --no-fund ${tarball}`)
      return (await run('sh', ['-c', command], { cwd, env })).stdout
    }
    const [, file] = /^\/\/ (\S+)\n/.exec(code) ?? []
    if (language !== 'js' || file === undefined) throw new Error(`The block is not a step: ${code}`)
    await writeFile(join(cwd, file), code)
    return ''
  }

  it('every section with code is run below', async () => {
    const found = [...(await sectionsOf())].filter(([, blocks]) => blocks.length > 0).map(([name]) => name)
    expect(found).to.deep.equal([...SERVERS, CHECK])
  })

  for (const name of SERVERS) {
    it(`the steps "${name}" in an empty project make a server that needs a token`, async () => {
      const sections = await sectionsOf()
      const cwd = join(scratch, name.replaceAll(' ', '-'))
      await mkdir(cwd)
      const env = { ...process.env, PORT: String(await freePort()) }
      let output = ''
      for (const block of [...(sections.get(name) ?? []), ...(sections.get(CHECK) ?? [])])
        output = await follow(block, cwd, env)
      expect(output).to.match(/^Without a token: 401 [^\n]*"invalid_token"/)
      expect(output).to.match(/^With a token: 200 [\s\S]*Hello, Ada/m)
    })
  }
})
