import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import type { TelemetryLevel } from '../levels.ts'
import { escapeUnsafe } from './json-line.ts'

/** The numbers of the levels in pino. */
const PINO_LEVELS: Readonly<Record<TelemetryLevel, number>> = {
  debug: 20,
  info: 30,
  warn: 40,
  error: 50,
  fatal: 60,
}

/**
 * Returns a function that writes envelopes as pino writes lines. The attributes stay in one member, so that none of them can
 * replace a member of the line.
 */
export function pinoLineWriter(includeTimestamp: boolean): (envelope: TelemetryEnvelope) => string {
  const process = (globalThis as { process?: Partial<NodeJS.Process> }).process
  const host = { pid: process?.pid, hostname: process?.getBuiltinModule?.('node:os')?.hostname() }
  return (envelope) => {
    const { name, time, level, service, error, ...rest } = envelope
    return escapeUnsafe(
      JSON.stringify({
        level: PINO_LEVELS[level],
        ...(includeTimestamp && { time: Date.parse(time) }),
        ...host,
        name: service,
        msg: name,
        ...rest,
        ...(error !== undefined && { err: pinoError(error) }),
      }),
    )
  }
}

/** Returns an error with the members of pino's serializer for errors. */
function pinoError({ name, attributes, ...rest }: NonNullable<TelemetryEnvelope['error']>): object {
  return { ...attributes, type: name, ...rest }
}
