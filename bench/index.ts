import { cpus } from 'node:os'
import { benchCluster } from './cluster.ts'
import { benchEmit } from './emit.ts'
import { benchGate } from './gate.ts'
import { benchImports } from './import.ts'
import { benchOpenApi } from './openapi.ts'
import { benchOtlp } from './otlp.ts'
import { benchToolsCall } from './tools-call.ts'
import { benchVerifiers } from './verifiers.ts'

/** `npm run bench [-- gate|verifiers|tools-call|emit|otlp|openapi|imports|cluster]`: every question in turn, or one. */
const questions: Record<string, () => Promise<void>> = {
  gate: benchGate,
  verifiers: benchVerifiers,
  'tools-call': benchToolsCall,
  emit: benchEmit,
  openapi: benchOpenApi,
  otlp: benchOtlp,
  imports: benchImports,
  cluster: benchCluster,
}
const asked = process.argv.slice(2)
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}`)
for (const [name, run] of Object.entries(questions)) {
  if (asked.length === 0 || asked.includes(name)) await run()
}
