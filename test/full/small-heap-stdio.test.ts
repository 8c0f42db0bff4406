import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { call, initialization } from '../support/mcp/wire.ts'

const PROGRAM = fileURLToPath(new URL('../attacks/resources/stdio.program.js', import.meta.url))
const CALLS = 300

describe('serveStdio() in a small heap', function () {
  this.timeout(120_000)

  for (const [client, pauseMs] of [
    ['reads', 0],
    ['does not read for 3 seconds', 3_000],
  ] as const) {
    it(`a server over stdio with a heap of 128 MiB serves ${CALLS} calls in one write with results of 3 MB to a client that ${client}`, async () => {
      const child = spawn(process.execPath, ['--max-old-space-size=128', PROGRAM], {
        stdio: ['pipe', 'pipe', 'pipe'],
      })
      let errors = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        errors += text
      })
      const ended = once(child, 'exit')
      const initialize = initialization()
      const calls = Array.from({ length: CALLS }, (_, index) => call('large', {}, index + 10))
      child.stdin.write([initialize, ...calls].map((message) => `${JSON.stringify(message)}\n`).join(''))
      await sleep(pauseMs)
      let responses = -1
      for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
        for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, end + 1)) responses++
        if (responses === CALLS) break
      }
      expect(responses, errors).to.equal(CALLS)
      child.stdin.end()
      await ended
    })
  }
})
