import { expect } from 'chai'
import { startExample } from '../support/examples/run.ts'

describe('the smallest example', () => {
  it('does not start without an authorization server, and says what is missing', async () => {
    const { exitCode, stderr } = await startExample('basic', { ISSUER: '', RESOURCE: '' }).ended
    expect(exitCode).to.equal(1)
    expect(stderr).to.match(/KitMcpConfigError: issuer/)
  })
})
