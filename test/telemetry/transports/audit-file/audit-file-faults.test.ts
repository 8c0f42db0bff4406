import { existsSync, promises, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { auditFile, verifyAudit } from '../../../../src/telemetry/index.ts'
import { runs } from '../../../support/runs.ts'
import { AUDIT_SECRET, auditBuilder } from '../../../support/telemetry/audit.ts'

const linesOf = (file: string): string[] => {
  const text = readFileSync(file, 'utf8')
  expect(text.endsWith('\n') || text === '').to.equal(true)
  return text.split('\n').slice(0, -1)
}

describe('auditFile on a disk with faults', () => {
  let folder: string
  const { setTimeout } = globalThis
  const { open } = promises
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'audit-file-'))
    // The pauses between attempts are as short as possible, but not the deadline of a shutdown.
    const short = (callback: () => void, ms: number) => setTimeout(callback, ms < 10_000 ? 0 : ms)
    globalThis.setTimeout = short as typeof setTimeout
  })
  afterEach(() => {
    globalThis.setTimeout = setTimeout
    promises.open = open
    rmSync(folder, { recursive: true })
  })

  it('random faults of the disk, restarts, and moves leave whole lines, each event once, in order', async () => {
    const fault = fc.constantFrom('none', 'none', 'none', 'short', 'write', 'sync', 'cut', 'open')
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ faults: fc.array(fault, { maxLength: 8 }), length: fc.nat(200) }) },
      { weight: 1, arbitrary: fc.constantFrom('restart', 'move') },
    )
    let run = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 20 }),
        fc.boolean(),
        fc.nat(),
        async (steps, fsync, seed) => {
          let faults: string[] = []
          let size = seed
          const fails = (kind: string): boolean => faults[0] === kind && faults.shift() !== undefined
          const failure = () => Object.assign(new Error('fault'), { code: 'EIO' })
          promises.open = async (...args) => {
            if (fails('open')) throw failure()
            const file = await open(...args)
            const { write, sync, truncate } = file
            return Object.assign(file, {
              write: async (bytes: Uint8Array) => {
                if (faults[0] === 'none') faults.shift()
                if (!fails('short') && !fails('write')) return Reflect.apply(write, file, [bytes])
                size = (size * 31 + 7) % 100_003
                const result = await Reflect.apply(write, file, [bytes.subarray(0, size % bytes.length)])
                if (size % 2 === 0) throw failure()
                return result
              },
              sync: async () => {
                if (fails('sync')) throw failure()
                await sync.call(file)
              },
              truncate: async (length: number) => {
                if (fails('cut')) throw failure()
                await truncate.call(file, length)
              },
            })
          }
          const path = join(folder, `run${run++}.log`)
          const files = [path]
          let emitted = 0
          const start = () => auditBuilder(auditFile(path, { fsync })).build()
          let manager = start()
          for (const step of steps) {
            if (step === 'restart') {
              await manager.shutdown()
              manager = start()
            } else if (step === 'move') {
              await manager.flush()
              files.splice(-1, 0, `${path}.${files.length}`)
              if (existsSync(path)) renameSync(path, files.at(-2) as string)
              else writeFileSync(files.at(-2) as string, '')
            } else {
              faults = [...step.faults]
              manager.emit('a.b', { attributes: { index: emitted++, text: 'ü'.repeat(step.length) } })
              await manager.flush()
            }
          }
          await manager.shutdown()
          const lines = files.flatMap(linesOf).map((line) => JSON.parse(line))
          const indices = lines.filter(({ name }) => name === 'a.b').map(({ attributes }) => attributes.index)
          expect(indices).to.deep.equal(Array.from({ length: emitted }, (_, index) => index))
          expect(
            await verifyAudit(
              files.map((file) => readFileSync(file)),
              AUDIT_SECRET,
            ),
          ).to.deep.equal({ valid: true, events: emitted })
        },
      ),
      { numRuns: runs(100) },
    )
  })
})
