import { expect } from 'chai'
import { withBodyEnd } from '../../../src/mcp/wire/event-stream.ts'

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

describe('withBodyEnd()', () => {
  for (const [how, end] of [
    ['ends', ({ controller }) => controller.close()],
    ['fails', ({ controller }) => controller.error(new Error('broken'))],
  ] as const satisfies [string, (stream: ReturnType<typeof startStream>) => unknown][]) {
    it(`withBodyEnd() calls back once when its source ${how}`, async () => {
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

  it('withBodyEnd() calls back once when its reader cancels it, and cancels its source', async () => {
    const { body, canceled } = startStream()
    let ends = 0
    await withBodyEnd(body, () => ends++).cancel()
    await canceled
    expect(ends).to.equal(1)
  })
})
