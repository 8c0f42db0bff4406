import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))

/** Returns the messages of the script if it fails, and an empty string if it succeeds. */
async function complaintsOf(...options: string[]): Promise<string> {
  // Measuring the coverage of the compiler takes longer than the rest. Node passes the variable on unless it is set here.
  const env = { ...process.env, NODE_V8_COVERAGE: undefined }
  const script = join(root, 'scripts', 'api-reference.mjs')
  return await run(process.execPath, [script, ...options], { cwd: root, env }).then(
    () => '',
    ({ stderr }: { stderr: string }) => stderr,
  )
}

describe('the API reference', function () {
  this.timeout(60_000)

  it('the pages and reports agree with the docstrings', async () => {
    if (!existsSync(join(root, 'dist', 'index.d.ts')))
      await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], { cwd: root })
    expect(await complaintsOf('--check')).to.equal('')
  })

  it('every link between the pages leads to a heading', () => {
    const pages = [
      'index',
      'gate',
      'telemetry',
      'testing',
      'openapi',
      'skills',
      'upstream',
      'authorization',
    ].map((name) => `${name}.md`)
    const text = new Map(
      pages.map(
        (page) => [page, readFileSync(join(root, 'docs', 'reference', 'api', page), 'utf8')] as const,
      ),
    )
    const anchors = new Map([...text].map(([page, markdown]) => [page, anchorsOf(markdown)] as const))
    const links = [...text].flatMap(([page, markdown]) =>
      [...markdown.matchAll(/\]\(([\w.-]*\.md)?(?:#([\w-]+))?\)/g)].map(([link, to = page, anchor]) => ({
        link: `${page}: ${link}`,
        found: anchor === undefined ? anchors.has(to) : anchors.get(to)?.has(anchor),
      })),
    )
    expect(links).to.have.length.above(300)
    expect(links.filter(({ found }) => found !== true)).to.deep.equal([])
  })

  describe('of other declarations', () => {
    let folder: string
    const page = (name: string) => readFileSync(join(folder, 'docs', name), 'utf8')
    const report = (name: string) => readFileSync(join(folder, 'reports', name), 'utf8')
    const declare = async (entries: Readonly<Record<string, string>>) => {
      for (const [name, text] of Object.entries(entries)) {
        await mkdir(dirname(join(folder, name)), { recursive: true })
        await writeFile(join(folder, name), text)
      }
    }
    const options = () => [
      ...['--declarations', folder],
      ...['--pages', join(folder, 'docs')],
      ...['--reports', join(folder, 'reports')],
    ]

    before(async () => {
      folder = mkdtempSync(join(tmpdir(), 'mcp-gatekit-'))
      await declare({
        'index.d.ts': `
          import type { Signal } from './telemetry/index.ts'
          export * from './telemetry/index.ts'
          interface DefinitionConfig {
            /** Shown to \`people\`. */
            readonly title?: string | undefined
          }
          /** The options of \`wait()\`. And more. */
          export interface WaitOptions extends DefinitionConfig {
            /** Milliseconds. Defaults to 5. */
            readonly timeoutMs?: number | undefined
            /** The signal to wait for. */
            readonly signal: Signal
          }
          /**
           * Waits, see \`Waiter\`.
           * @param options how long.
           * @returns nothing
           * @throws {WaitError} if no <signal> arrives.
           * @example
           * await wait({
           *   timeoutMs: 1,
           * })
           * @example
           * \`\`\`ts
           * await wait({
           *   nested: {
           *     deeper: 1,
           *   },
           * })
           * \`\`\`
           * @see https://www.rfc-editor.org/rfc/rfc6750#section-3
           * @see docs/guides/waiting.md#steps
           */
          export declare function wait(options?: WaitOptions): Promise<void>
          /** Thrown by \`wait()\`. */
          export declare class WaitError extends Error {
            /** @internal */
            constructor(hidden: Hidden)
          }
          interface Hidden { readonly secret: string }
          /** An object that waits. */
          export declare class Waiter implements Waiting {
            stop(): void
            static create(): Waiter
          }
          /** An object that can stop. */
          export interface Waiting {
            /** Ends it. */
            stop(): void
          }`,
        'telemetry/index.d.ts': '/** A sign. */\nexport type Signal = 1 | 2',
        'testing/index.d.ts': 'export {}',
        'skills/index.d.ts': 'export {}',
        'upstream/index.d.ts': 'export {}',
        'authorization/index.d.ts': 'export {}',
        'openapi/index.d.ts':
          "import type { Waiter } from '../index.ts'\n/** Old. */\nexport declare const waiters: readonly Waiter[]",
      })
    })
    after(() => rmSync(folder, { recursive: true }))

    it('a page has a section for each export with the first sentence and the references of its docstring', async () => {
      expect(await complaintsOf(...options())).to.equal('Waiter.create has no docstring\n')
      expect(page('gate.md')).to.contain(
        [
          '### wait',
          'Waits, see [`Waiter`](#waiter).',
          'See [www.rfc-editor.org/rfc/rfc6750#section-3](https://www.rfc-editor.org/rfc/rfc6750#section-3).',
          'See [docs/guides/waiting.md#steps](../../guides/waiting.md#steps).',
        ].join('\n\n'),
      )
      expect(page('gate.md')).to.contain('### WaitOptions\n\nThe options of [`wait()`](#wait).\n\nMembers: `')
    })

    it('a page names members, those of classes with their first sentence, and includes those of types that are not exported', () => {
      expect(page('gate.md'))
        .to.contain('Members: `signal`, `timeoutMs`, `title`.')
        .and.to.contain('- `static create()`\n- `stop()`: Ends it.\n')
      expect(page('openapi.md')).to.contain('### waiters\n\nOld.\n')
    })

    it('the index lists the exports of each entry by kind', () => {
      expect(page('index.md'))
        .to.contain('## [mcp-gatekit](gate.md)\n\n- Functions: [`wait`](gate.md#wait)\n')
        .and.to.contain('- Options: [`WaitOptions`](gate.md#waitoptions)\n')
    })

    it('pages and reports omit internal members', () => {
      expect(page('gate.md')).not.to.match(/Hidden|constructor/)
      expect(report('gate.api.md')).not.to.contain('interface Hidden')
    })

    it('a report does not repeat an entry that it re-exports', () => {
      expect(report('gate.api.md'))
        .to.contain("\nexport * from 'mcp-gatekit/telemetry';\n")
        .and.not.to.contain('export type Signal')
      expect(report('telemetry.api.md')).to.contain('export type Signal')
    })

    it('the check reports stale files, missing docstrings, and types that are not exported', async () => {
      await declare({
        'openapi/index.d.ts': `
          interface Unknown { readonly a: string }
          export declare function added(unknown: Unknown): void
          export {}`,
      })
      await writeFile(join(folder, 'docs', 'left.md'), '')
      const complaints = await complaintsOf(...options(), '--check')
      expect(complaints)
        .to.match(/^.*openapi.index\.d\.ts: The symbol "Unknown" needs to be exported/m)
        .and.to.match(/^added has no docstring$/m)
        .and.to.match(/: index\.md, openapi\.md, openapi\.api\.md, left\.md\. Run `npm run api`/)
    })
  })
})

/** Returns the anchors that GitHub gives to the headings of a page. */
function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of markdown.matchAll(/^#+ (.*)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-')
    let anchor = slug
    for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`
    anchors.add(anchor)
  }
  return anchors
}
