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

  it('otlp-collector.ts delivers all events to the collector if it is stopped under load', async () => {
    collector = await startOtlpReceiver()
    const { started, url } = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })

    const answered: string[] = []
    async function call(name: string): Promise<void> {
      for (let call = 1; ; call++) {
        const city = `${name}-${call}`
        const answer = await askForecast(url, city).catch(() => undefined)
        if (answer === undefined) return
        expect(answer).to.include(`Tomorrow ${city} will be sunny.`)
        answered.push(city)
        if (answered.length === 100) started.process.kill('SIGTERM')
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, index) => call(`city-${index}`)))
    const { exitCode, stdout, stderr } = await started.ended

    expect({ exitCode, stderr }).to.deep.equal({ exitCode: 0, stderr: '' })
    expect(stdout).to.include(`${collector.records.length} events delivered, 0 failed, 0 dropped, 0 pending`)
    expect(answered).to.have.length.at.least(100)
    const namesOf = (eventName: string) =>
      collector.records.filter((record) => record.eventName === eventName)
    const asked = namesOf('forecast.asked').map(({ attributes }) => attributes.city)
    expect(new Set(asked)).to.have.property('size', asked.length)
    expect(asked).to.include.members(answered)
    expect(namesOf('kit.mcp.tool.completed')).to.have.length(asked.length)
    expect(namesOf('kit.mcp.request.completed')).to.have.length(asked.length)
    expect(collector.records[0]?.resource).to.include({
      'service.name': 'weather',
      'service.version': '1.0.0',
    })
    expect(collector.requests[0]?.headers).to.include({ 'content-encoding': 'gzip' })
  })

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
