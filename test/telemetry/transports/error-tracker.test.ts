import { context, propagation, trace } from '@opentelemetry/api'
import * as Sentry from '@sentry/node'
import { expect } from 'chai'
import {
  ErrorTrackerTransportAdapter,
  type ErrorTrackerTransportOptions,
  KitTelemetry,
  type TelemetryEmitInput,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'
import { type SentryReceiver, startSentryReceiver } from '../../support/sentry-receiver.ts'
import { expectRejection, RecordingLogger } from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

const CREATE = ErrorTrackerTransportAdapter.create

const FAILED: TelemetryEnvelope = {
  name: 'billing.invoice.failed',
  time: '2026-11-20T12:00:00.500Z',
  level: 'error',
  service: 'billing',
  environment: 'production',
  version: '1.2.3',
  sessionId: 'ses_1',
  actor: { type: 'user', id: 'u1', tags: { plan: 'pro' } },
  scope: { type: 'org', id: 'o1', tags: { region: 'eu' } },
  attributes: { cents: 1200, card: { brand: 'visa' } },
  error: {
    name: 'CardError',
    message: 'no funds',
    code: 'E_CARD',
    stack: [
      'CardError: no funds',
      '    at pay (/app/pay.js:10:5)',
      'Caused by: TypeError: socket: closed',
      '    at read (/app/net.js:3:1)',
      'Caused by: unreachable',
    ].join('\n'),
  },
  source: { file: 'pay.ts', line: 10 },
}
const { error: _error, ...WITHOUT_ERROR } = FAILED
const PAID: TelemetryEnvelope = { ...WITHOUT_ERROR, name: 'billing.invoice.paid', level: 'info' }

/** The calls that a fake tracker received. */
function fakeTracker() {
  const captured: any[] = []
  const crumbs: any[] = []
  const sdk = {
    captured,
    crumbs,
    scope: {} as Record<string, any>,
    withScope(callback: (scope: any) => void) {
      const received: Record<string, any> = {}
      sdk.scope = received
      callback({
        setLevel: (level: unknown) => Object.assign(received, { level }),
        setUser: (user: unknown) => Object.assign(received, { user }),
        setTag: (key: string, value: unknown) => {
          received.tags = { ...received.tags, [key]: value }
        },
        setContext: (name: string, value: unknown) => {
          received.contexts = { ...received.contexts, [name]: value }
        },
        setFingerprint: (fingerprint: unknown) => Object.assign(received, { fingerprint }),
      })
    },
    captureException: (error: unknown, hint?: unknown) => void captured.push({ error, hint }),
    addBreadcrumb: (crumb: unknown) => void crumbs.push(crumb),
    flushed: [] as unknown[],
    flush: async (timeoutMs?: number) => {
      sdk.flushed.push(timeoutMs)
      return true
    },
  }
  return sdk
}

describe('ErrorTrackerTransportAdapter', () => {
  describe('with a tracker of the same shape', () => {
    for (const level of ['error', 'fatal'] as const) {
      it(`ErrorTrackerTransportAdapter captures a ${level} event without an error`, () => {
        const sdk = fakeTracker()
        void CREATE({ sdk }).handle({ ...WITHOUT_ERROR, level })
        expect(sdk.scope.level).to.equal(level)
        expect(sdk.captured[0].error).to.include({
          name: 'TelemetryEvent',
          message: 'billing.invoice.failed',
        })
        expect(sdk.captured[0].error.stack).to.equal('TelemetryEvent: billing.invoice.failed')
        expect(sdk.crumbs).to.deep.equal([])
      })
    }

    it('ErrorTrackerTransportAdapter captures an error of any level, and names the level warn warning', () => {
      const sdk = fakeTracker()
      void CREATE({ sdk }).handle({ ...FAILED, level: 'warn' })
      expect(sdk.captured).to.have.length(1)
      expect(sdk.scope.level).to.equal('warning')
    })

    it('an event without an actor does not set the user, and missing methods are not called', () => {
      const sdk = fakeTracker()
      const { actor: _actor, scope: _scope, attributes: _attributes, ...bare } = FAILED
      void CREATE({ sdk }).handle(bare)
      expect(sdk.scope).not.to.have.property('user')
      const captured: unknown[] = []
      const small = {
        captureException: (error: unknown) => captured.push(error),
        withScope: (run: Wrong) => run({}),
      }
      const transport = CREATE({ sdk: small })
      void transport.handle(FAILED)
      void transport.handle(PAID)
      expect(captured).to.have.length(1)
    })

    it('errors are grouped by the option fingerprint', () => {
      const sdk = fakeTracker()
      const fingerprint: ErrorTrackerTransportOptions['fingerprint'] = ({ name, error }) => [
        name,
        error?.name ?? '',
      ]
      void CREATE({ sdk, fingerprint }).handle(FAILED)
      expect(sdk.scope.fingerprint).to.deep.equal([FAILED.name, 'CardError'])
    })

    it('ErrorTrackerTransportAdapter cuts tags to one line of 200 characters', () => {
      const sdk = fakeTracker()
      const long = `${'x'.repeat(198)}😀\nend`
      void CREATE({ sdk }).handle({ ...FAILED, sessionId: long, service: 'a\nb' })
      expect(sdk.scope.tags.service).to.equal('a b')
      expect(sdk.scope.tags['session.id']).to.equal(`${'x'.repeat(198)}…`)
    })

    it('ErrorTrackerTransportAdapter passes copies, which share nothing with the envelope', () => {
      const sdk = fakeTracker()
      const transport = CREATE({ sdk })
      void transport.handle(FAILED)
      void transport.handle(PAID)
      expect(sdk.scope.contexts.attributes.card).not.to.equal(FAILED.attributes?.card)
      expect(sdk.crumbs[0].data.card).not.to.equal(PAID.attributes?.card)
    })

    it('ErrorTrackerTransportAdapter awaits the promise of a tracker', async () => {
      const sdk = { captureException: () => Promise.reject(new Error('x')) }
      expect(await Promise.resolve(CREATE({ sdk }).handle(FAILED)).catch(() => 'rejected')).to.equal(
        'rejected',
      )
    })

    it('flush of ErrorTrackerTransportAdapter flushes the tracker, and reports its failure', async () => {
      const sdk = fakeTracker()
      const transport = CREATE({ sdk, flushTimeout: 50 })
      await transport.flush()
      await transport.shutdown()
      expect(sdk.flushed).to.deep.equal([50, 50])
      for (const method of ['flush', 'shutdown'] as const)
        await expectRejection(
          'TELEMETRY_TRANSPORT_FAILED',
          CREATE({ sdk: { ...sdk, flush: async () => false } })[method](),
        )
      await CREATE({ sdk: { captureException: () => {} } }).flush()
    })
  })

  it('ErrorTrackerTransportAdapter does not flush the SDK after the deadline of a shutdown', async () => {
    const sdk = fakeTracker()
    await CREATE({ sdk }).shutdown(AbortSignal.abort())
    expect(sdk.flushed).to.deep.equal([])
  })

  describe('with @sentry/node', () => {
    let receiver: SentryReceiver

    async function initialise(answers: boolean): Promise<void> {
      receiver = await startSentryReceiver(answers)
      // No integrations: they patch what other tests use.
      Sentry.init({
        dsn: receiver.dsn,
        release: 'app@9.9.9',
        environment: 'staging',
        defaultIntegrations: false,
        integrations: [Sentry.linkedErrorsIntegration()],
        enableLogs: true,
      })
    }

    afterEach(async () => {
      await receiver.close()
      await Sentry.close(100)
      // Sentry has set itself up as the OpenTelemetry of this process.
      for (const api of [trace, context, propagation]) api.disable()
    })

    const managerOf = (options: Partial<ErrorTrackerTransportOptions> = {}) => {
      const logger = new RecordingLogger()
      const manager = KitTelemetry.create()
        .withService('billing')
        .withEnvironment('production')
        .withVersion('1.2.3')
        .withSampling({ debugRate: 1, infoRate: 1 })
        .withLogger(logger)
        .addTransport(CREATE({ sdk: Sentry, ...options }))
        .build()
      return { manager, logger }
    }

    it('Sentry receives errors with the breadcrumbs of the events before them', async () => {
      await initialise(true)
      const { manager, logger } = managerOf()
      const input: TelemetryEmitInput = {
        actor: { type: 'user', id: 'u1', tags: { plan: 'pro' } },
        attributes: { cents: 1200, card: { brand: 'visa' } },
        sessionId: 'ses_1',
      }
      manager.emit('billing.invoice.opened', input)
      manager.emit('billing.invoice.late', { ...input, level: 'warn' })
      const cause = new TypeError('socket closed')
      manager.emit('billing.invoice.failed', {
        ...input,
        level: 'error',
        error: Object.assign(new RangeError('no funds', { cause }), { code: 'E_CARD' }),
      })
      manager.emit('billing.stopped', { level: 'fatal' })
      await manager.flush()
      expect(logger.errors).to.deep.equal([])

      const [failed, stopped, ...others] = receiver.events()
      expect(others).to.deep.equal([])
      expect(failed).to.deep.include({
        level: 'error',
        release: 'app@9.9.9',
        environment: 'staging',
        fingerprint: ['billing.invoice.failed'],
      })
      expect(failed.user).to.include({ id: 'u1', plan: 'pro' })
      expect(failed.tags).to.include({
        event: 'billing.invoice.failed',
        service: 'billing',
        'service.version': '1.2.3',
        'session.id': 'ses_1',
        'actor.type': 'user',
        'error.code': 'E_CARD',
      })
      expect(failed.contexts.attributes).to.deep.equal({ cents: 1200, card: { brand: 'visa' } })
      expect(failed.contexts.telemetry).to.include({ environment: 'production', sessionId: 'ses_1' })
      const exceptions = failed.exception.values.map(({ type, value }: Wrong) => `${type}: ${value}`)
      expect(exceptions).to.have.members(['RangeError: no funds', 'TypeError: socket closed'])
      for (const { stacktrace } of failed.exception.values)
        expect(stacktrace.frames.at(-1).filename).to.match(/error-tracker\.test\.js$/)
      expect(failed.breadcrumbs.map(({ message, level }: Wrong) => `${message} ${level}`)).to.deep.equal([
        'billing.invoice.opened info',
        'billing.invoice.late warning',
      ])
      expect(failed.breadcrumbs[0].data).to.deep.include({ cents: 1200, card: { brand: 'visa' } })

      expect(stopped).to.include({ level: 'fatal' })
      expect(stopped.exception.values[0]).to.include({ type: 'TelemetryEvent', value: 'billing.stopped' })
      // The first error's scope was its own.
      expect(stopped.user?.id).to.equal(undefined)
      expect(stopped.tags).not.to.have.property('error.code')
    })

    const group = () => new AggregateError([new TypeError('a'), new RangeError('b')], 'none answered')
    class StockError extends Error {
      override name = 'Stock Error'
    }
    const linked: [string, () => unknown][] = [
      ['an AggregateError', group],
      ['an AggregateError as a cause', () => new Error('failed', { cause: group() })],
      ['a message that reads like a cause', () => new Error('it said\nCaused by: java.io.IOException: x')],
      ['a cause with a space in its name', () => new Error('failed', { cause: new StockError('none') })],
      ['a cause that is a string', () => new Error('failed', { cause: 'text' })],
    ]
    for (const [what, make] of linked) {
      it(`Sentry receives the exceptions of ${what}, each with its frames, as it does without this package`, async () => {
        await initialise(true)
        const error = make()
        const { manager } = managerOf()
        manager.emit('query.failed', { level: 'error', error })
        Sentry.captureException(error)
        await manager.flush()
        const [ours, direct] = receiver.events().map(({ exception }) =>
          exception.values.map(({ type, value, stacktrace }: Wrong) => ({
            type,
            value,
            functions: stacktrace?.frames.map((frame: Wrong) => frame.function),
          })),
        )
        expect(ours).to.deep.equal(direct)
      })
    }

    for (const logs of [true, false, undefined]) {
      it(`Sentry receives ${logs === true ? 'every event' : 'no event'} as a log if logs is ${logs}`, async () => {
        await initialise(true)
        const { manager, logger } = managerOf({ ...(logs !== undefined && { logs }) })
        const input: TelemetryEmitInput = {
          actor: { type: 'user', id: 'u1' },
          attributes: { cents: 1200, card: { brand: 'visa', value: 1 }, list: ['a'] },
          sessionId: 'ses_1',
        }
        for (const level of ['debug', 'info', 'warn', 'error', 'fatal'] as const)
          manager.emit('billing.done', {
            ...input,
            level,
            error: level === 'error' ? new Error('no funds') : undefined,
          })
        await manager.flush()
        expect(logger.errors).to.deep.equal([])
        const received = receiver.items
          .filter(({ type }) => type === 'log')
          .flatMap(({ payload }) => payload.items)
        expect(received.map(({ level, body }) => `${level} ${body}`)).to.deep.equal(
          logs === true
            ? ['debug', 'info', 'warn', 'error', 'fatal'].map((level) => `${level} billing.done`)
            : [],
        )
        for (const { attributes } of received) {
          expect(attributes).to.deep.include({
            cents: { value: 1200, type: 'integer' },
            card: { value: '{"brand":"visa","value":1}', type: 'string' },
            list: { value: '["a"]', type: 'string' },
            'session.id': { value: 'ses_1', type: 'string' },
            'user.id': { value: 'u1', type: 'string' },
          })
        }
        if (logs === true) expect(received[3].attributes['exception.message'].value).to.equal('no funds')
        expect(receiver.events()).to.have.length(2)
      })
    }

    it('an SDK without logger gets no logs, and everything else', async () => {
      await initialise(true)
      const { captureException, addBreadcrumb, flush } = Sentry
      const { manager, logger } = managerOf({ logs: true, sdk: { captureException, addBreadcrumb, flush } })
      manager.emit('billing.stopped', { level: 'fatal' })
      await manager.flush()
      expect([logger.errors.length, receiver.events().length]).to.deep.equal([0, 1])
    })

    it('logs of Sentry have the hash of a user id that the policy names', async () => {
      await initialise(true)
      const manager = KitTelemetry.create()
        .withSampling({ infoRate: 1 })
        .withRedaction({ hashKeys: ['user.id'] })
        .addTransport(CREATE({ sdk: Sentry, logs: true }))
        .build()
      manager.emit('billing.done', { actor: { type: 'user', id: 'ada@example.com' } })
      await manager.flush()
      expect(JSON.stringify(receiver.items)).to.include('user.id').and.not.to.include('ada@example.com')
    })

    it('Sentry receives the same data as a hint', async () => {
      await initialise(true)
      const { captureException, addBreadcrumb, flush } = Sentry
      const { manager } = managerOf({ sdk: { captureException, addBreadcrumb, flush } })
      manager.emit('billing.invoice.failed', {
        actor: { type: 'user', id: 'u1' },
        attributes: { cents: 1 },
        error: new RangeError('no funds'),
      })
      await manager.flush()
      const [failed] = receiver.events()
      expect(failed).to.deep.include({ level: 'info', fingerprint: ['billing.invoice.failed'] })
      expect(failed.user).to.include({ id: 'u1' })
      expect(failed.contexts.attributes).to.deep.equal({ cents: 1 })
    })

    it('a flush of Sentry that does not end in time is reported, and its client stays open', async () => {
      await initialise(false)
      const { manager, logger } = managerOf({ flushTimeout: 50 })
      manager.emit('billing.stopped', { level: 'fatal' })
      await manager.shutdown()
      expect(logger.codes).to.include('TELEMETRY_TRANSPORT_FAILED')
      expect(manager.stats().transports[0]?.lastError?.message).to.match(
        /^transport "error-tracker": the SDK could not .* 50 ms/,
      )
      expect(Sentry.getClient()?.getOptions().enabled).not.to.equal(false)
      expect(Sentry.isInitialized()).to.equal(true)
    })
  })
})
