import { expect } from 'chai'
import fc from 'fast-check'
import { linesOf } from '../../../src/telemetry/audit/audit-lines.ts'
import { runs } from '../../support/runs.ts'

describe('lines of an audit log', () => {
  const collect = async (chunks: readonly (string | Uint8Array)[], max: number): Promise<string[]> => {
    async function* source() {
      yield* chunks
    }
    const lines: string[] = []
    for await (const line of linesOf(source(), max))
      lines.push(Buffer.from(line as string).toString('latin1'))
    return lines
  }

  it('the lines of bytes do not depend on their pieces, and one byte more than the maximum is kept', async () => {
    const line = fc
      .uint8Array({ maxLength: 12 })
      .map((bytes) => Buffer.from(bytes.map((byte) => (byte === 10 ? 11 : byte))))
    await fc.assert(
      fc.asyncProperty(
        fc.array(line),
        fc.array(fc.nat(6)),
        fc.integer({ min: 1, max: 14 }),
        async (lines, sizes, max) => {
          const bytes = Buffer.concat(lines.map((one) => Buffer.concat([one, Buffer.from('\n')])))
          const chunks: Uint8Array[] = []
          let start = 0
          for (const size of sizes) {
            chunks.push(bytes.subarray(start, start + size))
            start += size
          }
          chunks.push(bytes.subarray(start))
          expect(await collect(chunks, max)).to.deep.equal(
            lines.map((one) => one.subarray(0, max + 1).toString('latin1')),
          )
        },
      ),
      { numRuns: runs(500) },
    )
  })

  it('a last line without a line feed is a line', async () => {
    expect(await collect([Buffer.from('a\nb')], 9)).to.deep.equal(['a', 'b'])
    expect(await collect([], 9)).to.deep.equal([])
  })

  it('a string is a line, also after bytes without a line feed', async () => {
    expect(await collect(['a\nb', Buffer.from('c\nd'), 'e'], 9)).to.deep.equal(['a\nb', 'c', 'd', 'e'])
  })
})
