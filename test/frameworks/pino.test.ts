import { expect } from 'chai'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { until } from '../support/until.ts'
import { expectChallenge, expectGreetings } from './expect-protected.ts'
import { createProject, type PageProject } from './page-programs.ts'
import { type RunningProgram, startProgram } from './running-program.ts'

describe('the program of the page about pino', function () {
  this.timeout(60_000)

  let project: PageProject | undefined
  let server: RunningProgram

  before(async () => {
    project = await createProject('from-pino.md')
    server = await startProgram(process.execPath, [project.compiled('server.ts')])
  })
  after(async () => {
    await server?.stop()
    await project?.remove()
  })

  const lines = (): Record<string, any>[] =>
    server
      .output()
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line))

  it('a client that has a token calls a tool of a server with pino', () => expectGreetings(server))

  it('a request without a token to a server with pino gets a challenge', () => expectChallenge(server))

  it('the access log and the telemetry of a call have the same request id, and not the token', async () => {
    const token = await server.issuer.issueToken({ sub: 'ada', scopes: ['mcp:read'] })
    const response = await fetch(`${server.origin}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'x-marker': 'joined',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'greet', arguments: { name: 'Ada' } },
      }),
    })
    expect(await response.text()).to.include('Hello, Ada!')
    const access = () => lines().find(({ req }) => req?.headers['x-marker'] === 'joined')
    await until(() => access() !== undefined, 10)
    const id = access()?.req.id
    expect(access()).to.deep.include({ level: 30, msg: 'request completed' })
    expect(access()?.req.headers.authorization).to.equal('[Redacted]')
    const events = () => lines().filter(({ attributes }) => attributes?.['request.id'] === String(id))
    await until(() => events().length === 2, 10)
    expect(events().map(({ level, msg, actor }) => [level, msg, actor.id])).to.have.deep.members([
      [30, 'kit.mcp.tool.completed', 'ada'],
      [30, 'kit.mcp.request.completed', 'ada'],
    ])
    expectNoSecret(server.output(), [token])
  })
})
