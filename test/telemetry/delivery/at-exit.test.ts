import { spawnSync } from 'node:child_process'
import { expect } from 'chai'

const ENTRY = new URL('../../../src/telemetry/index.js', import.meta.url).href

function stderrOf(code: string): string {
  const program = `
    const { HttpTransportAdapter, KitTelemetry } = await import('${ENTRY}')
    const manager = (build = (it) => it) => build(KitTelemetry.create()).addTransport(
      HttpTransportAdapter.create({ url: 'http://127.0.0.1:9/', batch: { maxSize: 50, maxDelayMs: 60000 } }),
    ).build()
    ${code}`
  return spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' }).stderr
}

describe('the end of a process with pending events', () => {
  it('each manager writes one line that counts them', () =>
    expect(
      stderrOf(
        `for (const level of ['error', 'warn']) { const it = manager(); it.emit('a', { level }); it.emit('b', { level }) }`,
      ).match(/2 of transport "http"/g),
    ).to.have.length(2))

  it('nothing is written with withLogger(false), or without pending events', () =>
    expect(
      stderrOf(`manager((it) => it.withLogger(false)).emit('a', { level: 'error' }); manager()`),
    ).to.equal(''))

  it('many managers add one listener', () =>
    expect(stderrOf('for (let at = 0; at < 50; at++) manager()')).to.equal(''))
})
