import { expect } from 'chai'
import { startResourceProgram } from '../../support/attacks/resource-program.ts'
import { until } from '../../support/until.ts'

const LEAKING = new URL('../../support/attacks/leaking.program.js', import.meta.url)

const failureOf = async (work: Promise<unknown>): Promise<string> =>
  await work.then(
    () => 'did not fail',
    (error: Error) => error.message,
  )

describe('programs with a small heap', () => {
  it('a program with a small heap survives if it responds and stays within its memory', async () => {
    const program = await startResourceProgram(LEAKING)
    const { heapUsed } = await program.expectSurvival(async () => {
      const response = await fetch(program.origin)
      expect(await response.text()).to.equal('honest')
    })
    expect(heapUsed).to.be.greaterThan(0)
    expect(await failureOf(program.expectSurvival(async () => undefined, { maxRssMiB: 1 }))).to.match(
      /MiB of resident memory: expected \d+ to be at most 1/,
    )
  })

  it('a program with a small heap does not survive if an attack exhausts its heap', async () => {
    const program = await startResourceProgram(LEAKING)
    await fetch(`${program.origin}/attack`).catch(() => undefined)
    let failure = ''
    await until(async () => {
      failure = await failureOf(program.expectSurvival(async () => undefined))
      return failure !== 'did not fail'
    })
    expect(failure).to.match(/^the program ended with SIGABRT: .*heap out of memory/s)
  })
})
