import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { expect } from 'chai'
import { z } from 'zod'
import {
  HttpTransportAdapter,
  InMemoryTransportAdapter,
  KitTelemetry,
  KitTelemetryEvents,
  type KitTelemetryManager,
  LoggerTransportAdapter,
  type TelemetryEnvelope,
  type TelemetryTransport,
  verifyAudit,
} from '../../../src/telemetry/index.ts'
import { startCollector } from '../../support/chat-services.ts'
import { expectNoSecret } from '../../support/expect-no-secret.ts'
import { ENTRY_POINTS, type EntryPoint } from '../../support/mcp/entry-points.ts'
import { notes, oauth } from '../../support/mcp/notes.ts'
import { bearer, call, legacy } from '../../support/mcp/wire.ts'
import {
  AUDIT_SECRET,
  auditBuilder,
  auditedLines,
  lineTransport,
  summaries,
} from '../../support/telemetry/audit.ts'
import {
  deferred,
  expectCode,
  expectDeeplyFrozen,
  RecordingLogger,
  settle,
} from '../../support/telemetry/recording.ts'

const read = (line: string | undefined): TelemetryEnvelope => JSON.parse(line as string) as TelemetryEnvelope
const valid = (events: number) => ({ valid: true, events })
const transportOf = (more: Partial<TelemetryTransport>): TelemetryTransport => ({
  type: 'test',
  handle: () => {},
  ...more,
})

