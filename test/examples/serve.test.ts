import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { type RunningExample, startExample } from '../support/examples/run.ts'
import { skipIf } from '../support/skip.ts'

const run = promisify(execFile)

/** Free ports and no telemetry exporter, whatever the environment of the tests contains. */
const ENVIRONMENT = { PORT: '0', AUTH_PORT: '0', OTEL_EXPORTER_OTLP_ENDPOINT: '' }

describe('the example serve.ts', function () {
  this.timeout(60_000)

  describe('after its start', () => {
    let example: RunningExample
    let stdout: string

    before(async () => {
      example = startExample('serve', ENVIRONMENT)
      stdout = await example.said(/Press Ctrl-C to stop/)
    })
    after(() => example.process.kill('SIGKILL'))

    it('serve.ts prints a working curl command', async function () {
      const line = /^curl .*$/m.exec(stdout)?.[0] ?? ''
      expect(line).not.to.equal('')
      skipIf(this, (await isInstalled('curl')) ? undefined : 'curl is not installed')
      const answer = await run('bash', ['-c', line])
      expect(answer.stdout).to.include('welcome')
    })

    it('serve.ts prints a valid token and a command of the Inspector', async () => {
      const url = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(stdout)?.[0] ?? ''
      const token = /^eyJ\S+$/m.exec(stdout)?.[0]
      expect(stdout).to.include(
        `npx @modelcontextprotocol/inspector@latest --cli ${url} --transport http --header "Authorization: Bearer ${token}" --method tools/list`,
      )
      const stream = await fetch(url, {
        headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' },
      })
      expect(stream.status).to.equal(200)
      // The stream stays open, so that the next test stops the server with a connected client.
      stream.text().catch(() => undefined)
    })

    it('serve.ts exits with code 0 within two seconds after Ctrl-C', async () => {
      const asked = Date.now()
      example.process.kill('SIGINT')
      const { exitCode, stderr } = await example.ended
      expect(Date.now() - asked).to.be.below(2000)
      expect({ exitCode, stderr }).to.deep.equal({ exitCode: 0, stderr: '' })
    })
  })

  it('serve.ts exits with code 0 after SIGTERM', async () => {
    const example = startExample('serve', ENVIRONMENT)
    await example.said(/Press Ctrl-C to stop/)
    example.process.kill('SIGTERM')
    expect(await example.ended).to.include({ exitCode: 0, stderr: '' })
  })
})

function isInstalled(command: string): Promise<boolean> {
  return run(command, ['--version']).then(
    () => true,
    () => false,
  )
}
