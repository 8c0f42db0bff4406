import { expect } from 'chai'
import fc from 'fast-check'
import { type BodyRead, type BodySink, readBody, webSource } from '../../../src/base/http/body-reader.ts'
import { anyCharacter } from '../../support/any-character.ts'

const LIMITS = { maxBytes: 1_000, timeoutMs: 5_000 }

/** Reads a body that `give` writes synchronously. */
function readAtOnce(give: (sink: BodySink) => void, limits = LIMITS): Promise<BodyRead> {
  return readBody((sink) => {
    give(sink)
    return () => undefined
  }, limits)
}

/** Cuts `bytes` at these positions. */
function cutAt(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end))
}

describe('readBody()', () => {
  it('readBody() reads the same text from any chunks, including empty ones and parts of characters', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: anyCharacter }), fc.array(fc.nat()), async (text, cuts) => {
        const bytes = Buffer.from(text)
        const read = await readAtOnce((sink) => {
          for (const chunk of cutAt(bytes, cuts)) sink.chunk(chunk)
          sink.end()
        })
        expect(read).to.deep.equal({ kind: 'text', text: bytes.toString() })
      }),
    )
  })

  it('readBody() accepts at most maxBytes bytes, in any chunks', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(50), fc.nat(50), fc.array(fc.nat()), async (size, maxBytes, cuts) => {
        const { kind } = await readAtOnce(
          (sink) => {
            for (const chunk of cutAt(Buffer.alloc(size, 'x'), cuts)) sink.chunk(chunk)
            sink.end()
          },
          { ...LIMITS, maxBytes },
        )
        expect(kind).to.equal(size > maxBytes ? 'too-large' : 'text')
      }),
    )
  })

  for (const [what, chunk] of [
    ['a Buffer', Buffer.from('{"é":1}')],
    ['a Uint8Array', new Uint8Array(Buffer.from('{"é":1}'))],
    ['a string', '{"é":1}'],
    ['an ArrayBuffer', new Uint8Array(Buffer.from('{"é":1}')).buffer],
    ['a DataView', new DataView(new Uint8Array(Buffer.from('{"é":1}')).buffer)],
    ['a Uint16Array', new Uint16Array(new Uint8Array(Buffer.from('{"é":1}')).buffer)],
  ] as const) {
    it(`readBody() reads ${what} as bytes`, async () => {
      const read = await readAtOnce((sink) => {
        sink.chunk(chunk)
        sink.chunk(chunk)
        sink.end()
      })
      expect(read).to.deep.equal({ kind: 'text', text: '{"é":1}{"é":1}' })
    })
  }

  it('readBody() reads strings in their encoding', async () => {
    for (const [chunk, encoding] of [
      ['7b7d', 'hex'],
      ['e30=', 'base64'],
      ['{}', 'latin1'],
      ['{}', null],
    ] as const) {
      const read = await readAtOnce((sink) => {
        sink.chunk(chunk, encoding)
        sink.end()
      })
      expect(read).to.deep.equal({ kind: 'text', text: '{}' })
    }
  })

  it('readBody() counts the bytes of strings, not their characters', async () => {
    const limits = { ...LIMITS, maxBytes: 3 }
    const readOf = (text: string): Promise<BodyRead> =>
      readAtOnce((sink) => {
        sink.chunk(text)
        sink.end()
      }, limits)
    expect((await readOf('éa')).kind).to.equal('text')
    expect((await readOf('éé')).kind).to.equal('too-large')
    expect((await readOf('a'.repeat(1_000_000))).kind).to.equal('too-large')
  })

  for (const chunk of [1, null, undefined, {}, [1], Symbol('x')]) {
    it(`readBody() cannot read a chunk that is neither bytes nor a string: ${String(chunk)}`, async () => {
      expect(await readAtOnce((sink) => sink.chunk(chunk))).to.deep.equal({ kind: 'unreadable' })
    })
  }

  it('readBody() does not keep a large buffer alive for a small chunk of it', async () => {
    const slab = Buffer.alloc(1_000_000, 'x')
    const collected = new Promise<BodyRead>((resolve) => {
      void readAtOnce((sink) => {
        sink.chunk(slab.subarray(0, 10))
        // This would change the body if the buffer were kept.
        slab.fill('y')
        sink.end()
      }).then(resolve)
    })
    expect(await collected).to.deep.equal({ kind: 'text', text: 'x'.repeat(10) })
  })

  for (const [what, chunks, expected] of [
    ['a single chunk', [10], [10]],
    ['an empty chunk', [0], []],
    ['a second chunk', [10, 10], [10, 4_096]],
    ['large chunks', [3_000, 3_000], [3_000, 12_000]],
    ['chunks that fill the buffer', [10, 10, 4_076], [10, 4_096]],
    ['chunks that do not fit into the buffer', [10, 10, 4_077], [10, 4_096, 8_194]],
    ['chunks up to the limit', [10_000, 6_000], [10_000, 16_384]],
  ] as const)
    it(`readBody() reserves memory for ${what}`, async () => {
      const reserved: number[] = []
      const resize = (bytes: number) => void reserved.push(bytes)
      const read = await readBody(
        (sink) => {
          for (const size of chunks) sink.chunk(Buffer.alloc(size, 'x'))
          sink.end()
          return () => undefined
        },
        { ...LIMITS, maxBytes: 16_384 },
        { resize },
      )
      expect(reserved).to.deep.equal(expected)
      expect(read).to.deep.equal({
        kind: 'text',
        text: 'x'.repeat(chunks.reduce<number>((sum, size) => sum + size, 0)),
      })
    })

  for (const [slack, reserved] of [
    [65_536, 10],
    [65_537, 4_096],
  ] as const)
    it(`readBody() reserves ${reserved} bytes for a chunk of 10 bytes that keeps ${slack} more alive`, async () => {
      const all: number[] = []
      await readBody(
        (sink) => {
          sink.chunk(Buffer.alloc(10 + slack).subarray(0, 10))
          sink.end()
          return () => undefined
        },
        { ...LIMITS, maxBytes: 16_384 },
        { resize: (bytes) => void all.push(bytes) },
      )
      expect(all).to.deep.equal([reserved])
    })

  it('readBody() returns the reason for which the memory refuses a chunk', async () => {
    for (const last of [1, 2]) {
      let count = 0
      const read = await readBody(
        (sink) => {
          for (let index = 0; index < last; index++) sink.chunk(Buffer.alloc(10))
          return () => undefined
        },
        LIMITS,
        { resize: () => (++count === last ? 'busy' : undefined) },
      )
      expect(read).to.deep.equal({ kind: 'busy' })
    }
  })

  it('the sink of readBody() returns the bytes of the body, once', async () => {
    const ends: string[] = []
    await readAtOnce((sink) => {
      sink.chunk('ab')
      sink.chunk('c')
      ends.push(String(sink.end()), String(sink.end()))
    })
    expect(ends).to.deep.equal(['abc', ''])
  })

  it('readBody() stops the source once, and ignores later chunks', async () => {
    let stopped = 0
    let given: BodySink | undefined
    const read = await readBody((sink) => {
      given = sink
      queueMicrotask(() => sink.chunk(Buffer.alloc(LIMITS.maxBytes + 1)))
      return () => stopped++
    }, LIMITS)
    given?.chunk('x')
    given?.end()
    given?.broken()
    expect({ read, stopped, isSettled: given?.isSettled }).to.deep.equal({
      read: { kind: 'too-large' },
      stopped: 1,
      isSettled: true,
    })
  })

  it('readBody() fails after the timeout', async () => {
    const read = await readBody(() => () => undefined, { ...LIMITS, timeoutMs: 1 })
    expect(read).to.deep.equal({ kind: 'timeout' })
  })
})

