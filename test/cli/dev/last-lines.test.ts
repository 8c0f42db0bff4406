import { expect } from 'chai'
import { LastLines } from '../../../cli/dev/server-process.ts'

describe('LastLines', () => {
  const lines = (...chunks: readonly string[]) => {
    const last = new LastLines()
    for (const chunk of chunks) last.add(Buffer.from(chunk))
    return String(last)
  }
  const numbered = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}`)

  for (const [what, chunks, expected] of [
    ['nothing', [], ''],
    ['20 of 25 lines', [numbered(25).join('\n'), '\n'], numbered(25).slice(5).join('\n')],
    ['a line in two chunks', ['one', ' line\n'], 'one line'],
    ['no colors and control characters', ['\u001b[31mred\u001b[0m\u0007\u0000\u202e\r\n\tx'], 'red\n\tx'],
    [
      'one sentence for a port that is in use',
      ['Error: listen EADDRINUSE: address already in use :::3000\n    at x (a.js:1:2)\n'],
      'Port 3000 is in use. Set PORT.',
    ],
  ] as const)
    it(`keeps ${what}`, () => expect(lines(...chunks)).to.equal(expected))

  it('keeps at most 8 KiB of a long output', () => {
    expect(lines('x'.repeat(100_000), 'y'.repeat(100))).to.have.length(8192)
  })
})
