import { expect } from 'chai'
import { z } from 'zod'
import { InMemoryTransportAdapter, KitTelemetry, KitTelemetryEvents } from '../../src/telemetry/index.ts'
import { expectCode, expectDeeplyFrozen, RecordingLogger } from '../support/telemetry/recording.ts'

const transport = () => InMemoryTransportAdapter.create()

describe('KitTelemetry', () => {
  it('a new builder has the documented defaults', () => {
    const config = KitTelemetry.create().buildConfig()
    expect(config.service).to.equal('kit-app')
    expect(config.environment).to.equal('development')
    expect(config).not.to.have.property('version')
    expect(config.sampling).to.deep.equal({
      debugRate: 0.01,
      infoRate: 0.1,
      warnRate: 1,
      errorRate: 1,
      always: [],
      never: [],
      unit: 'event',
    })
    expect(config.redaction.maxStringLength).to.equal(5000)
    expect(config.validation).to.deep.equal({ mode: 'development', strict: false })
    expect(config.transports).to.deep.equal([])
  })

  it('the manager has the configuration of the builder', () => {
    const manager = KitTelemetry.create()
      .withService('shop')
      .withEnvironment('test')
      .withVersion('1.2')
      .build()
    expect([manager.service, manager.environment, manager.version]).to.deep.equal(['shop', 'test', '1.2'])
    expect(KitTelemetry.create().build().version).to.equal(undefined)
  })

  it('a builder is immutable: every method returns a new one, and buildConfig does not change it', () => {
    const base = KitTelemetry.create()
    const events = KitTelemetryEvents.namespace('a').event('b', z.object({})).build()
    const before = base.buildConfig()
    const full = base
      .withService('x')
      .withEnvironment('y')
      .withVersion('z')
      .addActor('user')
      .addScope('org')
      .addEvents(events)
      .addTransport(transport())
      .withSampling({ infoRate: 1 })
      .withRedaction({ denylistKeys: ['a'] })
      .withValidation({ strict: true })
      .withLogger(new RecordingLogger())
    full.buildConfig()
    expect(base.buildConfig()).to.deep.equal(before)
    expect(Object.keys(full.buildConfig().actors)).to.deep.equal(['user'])
    expect(full.addActor('bot').buildConfig().actors).to.have.all.keys('user', 'bot')
    expect(full.buildConfig().actors).to.have.all.keys('user')
  })

  it('policies are copied, and the configuration is frozen', () => {
    const denylistKeys = ['password']
    const builder = KitTelemetry.create().withRedaction({ denylistKeys }).addActor('user', { required: true })
    denylistKeys.push('other')
    const config = builder.buildConfig()
    expect(config.redaction.denylistKeys).to.deep.equal(['password'])
    expectDeeplyFrozen(config)
  })

  it('the printed configuration does not contain the hash secret', () => {
    const config = KitTelemetry.create().withRedaction({ hashSecret: 's3cret' }).buildConfig()
    expect(JSON.stringify(config)).not.to.include('s3cret')
    expect(config.redaction.hashSecret).to.equal('s3cret')
  })

  it('policies are merged by member, arrays are replaced, and undefined restores the default', () => {
    const { sampling, redaction, validation } = KitTelemetry.create()
      .withSampling({ infoRate: 0.5, debugRate: 0.5, always: ['a'] })
      .withSampling({ infoRate: undefined, always: ['b'] })
      .withRedaction({ denylistKeys: ['a'], maxStringLength: 1 })
      .withRedaction({ denylistKeys: ['b'] })
      .withValidation({ mode: 'always', strict: true })
      .withValidation({ mode: undefined })
      .buildConfig()
    expect(sampling).to.include({ infoRate: 0.1, debugRate: 0.5 })
    expect(sampling.always).to.deep.equal(['b'])
    expect(redaction.denylistKeys).to.deep.equal(['b'])
    expect(redaction.maxStringLength).to.equal(1)
    expect(validation).to.deep.equal({ mode: 'development', strict: true })
  })

  it('a registry overrides the validation options', () => {
    const events = KitTelemetryEvents.namespace('a').build()
    const {
      events: [first],
    } = KitTelemetry.create()
      .addEvents(events, { strict: true })
      .withValidation({ mode: 'none' })
      .buildConfig()
    expect(first?.validation).to.deep.equal({ mode: 'none', strict: true })
  })

  it('maxPending of a transport is that of addTransport, or that of the adapter, or 10 000', () => {
    const handle = () => {}
    const { transports } = KitTelemetry.create()
      .addTransport({ type: 'a', handle, maxPending: 5 }, { maxPending: 7 })
      .addTransport({ type: 'b', handle, maxPending: 5 })
      .addTransport({ type: 'c', handle })
      .buildConfig()
    expect(transports.map(({ maxPending }) => maxPending)).to.deep.equal([7, 5, 10_000])
  })

  it('the builder rejects an event that two namespaces reach', () => {
    const one = KitTelemetryEvents.namespace('a').event('b.c', z.object({})).build()
    const other = KitTelemetryEvents.namespace('a.b').event('c', z.object({})).build()
    expectCode('TELEMETRY_DUPLICATE_EVENT', () => KitTelemetry.create().addEvents(one).addEvents(other))
  })
})
