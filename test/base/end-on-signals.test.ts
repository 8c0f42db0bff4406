import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'

const MODULE = new URL('../../src/base/end-on-signals.js', import.meta.url).href

/** Starts a process that ends on signals, and resolves when it listens to them. */
async function start(end: string) {
  const program = `
    import { endOnSignals } from ${JSON.stringify(MODULE)}
    endOnSignals(['SIGTERM', 'SIGINT', 'SIGHUP'], ${end}, 60_000)
    setInterval(() => undefined, 60_000)
    console.log('ready')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const written = async () => String((await once(child.stdout, 'data'))[0]).trim()
  expect(await written()).to.equal('ready')
  return { child, exited, written }
}

describe('endOnSignals()', () => {
  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ] as const)
    it(`the second signal ends the process at once, with the exit code ${code} for ${signal}`, async () => {
      const { child, exited, written } = await start(
        "() => { console.log('ending'); return new Promise(() => undefined) }",
      )
      child.kill('SIGTERM')
      expect(await written()).to.equal('ending')
      child.kill(signal)
      expect(await exited).to.deep.equal([code, null])
    })

  it('the first signal ends the process with the exit code 0 after the end that it begins', async () => {
    const { child, exited, written } = await start(
      "async () => { console.log('ending'); setImmediate(() => process.exit()) }",
    )
    child.kill('SIGTERM')
    expect(await written()).to.equal('ending')
    expect(await exited).to.deep.equal([0, null])
  })
})
