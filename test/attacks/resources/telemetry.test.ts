import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'

/** Runs a program of this folder in a process with a heap of 128 MB, and returns its output. */
async function inSmallHeap(name: string, argument: string): Promise<unknown> {
  const file = fileURLToPath(new URL(`${name}.program.js`, import.meta.url))
  const env = { ...process.env, NODE_V8_COVERAGE: undefined }
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--max-old-space-size=128', file, argument],
    { env, timeout: 60_000 },
  )
  return JSON.parse(stdout)
}

describe('attacks on the memory of telemetry', () => {
  it('memory of telemetry: 2 000 runs that each start the next one, with sessions of 200 kB that never end: the process survives with a heap of 128 MB, and its next event is delivered', async function () {
    this.timeout(60_000)
    expect(await inSmallHeap('telemetry-sessions', 'succession')).to.deep.equal({ lines: 1, actor: 'u1' })
  })

  it('memory of telemetry: 2 000 ended sessions of 100 kB that were written to a JSON logger: the process survives with a heap of 128 MB, and its next event is delivered', async function () {
    this.timeout(60_000)
    expect(await inSmallHeap('telemetry-sessions', 'ended')).to.deep.equal({ lines: 1, actor: 'u1' })
  })
})
