import { expect } from 'chai'
import { MemoryEventLog } from '../../../src/mcp/events/memory-event-log.ts'

describe('MemoryEventLog', () => {
  /** The memory of an event is 512 bytes, 2 for each character, and 64 for each channel. */
  for (const [body, channels, bytes] of [
    ['x'.repeat(1_000), ['a'], 2_578],
    ['x', ['c'.repeat(1_000)], 2_578],
    ['', ['a', 'bb'], 646],
    ['x'.repeat(100), [], 712],
  ] as const) {
    const what = `a text of ${body.length} characters and ${channels.length} channels of ${channels.join('').length}`
    it(`a log keeps three events with ${what} in ${3 * bytes} bytes, and two in one byte less`, () => {
      for (const [maxLogBytes, dropped] of [
        [3 * bytes, 0],
        [3 * bytes - 1, 1],
        [bytes, 2],
        [bytes - 1, 3],
      ] as const) {
        const log = new MemoryEventLog({ maxLogBytes, maxLogAgeMs: 60_000 })
        for (const position of [1, 2, 3]) log.append(position, { body, channels })
        const read = log.read(channels, { after: 0, maxEvents: 9, maxBytes: 1e9 })
        expect(read.droppedUpTo).to.equal(dropped)
        if (channels.length > 0) expect(read.events).to.have.length(3 - dropped)
      }
    })
  }

  it('a channel that is added to an event counts once, also if it is added again', () => {
    const log = new MemoryEventLog({ maxLogBytes: 2 * 578 + 66, maxLogAgeMs: 60_000 })
    for (const position of [1, 2]) log.append(position, { body: '', channels: ['a'] })
    expect(log.extend([1, 2, 3], ['a']).map(({ position }) => position)).to.deep.equal([1, 2])
    for (let time = 0; time < 2; time++) log.extend([1], ['b'])
    log.trim()
    const read = () => log.read(['a', 'b'], { after: 0, maxEvents: 9, maxBytes: 1e9 })
    expect(read().droppedUpTo).to.equal(0)
    log.extend([2], ['b'])
    expect(read()).to.deep.include({ droppedUpTo: 1, hasMore: false })
    expect(read().events.map(({ position }) => position)).to.deep.equal([2])
  })
})
