import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import * as kit from '../src/index.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))

/**
 * A block of TypeScript in a page. The word after `ts` determines the check: without a word, the block must compile; a
 * `fragment` may use names that it does not declare; a `wrong` block is a fragment with a mistake that the compiler finds.
 */
interface Block {
  readonly page: string
  /** The line of the first line of code, from 1. */
  readonly line: number
  readonly meant: string
  readonly code: string
}

/** Errors of the compiler about undeclared names, and about parameters whose type depends on one. */
const UNDECLARED = ['TS2304', 'TS2552', 'TS18004', 'TS7006', 'TS7031']

function blocksOf(page: string, markdown: string): Block[] {
  return [...markdown.matchAll(/^```ts(?: (?<meant>\S+))?\n(?<code>[\s\S]*?)^```$/gm)].map((match) => {
    const { meant = '', code = '' } = match.groups ?? {}
    return { page, line: markdown.slice(0, match.index).split('\n').length + 1, meant, code }
  })
}

/** Returns the problems of the blocks of these pages, by page and line. */
async function problemsOf(pages: ReadonlyMap<string, string>): Promise<string[]> {
  const blocks = [...pages].flatMap(([page, markdown]) => blocksOf(page, markdown))
  const errors = await compile(blocks.map(toModule))
  return blocks.flatMap(({ page, line, meant }, index) => {
    const found = errors
      .filter(({ module }) => module === index)
      .filter(({ code }) => meant === '' || !UNDECLARED.includes(code))
      .map(({ at, code, message }) => `${page}:${at} ${code} ${message}`)
    if (meant === '' || meant === 'fragment') return found
    if (meant !== 'wrong') return [`${page}:${line} ts ${meant} is not a known kind of block`]
    return found.length > 0 ? [] : [`${page}:${line} compiles, but is marked as wrong`]
  })
}

/** Returns a module with the line numbers of the page. A fragment can use all exports of the package. */
function toModule({ line, meant, code }: Block): string {
  const used = Object.keys(kit).filter(
    (name) => new RegExp(`\\b${name}\\b`).test(code) && !new RegExp(`\\bimport\\b.*\\b${name}\\b`).test(code),
  )
  const imports = meant === '' ? '' : `import { ${used.join(', ')} } from 'mcp-gatekit'; `
  return `${imports}export {}${'\n'.repeat(line - 1)}${code}`
}

interface CompilerError {
  readonly module: number
  readonly at: number
  readonly code: string
  readonly message: string
}

/** Compiles with the options of this project, and within it, so that every package is found. */
async function compile(modules: readonly string[]): Promise<CompilerError[]> {
  await mkdir(join(root, 'build'), { recursive: true })
  const folder = await mkdtemp(join(root, 'build', 'docs-'))
  try {
    const files = modules.map((_, index) => `block-${index}.ts`)
    const options = { extends: '../../tsconfig.json', compilerOptions: { noEmit: true }, files, include: [] }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(options))
    await Promise.all(modules.map((code, index) => writeFile(join(folder, `block-${index}.ts`), code)))
    const tsc = join(root, 'node_modules', '.bin', 'tsc')
    const { stdout } = await run(tsc, ['-p', folder, '--pretty', 'false']).catch((error) => error)
    return [...stdout.matchAll(/^.*?block-(\d+)\.ts\((\d+),\d+\): error (TS\d+): (.*)$/gm)].map(
      ([, module, at, code, message]) => ({ module: Number(module), at: Number(at), code, message }),
    )
  } finally {
    await rm(folder, { recursive: true })
  }
}

describe('TypeScript in the documentation', function () {
  this.timeout(60_000)

  it('every block compiles, fragments except for undeclared names', async () => {
    const names = ['README.md', 'llms.txt'].concat(
      readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`),
    )
    const pages = new Map(
      names
        .filter((name) => /\.(?:md|txt)$/.test(name))
        .map((name) => [name, readFileSync(join(root, name), 'utf8')] as const),
    )
    expect([...pages].flatMap(([page, markdown]) => blocksOf(page, markdown))).to.have.length.above(20)
    expect(await problemsOf(pages)).to.deep.equal([])
  })
})

it('the guide about proxies shows the configuration of nginx that the tests of a cluster run', () => {
  const example = readFileSync(join(root, 'examples/cluster/sub-path.conf'), 'utf8')
  expect(readFileSync(join(root, 'docs/guides/proxies.md'), 'utf8')).to.contain(`\n${example}\`\`\``)
})
