import { describeName, quotedName } from '../base/options/describe-value.ts'
import { didYouMean } from '../base/options/nearest-name.ts'
import { KitTelemetryError } from './errors.ts'
import { LEVEL_PRIORITY } from './levels.ts'
import { errorWithHelp } from './options.ts'

/** The warning of the first event that sampling drops although it was not configured. */
export const SAMPLING_HINT =
  'sampling has dropped an event. By default, 10 % of the info events and 1 % of the debug events are kept. Call withSampling({ infoRate: 1, debugRate: 1 }) to keep all of them, or withSampling({}) to keep the default without this warning'

/** Returns the error of an event whose input cannot be read. */
export function emitFailed(name: string, cause: unknown): KitTelemetryError {
  const why = KitTelemetryError.is(cause) ? `: ${cause.message}` : ': reading its input failed'
  return errorWithHelp('TELEMETRY_EMIT_FAILED', `event ${quotedName(name)} was dropped${why}`, {
    cause,
  })
}

/** Returns the report of an event that is delivered without a member that cannot be read. */
export function leftOut(name: string, problem: KitTelemetryError): KitTelemetryError {
  return errorWithHelp(
    'TELEMETRY_EMIT_FAILED',
    `event ${quotedName(name)} is delivered, but ${problem.message}`,
    { cause: problem },
  )
}

/** Returns the kind of problem, so that the console reports each invalid member of the input once. */
export function problemOf(cause: unknown): string {
  const member = KitTelemetryError.is(cause) ? cause.details?.member : undefined
  return `TELEMETRY_EMIT_FAILED ${typeof member === 'string' ? member : ''}`
}

export function unknownLevel(level: unknown): KitTelemetryError {
  return new KitTelemetryError(
    'TELEMETRY_EMIT_FAILED',
    `level must be debug, info, warn, error, or fatal; received ${describeName(level)}, so it is info.${typeof level === 'string' ? didYouMean(level, Object.keys(LEVEL_PRIORITY)) : ''}`,
    { details: { member: 'level' } },
  )
}

/** Returns the error of an event after the shutdown of its manager. `dropped` is the number of such events. */
export function droppedAfterShutdown(name: string, dropped: number): KitTelemetryError {
  return errorWithHelp(
    'TELEMETRY_RUNTIME_NOT_INITIALIZED',
    `event ${quotedName(name)} was dropped because the manager has been shut down; ${dropped} so far`,
  )
}
