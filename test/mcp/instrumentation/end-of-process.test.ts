import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'

const SOURCES = new URL('../../../src/', import.meta.url).href

/** Runs `code` in a process of its own. Resolves with its exit code, or with undefined if it has not ended after 15 s. */
async function exitCodeOf(code: string): Promise<number | null | undefined> {
  const program = `
    import { createMcpAdapter, KitMcpRouter } from '${SOURCES}index.js'
    import { KitTelemetry } from '${SOURCES}telemetry/index.js'
    const hanging = { type: 'hanging', handle: () => new Promise(() => {}) }
    const telemetry = KitTelemetry.create().withSampling({ debugRate: 1, infoRate: 1 }).addTransport(hanging).build()
    const call = (signal) => new Request('http://localhost/mcp', {
      method: 'POST',
      signal,
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'tool', arguments: {} } }),
    })
    ${code}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'inherit' })
  const timer = setTimeout(() => child.kill('SIGKILL'), 15_000)
  const [exitCode] = await once(child, 'exit')
  clearTimeout(timer)
  return exitCode ?? undefined
}

describe('mcp: the end of a process', function () {
  this.timeout(60_000)

  it('a served request does not keep a process alive whose telemetry target does not answer', async () => {
    const router = `KitMcpRouter.create().tool('tool', { description: 'x' }, () => 'done')`
    const exitCode = await exitCodeOf(`
      const { server } = createMcpAdapter({ router: ${router}, telemetry })
      await (await server(call())).text()`)
    expect(exitCode).to.equal(0)
  })

  it('a call whose client has left does not keep a process alive until the time limit of its tool', async () => {
    const router = `KitMcpRouter.create().tool('tool', { description: 'x', limits: { timeoutMs: 600_000 } }, () => {
      setImmediate(() => controller.abort())
      return new Promise(() => {})
    })`
    const exitCode = await exitCodeOf(`
      const controller = new AbortController()
      const { server } = createMcpAdapter({ router: ${router} })
      server(call(controller.signal)).then((response) => response.text()).catch(() => {})`)
    expect(exitCode).to.equal(0)
  })
})
