import { createServer } from 'node:http'
import express from 'express'
import type { Contestant } from './contestants.ts'
import { contestants as gates } from './gate.ts'
import { recordRatio } from './report.ts'
import { startHost } from './started-host.ts'
import { type ThinLoadOptions, thinLoad } from './thin-load.ts'
import { CALL_MODERN, contestants as servers } from './tools-call.ts'

const BARE_401 = 'bare Express, 401'
const BARE_CALL = 'bare Express, express.json and a fixed response'

/** The compared servers, and servers of bare Express that respond to a refused request and to a call. */
export const contestants: Record<string, Contestant> = {
  ...gates,
  ...servers,
  [BARE_401]: () =>
    createServer(
      express().use('/mcp', (_req, res) => {
        res.writeHead(401, { 'Content-Type': 'application/json', 'WWW-Authenticate': 'Bearer' })
        res.end('{"error":"invalid_token"}')
      }),
    ),
  [BARE_CALL]: () =>
    createServer(
      express().use('/mcp', express.json(), (_req, res) => {
        res.writeHead(200, { 'Content-Type': 'application/json' })
        res.end('{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}]}}')
      }),
    ),
}

const CONNECTIONS = 20
const WARM_UP_MS = 3_000
const MEASURED_MS = 2_000

/** (k) Measures the bytes of the V8 heap that a request allocates, by sampling. */
export async function benchBytes(): Promise<void> {
  const sdkGate = 'SDK requireBearerAuth'
  await measure('(k) bytes allocated per accepted request', sdkGate, {
    names: ['bare Express', sdkGate, 'mcp-gatekit mcpAuth'],
    request: { headers: { authorization: 'Bearer good-token' } },
  })
  await measure('(k) bytes allocated per refused request (401, no token)', sdkGate, {
    names: [BARE_401, sdkGate, 'mcp-gatekit mcpAuth'],
    request: {},
    expectStatus: 401,
  })
  await measure('(k) bytes allocated per tools/call, revision 2026-07-28', 'SDK, 10 tools', {
    names: [BARE_CALL, 'SDK, 10 tools', 'mcp-gatekit, 10 tools', 'mcp-gatekit mcpServer, 10 tools'],
    request: CALL_MODERN,
  })
}

interface Measured extends Pick<ThinLoadOptions, 'request' | 'expectStatus'> {
  readonly names: readonly string[]
}

async function measure(title: string, baseline: string, { names, ...load }: Measured): Promise<void> {
  const bytes: Record<string, number> = {}
  for (const name of names) bytes[name] = await bytesEach(name, load)
  console.log(`\n### ${title}\n`)
  console.log(`| contestant | bytes each | × fewer than ${baseline} |\n|---|---|---|`)
  for (const [name, each] of Object.entries(bytes)) {
    const fewer = (bytes[baseline] as number) / each
    if (name.includes('mcp-gatekit')) recordRatio(title, name, fewer)
    console.log(`| ${name} | ${Math.round(each).toLocaleString('en')} | ${fewer.toFixed(2)} |`)
  }
}

async function bytesEach(name: string, load: Omit<Measured, 'names'>): Promise<number> {
  const host = await startHost(new URL(import.meta.url), name)
  try {
    const options = { ...load, port: host.port, connections: CONNECTIONS }
    await thinLoad({ ...options, durationMs: WARM_UP_MS })
    await host.ask('sample')
    const { requests } = await thinLoad({ ...options, durationMs: MEASURED_MS })
    return (await host.ask('allocated')) / requests
  } finally {
    host.stop()
  }
}
