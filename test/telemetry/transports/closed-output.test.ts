import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'

const telemetry = new URL('../../../src/telemetry/index.js', import.meta.url).href

/** Emits events after its output was closed, and sends the numbers of lines that were delivered and not. */
const programWith = (logger: string, format: string): string => `
  import { KitTelemetry, LoggerTransportAdapter } from ${JSON.stringify(telemetry)}
  const manager = KitTelemetry.create()
    .withSampling({ infoRate: 1 })
    .withLogger(false)
    .addTransport(LoggerTransportAdapter.create({ logger: ${logger}, format: '${format}' }))
    .build()
  process.once('message', async () => {
    for (let sent = 0; sent < 20; sent++) {
      manager.emit('order.placed', { level: sent % 2 === 0 ? 'info' : 'error' })
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await manager.shutdown()
    const [{ failed, pending }] = manager.stats().transports
    process.send({ failed, pending }, () => process.disconnect())
  })
  process.send('ready')`

const OUT = '(line) => process.stdout.write(line)'
const ERR = '(line) => process.stderr.write(line)'
const WRITER = `{ debug: ${OUT}, info: ${OUT}, warn: ${ERR}, error: ${ERR} }`

describe('a process whose output is closed', () => {
  for (const [what, logger, format] of [
    ['console', 'console', 'json'],
    ['console with the format pino', 'console', 'pino'],
    ['a logger that writes to the streams', WRITER, 'json'],
  ] as const)
    it(`goes on with ${what}, and counts lines that it cannot write as failed`, async () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', programWith(logger, format)], {
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      })
      const ended = once(child, 'close')
      await Promise.race([once(child, 'message'), ended])
      for (const stream of [child.stdout, child.stderr]) {
        stream?.destroy()
        if (stream?.closed === false) await once(stream, 'close')
      }
      const counted = once(child, 'message')
      child.send('go')
      const [{ failed, pending }] = (await Promise.race([counted, ended])) as [
        { failed: number; pending: number },
      ]
      expect(failed).to.be.above(0)
      expect(pending).to.equal(0)
      expect(await ended).to.deep.equal([0, null])
    })
})
