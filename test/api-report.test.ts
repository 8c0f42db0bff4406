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
  const script = join(root, 'scripts', 'api-report.mjs')
  return await run(process.execPath, [script, ...options], { cwd: root, env }).then(
    () => '',
    ({ stderr }: { stderr: string }) => stderr,
  )
}

describe('the report of the public API', function () {
  this.timeout(60_000)

  it('the report agrees with the declarations, and every export has a docstring', async () => {
    if (!existsSync(join(root, 'dist', 'index.d.ts')))
      await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], { cwd: root })
    expect(await complaintsOf('--check')).to.equal('')
  })

  describe('of other declarations', () => {
    let folder: string
    const report = (name: string) => readFileSync(join(folder, 'reports', name), 'utf8')
    const declare = async (entries: Readonly<Record<string, string>>) => {
      for (const [name, text] of Object.entries(entries)) {
        await mkdir(dirname(join(folder, name)), { recursive: true })
        await writeFile(join(folder, name), text)
      }
    }
    const options = () => ['--declarations', folder, '--reports', join(folder, 'reports')]

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
          /** Waits. */
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

    it('the script reports a method of a class without a docstring', async () => {
      expect(await complaintsOf(...options())).to.equal('Waiter.create has no docstring\n')
    })

    it('a report omits internal types', () => {
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
      await writeFile(join(folder, 'reports', 'left.md'), '')
      const complaints = await complaintsOf(...options(), '--check')
      expect(complaints)
        .to.match(/^.*openapi.index\.d\.ts: The symbol "Unknown" needs to be exported/m)
        .and.to.match(/^added has no docstring$/m)
        .and.to.match(/: openapi\.api\.md, left\.md\. Run `npm run api`/)
    })
  })
})
