import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { itAtOnce } from '../../support/at-once.ts'
import { startHostileServer } from '../../support/hostile-server.ts'

const PROGRAM = fileURLToPath(new URL('./shutdown.program.js', import.meta.url))

const ANSWERS: Readonly<Record<string, string>> = {
  'never answers': '',
  'never ends its answer': 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx',
  'asks for a wait': 'HTTP/1.1 429 Later\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n',
}

const TARGETS: Readonly<Record<string, readonly (keyof typeof ANSWERS)[]>> = {
  http: ['never answers', 'never ends its answer', 'asks for a wait'],
  https: ['never answers'],
  dispatcher: ['never answers', 'never ends its answer'],
  Slack: ['never answers', 'asks for a wait'],
  Discord: ['never answers', 'asks for a wait'],
  Telegram: ['never answers', 'asks for a wait'],
  'dev console': ['never answers', 'never ends its answer'],
  'error tracker': ['asks for a wait'],
  ioredis: ['never answers'],
  'node-redis': ['never answers'],
}

describe('a transport that is shut down with a deadline', function () {
  this.timeout(60_000)
  itAtOnce(
    4,
    Object.entries(TARGETS).flatMap(([target, answers]) =>
      answers.map((answer) => [
        `a transport that was shut down with a deadline does not keep the process alive: ${target}, whose target ${answer}`,
        () => expectEnd(target, ANSWERS[answer] as string),
      ]),
    ),
  )
})

async function expectEnd(target: string, head: string): Promise<void> {
  const hanging = await startHostileServer((socket) => head !== '' && socket.write(head))
  const child = spawn(process.execPath, [PROGRAM, target, hanging.origin], {
    env: { ...process.env, NODE_V8_COVERAGE: undefined },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const ended = once(child, 'exit')
    const [line] = await once(child.stdout, 'data')
    expect(String(line)).to.equal('over\n')
    const overMs = performance.now()
    const [code] = await ended
    expect(code).to.equal(0)
    // A connection that was left open would end with the timeout of its request, after 60 s. `fetch` gives up a TLS
    // handshake after 10 s, and keeps the process alive until then.
    expect(performance.now() - overMs).to.be.below(target === 'https' ? 20_000 : 5_000)
  } finally {
    child.kill('SIGKILL')
    await hanging.close()
  }
}
