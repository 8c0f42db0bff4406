import { createHash, randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OtlpTransportAdapter } from 'mcp-gatekit'
import { ADA, startAuthorizationServer } from './authorization-server.ts'
import { type DemoClient, v1Client, v2Client } from './clients.ts'
import { listen, stop } from './listen.ts'
import { type OtlpRecord, startOtlpReceiver } from './otlp-receiver.ts'
import { findLeaks, printTable } from './records.ts'
import { createNotesServer } from './server.ts'
import { notesTelemetry } from './telemetry.ts'
import { paint, Wire } from './wire.ts'

/** By default, the demo shows one client in short. */
const showsAll = process.argv.includes('--all')
const form = showsAll ? 'full' : 'short'

/** Another MCP server. Tokens for it are valid, but not for the server of this demo. */
const OTHER_RESOURCE = 'https://calendar.example/mcp'

// The demo does not depend on other machines, so it always ends within this time.
setTimeout(() => {
  console.error(paint('red', 'The demo did not end within 55 seconds'))
  process.exit(1)
}, 55_000).unref()

/** Cleanup functions, which run in reverse order. */
const closing: (() => Promise<unknown>)[] = []
try {
  await demo()
} catch (error) {
  console.error(
    paint('red', `\nThe demo failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`),
  )
  process.exitCode = 1
} finally {
  for (const close of closing.reverse()) await close()
}

async function demo(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'notes-'))
  closing.push(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'shopping.md'), 'bread\nolive oil\ntea\n')
  await writeFile(join(folder, 'reading.md'), 'RFC 9728\nRFC 8707\nRFC 6750\n')

  // The port is part of the resource URL, so it must be known first.
  const http = createServer()
  const origin = `http://127.0.0.1:${await listen(http, 0)}`
  closing.push(() => stop(http))
  const resource = `${origin}/mcp`

  const authorization = await startAuthorizationServer({
    resources: [resource, OTHER_RESOURCE],
    scopes: ['mcp:read', 'mcp:write'],
  })
  closing.push(authorization.close)

  // It starts before the server that sends events to it, and is shown in the order of a request.
  const receiver = await startOtlpReceiver()
  closing.push(receiver.close)
  const telemetry = notesTelemetry('demo', [OtlpTransportAdapter.create({ url: receiver.url })])
  closing.push(() => telemetry.shutdown())

  const { issuer, jwksUri } = authorization
  http.on('request', await createNotesServer({ issuer, jwksUri, resource, telemetry, folder }))
  console.log(`${paint('bold', 'auth ')}  ${issuer}: oidc-provider. Its only user, Ada, always consents.
${paint('bold', 'notes')}  ${resource}: six tools behind mcp-gatekit. Reading requires mcp:read, writing also mcp:write.
`)

  const wire = new Wire({ [origin]: 'notes', [issuer]: 'auth ' }, form)
  const clientOptions = { url: resource, clientId: authorization.clientId, fetch: wire.fetch }
  await walk(v2Client('legacy', clientOptions), wire)
  if (showsAll)
    for (const client of [v2Client('modern', clientOptions), v1Client(clientOptions)])
      await walk(client, wire)
  await refusedTokens(wire, resource, await authorization.issueToken(['mcp:read'], OTHER_RESOURCE))

  heading('What the server reported')
  // The event of a request is emitted when its connection closes, so the server stops before the records are counted.
  await stop(http)
  await telemetry.flush()
  const { emitted, transports } = telemetry.stats()
  const records = receiver.records()
  printTable(records, form)
  console.log(
    `\n    ${emitted} events emitted, ${transports[0]?.delivered} delivered, ${records.length} received.`,
  )
  if (records.length === 0 || records.length !== emitted) throw new Error('Not every event arrived')
  checkRecords(records, receiver.text(), wire)
  console.log(
    paint('green', '✓ Signed in, refused, stepped up, and no secret leaked. ') +
      `Next: npm start, npx mcp-gatekit init${showsAll ? '' : ', or npm run demo -- --all'}`,
  )
}

/** Runs one client: rejected, signed in, accepted; then rejected for a missing scope, stepped up, and accepted. */
async function walk(client: DemoClient, wire: Wire): Promise<void> {
  if (showsAll) heading(`The ${client.name}`)
  try {
    await client.refused(() => client.connect())
    await wire.print()
    meaning('401 without a token. The challenge leads to the metadata, which names the authorization server.')

    await client.signIn()
    await wire.print()
    meaning('Ada signs in. The token is valid only for this server.')

    const revision = await client.connect()
    const tools = await client.listTools()
    const found = await client.callTool('search_notes', { text: 'rfc' })
    await wire.print()
    console.log(`    ${paint('bold', 'tools')}         ${tools.join(', ')}`)
    console.log(`    ${paint('bold', 'search_notes')}  ${found}`)
    meaning(`The call succeeds, with MCP ${revision}.`)

    const write = () =>
      client.callTool('write_note', { name: `note-${randomUUID()}`, text: 'Written by Ada' })
    await client.refused(write)
    await wire.print()
    meaning(
      '403, because the token allows reading only. The challenge names all scopes that this call requires.',
    )

    await client.signIn()
    await wire.print()
    meaning('Step-up: the client requests more scopes. Ada is already signed in and only consents.')

    const written = await write()
    const whoami = await client.callTool('whoami', {})
    await wire.print()
    console.log(`    ${paint('bold', 'write_note')}    ${written}`)
    console.log(`    ${paint('bold', 'whoami')}        ${whoami}`)
    meaning('The same call with the new token. The tools know the user.')
  } finally {
    await client.close()
  }
}

/** Sends tokens that the server must reject. */
async function refusedTokens(wire: Wire, resource: string, foreignToken: string): Promise<void> {
  const call = (token: string) =>
    wire.fetch(resource, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
  const answers = [await call('made-up-by-someone'), await call(foreignToken)]
  await wire.print()
  for (const { status } of answers) if (status !== 401) throw new Error(`An invalid token got ${status}`)
  meaning(
    `One token is invented. The other is valid, but for ${OTHER_RESOURCE}. A server must not accept it.`,
  )
}

/** Searches all received records for secrets. First tests the search with a record that contains them. */
function checkRecords(records: readonly OtlpRecord[], text: string, { secrets }: Wire): void {
  const leaking = JSON.stringify({ a: [...secrets], b: 'Bearer abcdefghijkl', c: ADA.email })
  if (findLeaks(leaking, secrets, [ADA.email]).length < secrets.size + 2)
    throw new Error('The search does not find secrets')

  const hashed = createHash('sha256').update(ADA.email).digest('hex')
  if (!text.includes(hashed)) throw new Error('No record contains the hash of the email address')
  const leaks = findLeaks(text, secrets, [ADA.email])
  if (leaks.length > 0) throw new Error(`Telemetry contains secrets: ${leaks.join(', ')}`)
  console.log(
    `    None of the ${secrets.size} tokens, codes, and verifiers is in the ${records.length} events. Ada's e-mail is there as ${hashed.slice(0, 8)}…, its hash.\n`,
  )
}

function heading(text: string): void {
  console.log(paint('bold', text))
}

function meaning(text: string): void {
  console.log(`  ${paint('cyan', '→')} ${text}\n`)
}
