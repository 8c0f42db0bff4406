import { expect } from 'chai'
import { endingAt, withBodyEnd } from '../../../src/mcp/wire/stream-end.ts'

type Controller = ReadableStreamDefaultController<Uint8Array>

/** A stream with one chunk, its controller, and a promise that resolves when it is canceled. */
function startStream() {
  let controller: Controller | undefined
  let cancel = (): void => undefined
  const canceled = new Promise<void>((resolve) => {
    cancel = resolve
  })
  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given
      given.enqueue(Buffer.from('first'))
    },
    cancel,
  })
  return { body, canceled, controller: controller as unknown as Controller }
}

describe('endingAt()', () => {
  it('ends a stream at the given time, and cancels its source', async () => {
    const { body, canceled } = startStream()
    const reader = endingAt(body, Date.now() / 1000 + 0.05).getReader()
    expect(Buffer.from((await reader.read()).value ?? []).toString()).to.equal('first')
    expect((await reader.read()).done).to.equal(true)
    await canceled
  })

  it('ends a stream at once if the time has passed', async () => {
    const { body, canceled } = startStream()
    endingAt(body, Date.now() / 1000 - 5)
    await canceled
  })

  it('ends a stream when its source ends, before the time', async () => {
    const { body, controller } = startStream()
    const reader = endingAt(body, Date.now() / 1000 + 3_600).getReader()
    controller.close()
    await reader.read()
    expect((await reader.read()).done).to.equal(true)
  })

  it('cancels its source when its reader cancels it', async () => {
    const { body, canceled } = startStream()
    await endingAt(body, Date.now() / 1000 + 3_600).cancel()
    await canceled
  })
})

describe('withBodyEnd()', () => {
  for (const [how, end] of [
    ['ends', ({ controller }) => controller.close()],
    ['fails', ({ controller }) => controller.error(new Error('broken'))],
  ] as const satisfies [string, (stream: ReturnType<typeof startStream>) => unknown][]) {
    it(`calls back once when its source ${how}`, async () => {
      const stream = startStream()
      let ends = 0
      const reader = withBodyEnd(stream.body, () => ends++).getReader()
      await reader.read()
      expect(ends).to.equal(0)
      end(stream)
      await reader.read().catch(() => undefined)
      expect(ends).to.equal(1)
    })
  }

  it('calls back once when its reader cancels it, and cancels its source', async () => {
    const { body, canceled } = startStream()
    let ends = 0
    await withBodyEnd(body, () => ends++).cancel()
    await canceled
    expect(ends).to.equal(1)
  })
})
