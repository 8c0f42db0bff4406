import {
  KitTelemetry,
  type KitTelemetryManager,
  type TelemetryEnvelope,
  type TelemetryTransport,
} from '../../../src/telemetry/index.ts'
import { RecordingLogger } from './recording.ts'

/** A secret of 32 bytes. */
export const AUDIT_SECRET = 'S3cr3t-0123456789-0123456789-012'

/** A transport that keeps each event as a line of JSON. */
export function lineTransport(more: Partial<TelemetryTransport> = {}) {
  const lines: string[] = []
  const transport: TelemetryTransport = {
    type: 'lines',
    handle: (envelope) => void lines.push(JSON.stringify(envelope)),
    ...more,
  }
  return { lines, transport }
}

/** A builder that audits `a.*` with a transport, and drops every event otherwise. */
export function auditBuilder(
  transport: TelemetryTransport,
  logger = new RecordingLogger(),
  secret = AUDIT_SECRET,
): KitTelemetry {
  return KitTelemetry.create()
    .withLogger(logger)
    .withSampling({ debugRate: 0, infoRate: 0, warnRate: 0, errorRate: 0 })
    .withAudit({ transport, names: ['a.*'], secret })
}

/** Returns the lines of a run that emits the given events and shuts down. */
export async function auditedLines(
  emit: (manager: KitTelemetryManager) => void,
  secret = AUDIT_SECRET,
): Promise<string[]> {
  const { lines, transport } = lineTransport()
  const manager = auditBuilder(transport, undefined, secret).build()
  emit(manager)
  await manager.shutdown()
  return lines
}

/** Returns the sequence number and the name of each line. */
export function summaries(lines: readonly string[]): string[] {
  return lines.map((line) => {
    const { name, attributes } = JSON.parse(line) as TelemetryEnvelope
    return `${attributes?.['kit.audit.seq']} ${name}`
  })
}
