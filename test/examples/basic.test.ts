import { expect } from 'chai'
import { startExample } from '../support/examples/run.ts'

describe('the example basic.ts', () => {
  it('basic.ts does not start without an issuer, and names the missing option', async () => {
    const { exitCode, stderr } = await startExample('basic', { ISSUER: '', RESOURCE: '' }).ended
    expect(exitCode).to.equal(1)
    expect(stderr).to.match(/KitMcpConfigError: issuer/)
  })
})
