import { readFile } from 'node:fs/promises'
import { expect } from 'chai'
import { expectChallenge, expectGreetings } from './expect-protected.ts'
import { createProject, type PageProject } from './page-programs.ts'
import { type RunningProgram, startProgram } from './running-program.ts'

describe('the program of the page about CommonJS', function () {
  this.timeout(60_000)

  let project: PageProject | undefined
  let server: RunningProgram

  before(async () => {
    project = await createProject('commonjs.md', { type: 'commonjs' })
    server = await startProgram(process.execPath, [project.compiled('server.ts')])
  })
  after(async () => {
    await server?.stop()
    await project?.remove()
  })

  it('a program compiled to CommonJS requires the package', async () => {
    const compiled = await readFile(project?.compiled('server.ts') ?? '', 'utf8')
    expect(compiled).to.include('require("mcp-gatekit")')
    expect(compiled).not.to.match(/^import /m)
  })

  it('a client that has a token calls a tool of a server in CommonJS', () => expectGreetings(server))

  it('a request without a token to a server in CommonJS gets a challenge', () => expectChallenge(server))

  it('a server in CommonJS starts without a warning', () => {
    expect(server.output()).to.equal('')
  })
})
