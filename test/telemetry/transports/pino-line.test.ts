import { hostname } from 'node:os'
import { expect } from 'chai'
import { pino } from 'pino'
import { prettyFactory } from 'pino-pretty'
import {
  KitTelemetry,
  LoggerTransportAdapter,
  type TelemetryEmitInput,
} from '../../../src/telemetry/index.ts'

/** Returns the line of one event. */
function line(input: TelemetryEmitInput, includeTimestamp = true): string {
  const lines: string[] = []
  const write = (text: string) => lines.push(text)
  const logger = { debug: write, info: write, warn: write, error: write }
  KitTelemetry.create()
    .withService('shop')
    .withVersion('1.2.3')
    .withEnvironment('production')
    .withSampling({ debugRate: 1, infoRate: 1 })
    .addTransport(LoggerTransportAdapter.create({ logger, format: 'pino', includeTimestamp }))
    .build()
    .emit('order.placed', { time: '2026-01-02T12:00:00.123Z', sessionId: 'ses_1', ...input })
  expect(lines).to.have.length(1)
  return lines[0] as string
}

/** Returns the line that pino itself writes. */
function pinoLine(write: (logger: pino.Logger) => void): Record<string, any> {
  let written = ''
  write(pino({ level: 'debug', name: 'shop' }, { write: (text: string) => (written += text) }))
  return JSON.parse(written)
}

describe("the format 'pino' of LoggerTransportAdapter", () => {
  it("the format 'pino' writes the members of pino and the members of the event", () => {
    const actor = { type: 'user', id: 'u1' }
    expect(JSON.parse(line({ actor, attributes: { cents: 1200 } }))).to.deep.equal({
      level: 30,
      time: Date.UTC(2026, 0, 2, 12, 0, 0, 123),
      pid: process.pid,
      hostname: hostname(),
      name: 'shop',
      msg: 'order.placed',
      environment: 'production',
      version: '1.2.3',
      sessionId: 'ses_1',
      actor,
      attributes: { cents: 1200 },
    })
    expect(JSON.parse(line({}, false))).not.to.have.property('time')
  })

  for (const level of ['debug', 'info', 'warn', 'error', 'fatal'] as const) {
    it(`the format 'pino' writes the number and the kinds of members that pino writes for ${level}`, () => {
      const expected = pinoLine((logger) => logger[level]('order.placed'))
      const written = JSON.parse(line({ level }))
      expect(written).to.include({
        level: expected.level,
        pid: expected.pid,
        hostname: expected.hostname,
        name: expected.name,
        msg: expected.msg,
      })
      expect(typeof written.time).to.equal(typeof expected.time)
    })
  }

  it("the format 'pino' writes an error with the type, the message, and the stack that pino writes", () => {
    const error = new TypeError('no stock')
    const { err } = JSON.parse(line({ level: 'error', error }))
    expect(err).to.deep.equal(pinoLine((logger) => logger.error(error)).err)
  })

  it('pino-pretty prints a line with its time, level, service, and error', () => {
    const pretty = prettyFactory({ colorize: false, translateTime: 'UTC:HH:MM:ss.l', ignore: 'hostname' })
    const printed = pretty(
      line({ level: 'error', error: new TypeError('no stock'), attributes: { order: 'o17' } }),
    )
    const [first = '', ...rest] = printed.split('\n')
    expect(first).to.equal(`[12:00:00.123] ERROR (shop/${process.pid}): order.placed`)
    expect(rest.join('\n')).to.include('"order": "o17"')
    expect(rest.join('\n')).to.match(
      /err: \{\s+"type": "TypeError",\s+"message": "no stock",\s+"stack":\s+TypeError: no stock\s+at /,
    )
  })

  it("an attribute cannot replace a member of a line of the format 'pino'", () => {
    const attributes = { level: 60, msg: 'forged', time: 0, err: 'forged', __proto__: 'x' }
    const written = JSON.parse(line({ attributes }))
    expect(written).to.include({ level: 30, msg: 'order.placed', time: Date.UTC(2026, 0, 2, 12, 0, 0, 123) })
    expect(written).not.to.have.property('err')
  })

  it("a line break in a value does not end a line of the format 'pino'", () => {
    const written = line({ attributes: { text: 'a\n{"level":60}\u2028\u001b[31m' } })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
    expect(written).not.to.match(/[\n\u2028\u001b]/)
    expect(JSON.parse(written).attributes.text).to.equal('a\n{"level":60}\u2028\u001b[31m')
  })
})