describe('webSource()', () => {
  const never = new AbortController().signal

  it('webSource() lets timers run while chunks arrive without a pause', async () => {
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(0)) })
    const read = await readBody(webSource(endless, never), { ...LIMITS, timeoutMs: 10 })
    expect(read).to.deep.equal({ kind: 'timeout' })
  })

  it('webSource() cancels the stream after the timeout, without waiting for it', async () => {
    let cancelled = false
    const silent = new ReadableStream({
      cancel() {
        cancelled = true
        return new Promise<void>(() => undefined)
      },
    })
    const read = await readBody(webSource(silent, never), { ...LIMITS, timeoutMs: 1 })
    expect({ read, cancelled }).to.deep.equal({ read: { kind: 'timeout' }, cancelled: true })
  })

  it('webSource() stops if the client disconnects, before or during the read', async () => {
    for (const isBefore of [true, false]) {
      const abort = new AbortController()
      if (isBefore) abort.abort()
      const reading = readBody(webSource(new ReadableStream(), abort.signal), LIMITS)
      abort.abort()
      expect(await reading).to.deep.equal({ kind: 'unreadable' })
    }
  })

  it('webSource() cannot read a stream that fails', async () => {
    const failing = new ReadableStream({
      start: (controller) => controller.enqueue(Buffer.from('{')),
      pull: (controller) => controller.error(new Error('gone')),
    })
    expect(await readBody(webSource(failing, never), LIMITS)).to.deep.equal({ kind: 'unreadable' })
  })
})
