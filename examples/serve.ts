import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LoggerTransportAdapter, OtlpTransportAdapter } from 'mcp-gatekit'
import { startAuthorizationServer } from './authorization-server.ts'
import { listen, stop } from './listen.ts'
import { createNotesServer } from './server.ts'
import { notesTelemetry } from './telemetry.ts'

const SCOPES = ['mcp:read', 'mcp:write']

/** Cleanup functions, which run in reverse order. */
const closing: (() => Promise<unknown>)[] = []

async function close(): Promise<void> {
  for (const undo of closing.splice(0).reverse()) await undo()
}

async function serve(): Promise<void> {
  const port = readPort('PORT', 3000)
  const authPort = readPort('AUTH_PORT', 3001)
  const folder = process.env.NOTES_DIR ?? (await temporaryNotes())

  const http = createServer()
  const origin = `http://127.0.0.1:${await listen(http, port)}`
  closing.push(() => stop(http))
  const resource = `${origin}/mcp`

  const { issuer, jwksUri, ...authorization } = await startAuthorizationServer({
    port: authPort,
    resources: [resource],
    scopes: SCOPES,
  })
  closing.push(authorization.close)

  const otlpEndpoint = process.env.OTEL_EXPORTER_OTLP_ENDPOINT
  const telemetry = notesTelemetry('local', [
    LoggerTransportAdapter.create({ logger: console }),
    ...(otlpEndpoint ? [OtlpTransportAdapter.create({ url: otlpEndpoint })] : []),
  ])
  // Telemetry shuts down last, so that the events of the last requests are sent.
  closing.unshift(() => telemetry.shutdown({ timeoutMs: 1000 }))

  http.on('request', await createNotesServer({ issuer, jwksUri, resource, telemetry, folder }))

  const token = await authorization.issueToken(SCOPES)
  // On Node.js 20, npx would use an old Inspector without --header unless @latest is given.
  const inspector = 'npx @modelcontextprotocol/inspector@latest'
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'list_notes', arguments: {} } }
  console.log(`
The notes server    ${resource}
Its notes           ${folder}
Who issues tokens   ${issuer}

A token that is valid for one hour:

${token}

Call a tool:

curl -sS ${resource} -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d '${JSON.stringify(call)}'

Connect the MCP Inspector:

${inspector} --cli ${resource} --transport http --header "Authorization: Bearer ${token}" --method tools/list

Or open its page with ${inspector}, choose Streamable HTTP, enter the URL above
and press Connect. The Inspector finds the authorization server, and the user Ada signs in and consents automatically.

Press Ctrl-C to stop the server.
`)
}

function readPort(name: string, otherwise: number): number {
  const given = process.env[name]
  if (given === undefined || given === '') return otherwise
  const port = Number(given)
  if (!/^\d+$/.test(given) || port > 65_535)
    throw new Error(`${name} must be a port number; received ${given}`)
  return port
}

async function temporaryNotes(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'notes-'))
  closing.push(() => rm(folder, { recursive: true }))
  await writeFile(
    join(folder, 'welcome.md'),
    'These notes are deleted when the server stops.\nSet NOTES_DIR to keep your notes.\n',
  )
  return folder
}

/** Returns one line that describes an error and its fix. */
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error && error.code === 'EADDRINUSE' && 'port' in error) {
    return `Port ${error.port} is in use. Set PORT and AUTH_PORT to free ports`
  }
  return error.message.split('\n')[0] ?? error.name
}

let stopping = false
async function end(exitCode: number): Promise<void> {
  if (stopping) return
  stopping = true
  process.exitCode = exitCode
  await close()
}

process.on('SIGINT', () => void end(0))
process.on('SIGTERM', () => void end(0))
try {
  await serve()
  // A signal can arrive during the start. Close what has started since then.
  if (stopping) await close()
} catch (error) {
  console.error(explain(error))
  await end(1)
}
