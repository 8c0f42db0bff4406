// usage: node writer.program.js <file> <number of events> <length of each>
// Writes events to an audit log. Prints a line when an event failed, and one when everything is delivered.
import { auditFile, KitTelemetry } from '../../../../src/telemetry/index.ts'
import { AUDIT_SECRET } from '../../../support/telemetry/audit.ts'

const [path = '', count, length] = process.argv.slice(2)
const logger = { error: (message: string) => console.log('failed', message), warn: console.log }
const telemetry = KitTelemetry.create()
  .withSampling({ infoRate: 0 })
  .withLogger(logger)
  .withAudit({ transport: auditFile(path), names: ['a.*'], secret: AUDIT_SECRET })
  .build()
for (let index = 0; index < Number(count); index++)
  telemetry.emit('a.b', { attributes: { index, text: 'x'.repeat(Number(length)) } })
await telemetry.shutdown()
console.log('done', JSON.stringify(telemetry.stats().audit))
