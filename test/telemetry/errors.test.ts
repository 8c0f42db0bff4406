import { expect } from 'chai'
import { KitTelemetryError } from '../../src/telemetry/index.ts'

describe('KitTelemetryError', () => {
  it('a KitTelemetryError has code, message, cause, and details', () => {
    const cause = new Error('why')
    const error = new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'what', { cause, details: { a: 1 } })
    expect(error).to.be.instanceOf(Error)
    expect(error).to.deep.include({
      name: 'KitTelemetryError',
      code: 'TELEMETRY_EMIT_FAILED',
      message: 'what',
      cause,
      details: { a: 1 },
    })
    expect(error.hasCode('TELEMETRY_EMIT_FAILED')).to.equal(true)
    expect(error.hasCode('TELEMETRY_UNKNOWN_EVENT')).to.equal(false)
    for (const member of ['cause', 'details'])
      expect(new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'x')).not.to.have.property(member)
  })

  it('docs of a KitTelemetryError is the heading of its code, or a given heading', () => {
    const code = 'TELEMETRY_EMIT_FAILED'
    expect(new KitTelemetryError(code, 'x').docs).to.equal('docs/reference/errors.md#telemetry_emit_failed')
    const docs = 'docs/reference/errors.md#withsampling'
    expect(new KitTelemetryError(code, 'x', { docs })).to.include({ docs, message: 'x' })
  })

  it('KitTelemetryError.is recognizes errors by their brand, not by their class', () => {
    const foreign = Object.assign(new Error('x'), {
      code: 'TELEMETRY_EMIT_FAILED',
      [Symbol.for('mcp-gatekit.KitTelemetryError')]: true,
    })
    expect(KitTelemetryError.is(foreign)).to.equal(true)
    expect(KitTelemetryError.is(new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'x'))).to.equal(true)
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error('no')
        },
      },
    )
    for (const other of [hostile, new Error('x'), null, undefined, 'x', { code: 'TELEMETRY_EMIT_FAILED' }])
      expect(KitTelemetryError.is(other)).to.equal(false)
  })

  it('KitTelemetryError.is recognizes errors of another copy of the package', async () => {
    const url = new URL('../../src/telemetry/errors.js?another-copy', import.meta.url).href
    const copy: typeof import('../../src/telemetry/errors.ts') = await import(url)
    expect(copy.KitTelemetryError).to.not.equal(KitTelemetryError)
    const foreign = new copy.KitTelemetryError('TELEMETRY_SESSION_ENDED', 'x')
    expect(foreign).to.not.be.instanceOf(KitTelemetryError)
    expect(KitTelemetryError.is(foreign)).to.equal(true)
    expect(copy.KitTelemetryError.is(new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'x'))).to.equal(true)
  })
})
