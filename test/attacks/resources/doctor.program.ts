// `mcp-gatekit doctor` in a small heap. Examines the server in its first argument, and reports when it is done.
import { examine } from '../../../cli/doctor/doctor.ts'
import { reportReady } from '../../support/attacks/resource-report.ts'

const url = new URL(process.argv[2] as string)
const options = { url, callArguments: {}, timeoutMs: 30_000, ignore: [], print: () => undefined }
await examine(options, () => undefined)
reportReady(0)
