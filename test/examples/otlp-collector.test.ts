import { expect } from 'chai'
import { type RunningExample, startExample } from '../support/examples/run.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts'

describe('the example otlp-collector.ts', function () {
  this.timeout(60_000)

  let collector: OtlpReceiver
  let example: RunningExample | undefined

  afterEach(async () => {
    example?.process.kill('SIGKILL')
    await collector.close()
  })

  /** Starts the example on a free port. */
  async function start(env: Readonly<Record<string, string>>, args: readonly string[] = []) {
    const started = startExample('otlp-collector', { PORT: '0', ...env }, args)
    example = started
    const said = await started.said(/Events go to .*\n/)
    return { started, said, url: /http:\S+\/mcp/.exec(said)?.[0] ?? '' }
  }

  it('otlp-collector.ts uses the collector in its argument, and prints the reason of a failed delivery', async () => {
    collector = await startOtlpReceiver()
    const wrong = `${collector.url}/logs`
    const { started, said, url } = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }, [wrong])
    expect(said).to.include(wrong)
    await askForecast(url, 'Bath')
    started.process.kill('SIGINT')
    const { exitCode, stdout } = await started.ended
    expect(exitCode).to.equal(0)
    expect(stdout).to.include('0 events delivered, 3 failed, 0 dropped, 0 pending')
    expect(stdout).to.include('the collector responded with 404 (check the path of url')
  })
})

async function askForecast(url: string, city: string): Promise<string> {
  const params = { name: 'forecast', arguments: { city } }
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  })
  return response.text()
}
