import { cpus } from 'node:os'
import { benchCluster } from './cluster.ts'
import { benchEmit } from './emit.ts'
import { benchGate } from './gate.ts'
import { benchImports } from './import.ts'
import { benchMiddleware } from './middleware.ts'
import { benchOpenApi } from './openapi.ts'
import { benchOtlp } from './otlp.ts'
import { benchToolsCall } from './tools-call.ts'
import { benchVerifiers } from './verifiers.ts'

/** The benchmarks by name. `npm run bench` runs all of them, `npm run bench -- gate emit` only the named ones. */
const benchmarks: Record<string, () => Promise<void>> = {
  gate: benchGate,
  verifiers: benchVerifiers,
  'tools-call': benchToolsCall,
  middleware: benchMiddleware,
  emit: benchEmit,
  openapi: benchOpenApi,
  otlp: benchOtlp,
  imports: benchImports,
  cluster: benchCluster,
}
const names = process.argv.slice(2)
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}`)
for (const [name, run] of Object.entries(benchmarks)) {
  if (names.length === 0 || names.includes(name)) await run()
}
