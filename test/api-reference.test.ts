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

/** What the script says on its way to failing; nothing when it does not fail. */
async function complaintsOf(...options: string[]): Promise<string> {
  // The coverage of a compiler is of no use, and takes longer than the rest. Node passes it on unless it is named.
  const env = { ...process.env, NODE_V8_COVERAGE: undefined }
  const script = join(root, 'scripts', 'api-reference.mjs')
  return await run(process.execPath, [script, ...options], { cwd: root, env }).then(
    () => '',
    ({ stderr }: { stderr: string }) => stderr,
  )
}

describe('the API reference', function () {
  this.timeout(60_000)

  it('is what the docstrings say', async () => {
    if (!existsSync(join(root, 'dist', 'index.d.ts')))
      await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], { cwd: root })
    expect(await complaintsOf('--check')).to.equal('')
  })

  it('leads nowhere that is not there', () => {
    const pages = ['index', 'gate', 'telemetry', 'testing', 'openapi'].map((name) => `${name}.md`)
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
    expect(links).to.have.length.above(500)
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
          /** What \`wait()\` takes. And more. */
          export interface WaitOptions extends DefinitionConfig {
            /** Milliseconds. Default 5. */
            readonly timeoutMs?: number | undefined
            /** Heard before. */
            readonly signal: Signal
          }
          /**
           * Waits, see \`Waiter\`.
           * @param options how long.
           * @returns nothing
           * @throws {WaitError} when nobody <comes>.
           * @example
           * await wait({
           *   timeoutMs: 1,
           * })
           */
          export declare function wait(options?: WaitOptions): Promise<void>
          /** Thrown by \`wait()\`. */
          export declare class WaitError extends Error {
            /** @internal */
            constructor(hidden: Hidden)
          }
          interface Hidden { readonly secret: string }
          /** Who waits. */
          export declare class Waiter implements Waiting {
            stop(): void
            static create(): Waiter
          }
          /** How to wait. */
          export interface Waiting {
            /** Ends it. */
            stop(): void
          }`,
        'telemetry/index.d.ts': '/** A sign. */\nexport type Signal = 1 | 2',
        'testing/index.d.ts': 'export {}',
        'openapi/index.d.ts':
          "import type { Waiter } from '../index.ts'\n/** Old. */\nexport declare const waiters: readonly Waiter[]",
      })
    })
    after(() => rmSync(folder, { recursive: true }))

    it('has a section for each export, made of its docstring', async () => {
      expect(await complaintsOf(...options())).to.equal('Waiter.create has no docstring\n')
      expect(page('gate.md')).to.contain(
        [
          '### wait',
          '```ts\nfunction wait(options?: WaitOptions): Promise<void>\n```',
          'Waits, see [`Waiter`](#waiter).',
          '- `options`: how long.',
          'Returns: nothing',
          'Throws [`WaitError`](#waiterror) when nobody &lt;comes>.',
          '```ts\nawait wait({\n  timeoutMs: 1,\n})\n```',
        ].join('\n\n'),
      )
    })

    it('lists members, with those of types that are not exported, and their links', () => {
      expect(page('gate.md'))
        .to.contain(
          [
            '- `signal: `[`Signal`](telemetry.md#signal): Heard before.',
            '- `timeoutMs?: number`: Milliseconds. Default 5.',
            '- `title?: string`: Shown to `people`.',
          ].join('\n'),
        )
        .and.to.contain('- `static create(): `[`Waiter`](#waiter)\n- `stop(): void`: Ends it.\n')
      expect(page('openapi.md')).to.contain('const waiters: readonly Waiter[]')
      expect(page('index.md')).to.contain(
        '| [`WaitOptions`](gate.md#waitoptions) | What [`wait()`](gate.md#wait) takes. |',
      )
    })

    it('says nothing of what is internal', () => {
      expect(page('gate.md')).not.to.match(/Hidden|constructor/)
      expect(report('gate.api.md')).not.to.contain('interface Hidden')
    })

    it('reports an entry that is re-exported once', () => {
      expect(report('gate.api.md'))
        .to.contain("\nexport * from 'mcp-gatekit/telemetry';\n")
        .and.not.to.contain('export type Signal')
      expect(report('telemetry.api.md')).to.contain('export type Signal')
    })

    it('is seen to be stale, with what is not documented and what is not exported', async () => {
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

/** The anchors that GitHub gives to the headings of a page. */
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
