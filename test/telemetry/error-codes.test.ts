import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { z } from 'zod'
import {
  KIT_TELEMETRY_ERROR_CODES,
  KitTelemetry,
  KitTelemetryError,
  type KitTelemetryErrorCode,
  KitTelemetryEvents,
  type TelemetryTransport,
} from '../../src/telemetry/index.ts'
import {
  expectCode,
  expectRejection,
  type RecordingLogger,
  recording,
} from '../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

const builder = () => KitTelemetry.create()
const namespace = KitTelemetryEvents.namespace
const schema = z.object({ cents: z.number() })
const billing = namespace('billing').event('paid', schema).build()

/** Returns the errors that a manager reports to its logger during `use`. */
async function reported(
  use: (manager: Wrong, logger: RecordingLogger) => unknown,
  shape: (from: KitTelemetry) => KitTelemetry = (from) => from,
): Promise<RecordingLogger['errors']> {
  const { builder, logger } = recording()
  const manager = shape(builder).build()
  await use(manager, logger)
  await manager.flush()
  return logger.errors
}

const broken = (over: Partial<TelemetryTransport>): TelemetryTransport => ({
  type: 'x',
  handle: () => {},
  ...over,
})
const fail = () => Promise.reject(new Error('no'))

/** For each code a call that raises it: the calls that throw, … */
const THROWN: Readonly<Partial<Record<KitTelemetryErrorCode, () => unknown>>> = {
  TELEMETRY_SERVICE_REQUIRED: () => builder().withService(''),
  TELEMETRY_ENVIRONMENT_REQUIRED: () => builder().withEnvironment(undefined as Wrong),
  TELEMETRY_CONFIGURATION_INVALID: () => builder().withSampling({ infoRate: 10 }),
  TELEMETRY_INVALID_TRANSPORT: () => builder().addTransport({ type: 'x' } as Wrong),
  TELEMETRY_INVALID_EVENT_NAME: () => builder().build().emit('an event'),
  TELEMETRY_UNKNOWN_EVENT: () =>
    builder()
      .addEvents(billing)
      .build()
      .emit('billing.payed' as Wrong),
  TELEMETRY_DUPLICATE_EVENT: () => namespace('billing').event('paid', schema).event('paid', schema),
  TELEMETRY_SCHEMA_VALIDATION_FAILED: () =>
    builder()
      .addEvents(billing, { mode: 'always' })
      .build()
      .emit('billing.paid', { attributes: { cents: '5' as Wrong } }),
  TELEMETRY_INVALID_NAMESPACE: () => namespace('a b'),
  TELEMETRY_RESERVED_NAMESPACE: () => namespace('kit'),
  TELEMETRY_DUPLICATE_NAMESPACE: () => builder().addEvents(billing).addEvents(billing),
  TELEMETRY_SESSION_INVALID: () => builder().build().session().id(''),
  TELEMETRY_DUPLICATE_SCOPE: () => builder().addScope('org').addScope('org'),
  TELEMETRY_INVALID_SCOPE: () => builder().addScope('my org'),
  TELEMETRY_DUPLICATE_ACTOR: () => builder().addActor('user').addActor('user'),
  TELEMETRY_INVALID_ACTOR: () => builder().addActor('__user'),
  TELEMETRY_SESSION_ENDED: () => {
    const session = builder().build().session()
    void session.end()
    session.emit('late')
  },
}

/** … and those whose failure is reported to the logger. */
const REPORTED: Readonly<Partial<Record<KitTelemetryErrorCode, () => Promise<RecordingLogger['errors']>>>> = {
  TELEMETRY_TRANSPORT_FAILED: () =>
    reported(
      (manager) => manager.emit('x'),
      (from) => from.addTransport(broken({ handle: fail })),
    ),
  TELEMETRY_TRANSPORT_INIT_FAILED: () =>
    reported(
      () => {},
      (from) => from.addTransport(broken({ init: fail })),
    ),
  TELEMETRY_EMIT_FAILED: () => reported((manager) => manager.emit('x', { attributes: 'x' })),
  TELEMETRY_RUNTIME_NOT_INITIALIZED: () =>
    reported(async (manager) => {
      await manager.shutdown()
      manager.emit('x')
    }),
}

/** Expects that the message ends with the command that prints the help, except for errors of transports. */
function expectHelp(error: KitTelemetryError, code: KitTelemetryErrorCode): void {
  const anchor = code === 'TELEMETRY_CONFIGURATION_INVALID' ? 'withsampling' : code.toLowerCase()
  expect(error.docs).to.equal(`docs/reference/errors.md#${anchor}`)
  expect(error.message).to.match(new RegExp(`[.?] Run "npx mcp-gatekit explain ${anchor}" for help\\.$`))
}

describe('the 21 error codes', () => {
  const documentation = readFileSync(new URL('../../../docs/reference/errors.md', import.meta.url), 'utf8')
  const codes = Object.keys(KIT_TELEMETRY_ERROR_CODES) as KitTelemetryErrorCode[]

  it('every error code is raised by a call', () => {
    expect([...Object.keys(THROWN), ...Object.keys(REPORTED)]).to.have.members(codes)
  })

  for (const code of codes) {
    it(`the error code ${code} is raised by a call of the public API`, async () => {
      const thrown = THROWN[code]
      if (thrown !== undefined) {
        const error = expectCode(code, thrown)
        expect(KitTelemetryError.is(error) && error.hasCode(code)).to.equal(true)
        expectHelp(error, code)
      }
      const reported = REPORTED[code]
      if (reported === undefined) return
      const errors = (await reported()).map(({ error }) => error as KitTelemetryError)
      expect(errors.map((error) => error.code)).to.deep.equal([code])
      if (!code.startsWith('TELEMETRY_TRANSPORT_')) for (const error of errors) expectHelp(error, code)
    })
  }

  it('errors of a session reject its run', async () => {
    const session = builder().build().session()
    await expectRejection('TELEMETRY_SESSION_INVALID', session.run('x' as Wrong))
    await session.end()
    await expectRejection(
      'TELEMETRY_SESSION_ENDED',
      session.run(() => {}),
    )
  })

  it('an actor or scope of an event that is rejected leads to the help of its code', () => {
    const manager: Wrong = builder()
      .withValidation({ mode: 'always' })
      .addActor('user')
      .addScope('org')
      .build()
    for (const [code, input] of [
      ['TELEMETRY_INVALID_ACTOR', { actor: { type: 'robot' } }],
      ['TELEMETRY_INVALID_ACTOR', { actor: 'u1' }],
      ['TELEMETRY_INVALID_SCOPE', { scope: { type: 'team', id: 't' } }],
    ] as const)
      expectHelp(
        expectCode(code, () => manager.emit('x', input)),
        code,
      )
  })

  describe('docs/reference/errors.md', () => {
    const headings = [...documentation.matchAll(/^#+ (\S+)$/gm)].map(([, heading]) => heading)
    const mcp = ['MCP_CONFIG_MISSING_OPTION', 'MCP_CONFIG_INVALID_OPTION', 'MCP_CONFIG_UNKNOWN_OPTION']

    it('docs/reference/errors.md has no heading for a code that does not exist', () => {
      const documented = headings.filter((heading) => /^[A-Z]+_[A-Z_]+$/.test(heading ?? ''))
      expect(documented).to.have.members([...codes, ...mcp])
    })
  })
})