describe('withAudit', () => {
  const { setTimeout } = globalThis
  afterEach(() => {
    globalThis.setTimeout = setTimeout
  })

  it('an audited event is not sampled on its way to the audit log, and is sampled for other transports', async () => {
    const { lines, transport } = lineTransport()
    const memory = InMemoryTransportAdapter.create()
    const manager = auditBuilder(transport)
      .addTransport(memory)
      .withSampling({ never: ['a.never', 'b.never'], errorRate: 1 })
      .build()
    for (const name of ['a.never', 'a.info', 'b.never', 'b.info']) manager.emit(name)
    manager.emit('a.error', { level: 'error' })
    manager.emit('b.error', { level: 'error' })
    expect(summaries(lines)).to.deep.equal(['0 kit.audit.opened', '1 a.never', '2 a.info', '3 a.error'])
    expect(memory.getEvents().map(({ name }) => name)).to.deep.equal(['a.error', 'b.error'])
    for (const { attributes } of memory.getEvents()) expect(attributes).to.equal(undefined)
    await manager.shutdown()
    expect(summaries(lines).at(-1)).to.equal('4 kit.audit.closed')
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(3))
    const { emitted, sampledOut, transports, audit } = manager.stats()
    expect({ emitted, sampledOut }).to.deep.equal({ emitted: 6, sampledOut: 4 })
    expect(transports[0]).to.include({ accepted: 2, delivered: 2 })
    expect(audit).to.deep.equal({
      type: 'lines',
      accepted: 5,
      delivered: 5,
      failed: 0,
      dropped: 0,
      pending: 0,
    })
  })

  it('an event that keep holds is audited at once', () => {
    const { lines, transport } = lineTransport()
    const memory = InMemoryTransportAdapter.create()
    const manager = auditBuilder(transport)
      .addTransport(memory)
      .withSampling({ unit: 'session', keep: { names: ['a.2'] } })
      .build()
    const session = manager.session()
    session.emit('a.1')
    session.emit('a.2')
    expect(summaries(lines)).to.deep.equal(['0 kit.audit.opened', '1 a.1', '2 a.2'])
    expect(manager.stats()).to.include({ emitted: 2, held: 2, sampledOut: 0 })
    void session.end()
    expect(memory.getEvents().map(({ name }) => name)).to.deep.equal(['a.1', 'a.2'])
    expect(lines).to.have.length(3)
    expect(lines.join()).not.to.include('kit.sampled_by')
  })

  it('a session that never samples by id is audited', () => {
    const { lines, transport } = lineTransport()
    const manager = auditBuilder(transport).withSampling({ unit: 'session' }).build()
    manager.session().emit('a.1')
    expect(summaries(lines)).to.include('1 a.1')
    expect(manager.stats()).to.include({ emitted: 1, sampledOut: 1 })
  })

  it('an event is redacted before its MAC is computed', async () => {
    const { lines, transport } = lineTransport()
    const manager = auditBuilder(transport)
      .withRedaction({ denylistKeys: ['password'], hashKeys: ['email'], maxStringLength: 5 })
      .build()
    manager.emit('a.1', { attributes: { password: 'hunter2', email: 'ada@example.com', long: 'abcdefghij' } })
    await manager.shutdown()
    expectNoSecret(lines.join('\n'), ['hunter2', 'ada@example.com'])
    expect(read(lines[1]).attributes).to.include({ long: 'abcd…' })
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(1))
  })

  it('an audited event is deeply frozen, and the application cannot set the attributes of the chain', async () => {
    const memory = InMemoryTransportAdapter.create()
    const manager = auditBuilder(memory).build()
    manager.emit('a.kit.audit.closed', {
      attributes: {
        'kit.audit.seq': 7,
        'kit.audit.mac': 'x',
        'kit.audit.end': true,
        'kit.audit.lost': 1,
        n: { x: 1 },
      },
    })
    await manager.shutdown()
    const [, event] = memory.getEvents()
    expectDeeplyFrozen(event)
    expect(Object.keys(event?.attributes ?? {})).to.deep.equal([
      'n',
      'kit.audit.chain',
      'kit.audit.seq',
      'kit.audit.mac',
    ])
    expect(
      await verifyAudit(
        memory.getEvents().map((one) => JSON.stringify(one)),
        AUDIT_SECRET,
      ),
    ).to.deep.equal(valid(1))
  })

  it('the opening line has the format, and both lines of the chain have the service and one session', async () => {
    const { lines, transport } = lineTransport()
    await auditBuilder(transport).withService('s').withEnvironment('e').withVersion('1').build().shutdown()
    const [opened, closed] = lines.map(read)
    expect(opened).to.deep.include({
      name: 'kit.audit.opened',
      level: 'info',
      service: 's',
      environment: 'e',
      version: '1',
    })
    expect(opened?.attributes).to.include({ 'kit.audit.format': 1, 'kit.audit.seq': 0 })
    expect(closed).to.deep.include({ name: 'kit.audit.closed', sessionId: opened?.sessionId, service: 's' })
    expect(closed?.attributes).to.include({ 'kit.audit.end': true, 'kit.audit.seq': 1 })
  })

  it('each manager begins a chain of its own', async () => {
    const { lines, transport } = lineTransport()
    const builder = auditBuilder(transport)
    for (const manager of [builder.build(), builder.build()]) {
      manager.emit('a.1')
      await manager.shutdown()
    }
    expect(new Set(lines.map((line) => read(line).attributes?.['kit.audit.chain'])).size).to.equal(2)
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(2))
  })

  it('an event with lone surrogates is written with U+FFFD, which every program can read', async () => {
    const lines = await auditedLines((manager) =>
      manager.emit('a.1', { attributes: { 'k\udc00': ['x\ud800', { y: '😀\ud83d' }], n: 1 } }),
    )
    expect(read(lines[1]).attributes).to.deep.include({ 'k\ufffd': ['x\ufffd', { y: '😀\ufffd' }], n: 1 })
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(1))
  })

  it('an event of more than 1 MiB is written without its largest attribute', async () => {
    const lines = await auditedLines((manager) =>
      manager.emit('a.1', {
        attributes: { parts: Array.from({ length: 1000 }, () => 'x'.repeat(2_000)), user: 'u1' },
      }),
    )
    expect(read(lines[1]).attributes).to.include({ user: 'u1' }).and.not.to.have.property('parts')
    expect(read(lines[1]).attributes?.['kit.truncated']).to.deep.equal(['parts'])
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(1))
  })

  it('an event that would be longer than 1 MiB in the chain is written without its attributes, with its size', async () => {
    const own = {
      actor: { type: 'user', id: 'u'.repeat(2_000), tags: { plan: 'x' } },
      scope: { type: 'org', id: 'o1', tags: { plan: 'x' } },
      error: { name: 'Error', message: 'failed' },
    }
    const parts = Array.from({ length: 209 }, () => 'x'.repeat(5_000))
    const memory = InMemoryTransportAdapter.create()
    KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .addTransport(memory)
      .build()
      .emit('a.1', { ...own, attributes: { parts, pad: '' } })
    // The event itself is 10 bytes shorter than 1 MiB.
    const pad = 'y'.repeat(2 ** 20 - 10 - JSON.stringify(memory.getEvents()[0]).length)
    const lines = await auditedLines((manager) => manager.emit('a.1', { ...own, attributes: { parts, pad } }))
    const event = read(lines[1])
    expect(Object.keys(event)).to.have.members([
      'name',
      'time',
      'level',
      'service',
      'environment',
      'sessionId',
      'actor',
      'scope',
      'attributes',
    ])
    expect(event.actor).to.deep.equal({ type: 'user', id: `${'u'.repeat(1023)}…` })
    expect(event.scope).to.deep.equal({ type: 'org', id: 'o1' })
    expect(event.attributes?.['kit.audit.omitted']).to.be.within(2 ** 20, 2 ** 20 + 200)
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(1))
  })

  it('the lines of LoggerTransportAdapter in a file are valid', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'audit-'))
    try {
      const file = join(folder, 'audit.log')
      let written = Promise.resolve()
      const write = (line: string) => {
        written = written.then(() => appendFile(file, `${line}\n`))
      }
      const logger = { debug: write, info: write, warn: write, error: write }
      const manager = auditBuilder(LoggerTransportAdapter.create({ logger, format: 'json' })).build()
      for (const level of ['debug', 'info', 'warn', 'error', 'fatal'] as const)
        manager.emit(`a.${level}`, {
          level,
          error: new Error('x\u2028\u001b\n'),
          attributes: { text: '\u202e\u007f' },
        })
      await manager.shutdown()
      await written
      const lines = (await readFile(file, 'utf8')).split('\n')
      expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(5))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  for (const batch of [undefined, { maxSize: 10, maxDelayMs: 60_000 }]) {
    it(`lines over HTTP ${batch === undefined ? 'one by one' : 'in batches'} keep their order while the target fails`, async () => {
      const target = await startCollector()
      target.answers.push({ status: 503 }, { status: 500 })
      const transport = HttpTransportAdapter.create({ url: target.origin, ...(batch && { batch }) })
      const manager = auditBuilder(transport).build()
      for (let index = 1; index <= 5; index++) manager.emit(`a.${index}`)
      await manager.shutdown()
      const lines = target.taken.flat().map((event) => JSON.stringify(event))
      expect(summaries(lines)).to.deep.equal([
        '0 kit.audit.opened',
        '1 a.1',
        '2 a.2',
        '3 a.3',
        '4 a.4',
        '5 a.5',
        '6 kit.audit.closed',
      ])
      expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(5))
      expect(manager.stats().audit).to.include({
        accepted: 7,
        delivered: 7,
        failed: 0,
        dropped: 0,
        pending: 0,
      })
    })
  }

  it('a failure is reported and is the last error, and no event is lost', async () => {
    const { lines, transport } = lineTransport()
    let failures = 2
    const logger = new RecordingLogger()
    const failing = transportOf({
      handle: async (envelope) => {
        if (failures-- > 0) throw Object.assign(new Error('S3cr3t'), { code: 'ENOSPC' })
        await transport.handle(envelope)
      },
    })
    const manager = auditBuilder(failing, logger).build()
    manager.emit('a.1')
    await manager.flush()
    expect(summaries(lines)).to.deep.equal(['0 kit.audit.opened', '1 a.1'])
    expect(logger.codes).to.deep.equal(['TELEMETRY_TRANSPORT_FAILED'])
    expect(manager.stats().audit?.lastError?.message).to.match(
      /pending events?\. The first of them will be sent again.*\(Error ENOSPC\)$/,
    )
    expect(inspect(manager.stats().audit?.lastError?.message)).not.to.include('S3cr3t')
    await manager.shutdown()
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(1))
  })

  it('an event that the target rejects is a break at its sequence number, and counts as failed', async () => {
    const target = await startCollector()
    target.answers.push({ status: 200 }, { status: 413 })
    const manager = auditBuilder(HttpTransportAdapter.create({ url: target.origin })).build()
    for (const name of ['a.1', 'a.2']) manager.emit(name)
    await manager.shutdown()
    const lines = target.taken.map((event) => JSON.stringify(event))
    const { firstBreak } = await verifyAudit(lines, AUDIT_SECRET)
    expect(firstBreak?.seq).to.equal(1)
    expect(manager.stats().audit).to.include({ accepted: 4, delivered: 3, failed: 1 })
  })

  it('events beyond maxPending are dropped, and the next line mentions them', async () => {
    const { lines, transport } = lineTransport()
    const sent = deferred()
    const logger = new RecordingLogger()
    const slow = transportOf({
      maxPending: 2,
      handle: async (envelope) => {
        await sent.promise
        await transport.handle(envelope)
      },
    })
    const manager = auditBuilder(slow, logger).build()
    for (const name of ['a.1', 'a.2', 'a.3']) manager.emit(name, { level: 'fatal' })
    expect(manager.stats().audit).to.include({ accepted: 4, pending: 2, dropped: 2 })
    expect(logger.warnings.map(({ message }) => message)).to.have.length(1)
    expect(logger.warnings[0]?.message).to.match(
      /has lost 1 event .*\(maxPending 2, maxPendingBytes 67108864\)\. verifyAudit\(\) reports them$/,
    )
    sent.resolve()
    await manager.flush()
    manager.emit('a.4')
    await manager.shutdown()
    expect(summaries(lines)).to.deep.equal(['0 kit.audit.opened', '1 a.1', '2 a.4', '3 kit.audit.closed'])
    expect(read(lines[2]).attributes).to.include({ 'kit.audit.lost': 2 })
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal({
      valid: false,
      events: 1,
      firstBreak: {
        seq: 2,
        reason: 'line 3: 2 events were lost before this line. The process could not write them',
      },
    })
    expect(logger.warnings.at(-1)?.message).to.include('has lost 2 events')
  })

  it('an event that cannot be read is mentioned in the next line', async () => {
    const { lines, transport } = lineTransport()
    const logger = new RecordingLogger()
    const manager = auditBuilder(transport, logger).build()
    const attributes = () => {
      throw new Error('unreadable')
    }
    manager.emit('b.1', { attributes })
    manager.emit('a.1', { attributes })
    await manager.shutdown()
    expect(logger.codes).to.include('TELEMETRY_EMIT_FAILED')
    expect(read(lines[1]).attributes).to.include({ 'kit.audit.lost': 1 })
    expect((await verifyAudit(lines, AUDIT_SECRET)).firstBreak?.seq).to.equal(1)
  })

  it('events wait for init, and are written in order', async () => {
    const { lines, transport } = lineTransport()
    const started = deferred()
    const manager = auditBuilder({ ...transport, init: () => started.promise }).build()
    manager.emit('a.1')
    const closed = manager.shutdown()
    expect(lines).to.deep.equal([])
    started.resolve()
    await closed
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(1))
  })

  it('all events fail if init fails', async () => {
    const logger = new RecordingLogger()
    const manager = auditBuilder(transportOf({ init: () => Promise.reject(new Error('no')) }), logger).build()
    manager.emit('a.1')
    await manager.shutdown()
    expect(manager.stats().audit).to.include({ accepted: 3, failed: 3, pending: 0 })
    expect(logger.codes).to.deep.equal(['TELEMETRY_TRANSPORT_INIT_FAILED'])
  })

  it('shutdown ends at its deadline if the transport hangs, and the closing line is missing', async () => {
    const { lines, transport } = lineTransport()
    const manager = auditBuilder(
      transportOf({
        handle: (envelope) => {
          if (envelope.name === 'a.2') return new Promise<void>(() => {})
          return transport.handle(envelope)
        },
      }),
    ).build()
    for (const name of ['a.1', 'a.2', 'a.3']) manager.emit(name)
    await manager.shutdown({ timeoutMs: 20 })
    expect(manager.stats().audit).to.include({ accepted: 5, delivered: 2, pending: 3 })
    const { firstBreak } = await verifyAudit(lines, AUDIT_SECRET)
    expect(firstBreak).to.deep.include({ seq: 2 })
    expect(firstBreak?.reason).to.include('the closing line of a chain is missing')
  })

  it('the promise of end() resolves after the audited events of the session are delivered', async () => {
    const sent = deferred()
    let isFirst = true
    const manager = auditBuilder(
      transportOf({
        handle: () => {
          const first = isFirst
          isFirst = false
          return first ? undefined : sent.promise
        },
      }),
    ).build()
    const session = manager.session()
    session.emit('a.1')
    let isEnded = false
    const ended = session.end().then(() => {
      isEnded = true
    })
    await settle()
    expect(isEnded).to.equal(false)
    sent.resolve()
    await ended
  })

  it('an event whose attributes shut the manager down comes before the closing line', async () => {
    const { lines, transport } = lineTransport()
    const manager = auditBuilder(transport).build()
    let closed: Promise<void> | undefined
    manager.emit('a.1', {
      attributes: () => {
        closed = manager.shutdown()
        return {}
      },
    })
    await closed
    expect(summaries(lines)).to.deep.equal(['0 kit.audit.opened', '1 a.1', '2 kit.audit.closed'])
    manager.emit('a.2')
    expect(lines).to.have.length(3)
    expect(manager.stats().droppedAfterShutdown).to.equal(1)
  })

  it('an event that a transport emits is audited after the event that it handles', async () => {
    const { lines, transport } = lineTransport()
    const manager: KitTelemetryManager = auditBuilder({
      ...transport,
      handle: (envelope) => {
        if (envelope.name === 'a.1') manager.emit('a.nested')
        return transport.handle(envelope)
      },
    })
      .withSampling({ infoRate: 1 })
      .addTransport(transportOf({ handle: ({ name }) => void (name === 'a.1' && manager.emit('a.other')) }))
      .build()
    manager.emit('a.1')
    manager.emit('a.2')
    await manager.shutdown()
    expect(summaries(lines).slice(1, -1)).to.deep.equal(['1 a.1', '2 a.other', '3 a.nested', '4 a.2'])
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(4))
  })

  it('a transport that emits an audited event for every event is stopped, and the log says so', async () => {
    const { lines, transport } = lineTransport()
    const logger = new RecordingLogger()
    const manager: KitTelemetryManager = auditBuilder(
      {
        ...transport,
        handle: (envelope) => {
          if (envelope.name.startsWith('a.')) manager.emit('a.again')
          return transport.handle(envelope)
        },
      },
      logger,
    ).build()
    manager.emit('a.1')
    await manager.shutdown()
    expect(logger.codes).to.deep.equal(['TELEMETRY_EMIT_FAILED'])
    expect(lines).to.have.length(11)
    expect(read(lines.at(-1)).attributes).to.include({ 'kit.audit.lost': 1 })
  })

  it('a flush of the transport that flushes the manager does not wait for itself', async () => {
    const manager: KitTelemetryManager = auditBuilder(
      transportOf({ handle: () => Promise.resolve(), flush: () => manager.flush() }),
    ).build()
    manager.emit('a.1')
    await manager.flush()
    await manager.shutdown()
    expect(manager.stats().audit).to.include({ delivered: 3, pending: 0 })
  })

  it('the refusals and tool calls of a server are audited over the wire, although sampling drops them', async () => {
    const { lines, transport } = lineTransport()
    const telemetry = KitTelemetry.create()
      .withLogger(false)
      .withSampling({ never: ['*'] })
      .withAudit({ transport, names: ['kit.mcp.auth.refused', 'kit.mcp.tool.*'], secret: AUDIT_SECRET })
      .build()
    const entry = ENTRY_POINTS.find(({ wire }) => wire) as EntryPoint
    const served = await entry.serve({ router: notes, oauth: oauth(), telemetry })
    try {
      expect((await served.send(legacy(call('echo', { text: 'x' })))).status).to.equal(401)
      expect((await served.send(legacy(call('echo', { text: 'x' }), bearer('reader')))).status).to.equal(200)
    } finally {
      await served.close()
    }
    await telemetry.shutdown()
    expect(summaries(lines)).to.deep.equal([
      '0 kit.audit.opened',
      '1 kit.mcp.auth.refused',
      '2 kit.mcp.tool.completed',
      '3 kit.audit.closed',
    ])
    expect(read(lines[2]).actor).to.deep.equal({ type: 'user', id: 'u1' })
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(2))
  })

  it('typed events are audited by their full key', () => {
    const { lines, transport } = lineTransport()
    const events = KitTelemetryEvents.namespace('a')
      .group('b', (group) => group.event('c', z.object({})))
      .build()
    auditBuilder(transport).addEvents(events).build().emit('a.b.c')
    expect(summaries(lines).at(-1)).to.equal('1 a.b.c')
  })

  it('the statistics have no audit without withAudit', () => {
    expect(KitTelemetry.create().build().stats()).not.to.have.property('audit')
  })

  it('the secret and its copies are not visible in the configuration, the manager, and the statistics', () => {
    const builder = auditBuilder(lineTransport().transport)
    const config = builder.buildConfig()
    const manager = builder.build()
    for (const value of [builder, config, config.audit, manager, manager.stats()]) {
      expectNoSecret(inspect(value, { depth: 12, showHidden: true }), [AUDIT_SECRET])
      expectNoSecret(JSON.stringify(value), [AUDIT_SECRET])
    }
    expect(config.audit).to.deep.include({ names: ['a.*'], maxPending: 10_000 })
  })

  it('a later change of the names and of the secret has no effect', async () => {
    const { lines, transport } = lineTransport()
    const names = ['a.*']
    const secret = Buffer.from(AUDIT_SECRET)
    const builder = KitTelemetry.create().withAudit({ transport, names, secret })
    names[0] = 'b.*'
    secret.fill(0)
    const manager = builder.build()
    manager.emit('a.1')
    manager.emit('b.1')
    await manager.shutdown()
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal(valid(1))
  })

  it('a further call replaces the options', () => {
    const [first, second] = [lineTransport(), lineTransport()]
    const manager = auditBuilder(first.transport)
      .withAudit({ transport: second.transport, names: ['b.*'], secret: AUDIT_SECRET })
      .build()
    manager.emit('b.1')
    expect(first.lines).to.deep.equal([])
    expect(summaries(second.lines)).to.deep.equal(['0 kit.audit.opened', '1 b.1'])
  })

  it('an adapter of addTransport is rejected as the audit transport, in either order of the calls', () => {
    const { transport } = lineTransport()
    const options = { transport, names: ['a'], secret: AUDIT_SECRET }
    for (const build of [
      () => KitTelemetry.create().addTransport(transport).withAudit(options),
      () => KitTelemetry.create().withAudit(options).addTransport(transport),
    ]) {
      const { message } = expectCode('TELEMETRY_CONFIGURATION_INVALID', build)
      expect(message).to.include(
        'cannot be used together with addTransport() for the same adapter. Create another',
      )
    }
  })
})
