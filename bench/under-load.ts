import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import express from 'express'
import { mcpServer } from '../src/express/mcp-server.ts'
import { jwtVerifier } from '../src/oauth/verifiers/jwt.ts'
import type { Contestant } from './contestants.ts'
import { ISSUER, RESOURCE, startIssuer } from './issue-token.ts'
import type { Noise } from './noise.ts'
import { median, recordRatio } from './report.ts'
import { type StartedHost, startHost } from './started-host.ts'
import { adapter, CALL_MODERN } from './tools-call.ts'

const SERVER = 'mcp-gatekit mcpServer, 10 tools, JWT'
/** Shows how much of a delay any server has under the same load on the same machine. */
const FLOOR = 'Express with fixed responses'
/** The environment variable that passes the address of the JWKS to the process of the server. */
const JWKS = 'MCP_GATEKIT_BENCH_JWKS_URI'
const ROUNDS = 5
const SECONDS = 6
/** One honest call is sent in each interval. */
const INTERVAL_MS = 20

export const contestants: Record<string, Contestant> = {
  [SERVER]: () => {
    const jwksUri = process.env[JWKS] as string
    const verifyToken = jwtVerifier({ issuer: ISSUER, resource: RESOURCE, jwksUri })
    const oauth = { issuer: ISSUER, resource: RESOURCE, scopes: ['mcp:read'], verifyToken }
    return createServer(express().use(mcpServer(adapter(10, undefined, {}, oauth))))
  },
  [FLOOR]: () =>
    createServer(
      express().use((req, res) => {
        res.writeHead(req.headers.authorization === 'Bearer wrong' ? 401 : 200)
        res.end('{}')
      }),
    ),
}

/** The figures of all rounds of a scenario. */
interface Measured {
  /** The durations of the calls in milliseconds. */
  readonly callsMs: number[]
  /** By round, the 99th percentile of the event loop delay of the server in milliseconds. */
  readonly delaysMs: number[]
  /** By round, the time of garbage collection in the server in milliseconds. */
  readonly collectedMs: number[]
}

/** (m) Measures honest calls at a constant rate while others send their own. */
export async function benchUnderLoad(): Promise<void> {
  const issuer = await startIssuer('ES256')
  const noise = fork(new URL('noise.js', import.meta.url), [JSON.stringify(issuer.jwks)])
  const [jwksPort] = (await once(noise, 'message')) as [number]
  process.env[JWKS] = `http://127.0.0.1:${jwksPort}/`
  try {
    for (const name of [SERVER, FLOOR]) await benchServer(name, noise, issuer)
  } finally {
    noise.disconnect()
  }
}

async function benchServer(
  server: string,
  noise: ChildProcess,
  issuer: Awaited<ReturnType<typeof startIssuer>>,
): Promise<void> {
  const host = await startHost(new URL(import.meta.url), server)
  const sent = (token: string): Pick<Noise, 'port' | 'headers' | 'body'> => ({
    port: host.port,
    headers: { ...(CALL_MODERN.headers as Record<string, string>), authorization: `Bearer ${token}` },
    body: String(CALL_MODERN.body),
  })
  const honest = sent(await issuer.issue())
  const unknown = sent(await issuer.issue('unknown'))
  const quiet = { ...honest, perSecond: 0, isSlow: false }
  const scenarios: Readonly<Record<string, Noise>> = {
    quiet,
    '200 clients that call once a second': { ...honest, perSecond: 200, isSlow: false },
    '1,000 refused tokens a second': { ...sent('wrong'), perSecond: 1_000, isSlow: false },
    'unknown keys 100 times a second, and a slow JWKS': { ...unknown, perSecond: 100, isSlow: true },
  }
  try {
    print(server, await measure(host, noise, honest, scenarios))
  } finally {
    host.stop()
  }
}

async function measure(
  host: StartedHost,
  noise: ChildProcess,
  honest: Pick<Noise, 'port' | 'headers' | 'body'>,
  scenarios: Readonly<Record<string, Noise>>,
): Promise<ReadonlyMap<string, Measured>> {
  const measured = new Map(
    Object.keys(scenarios).map((name) => [name, { callsMs: [], delaysMs: [], collectedMs: [] } as Measured]),
  )
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, next] of Object.entries(scenarios)) {
      noise.send(next)
      await setTimeout(500)
      await host.ask('delay')
      await host.ask('collected')
      const callsMs = await callAtConstantRate(honest)
      const delay = await host.ask('delay')
      const collected = await host.ask('collected')
      noise.send({ ...next, perSecond: 0 })
      // The first round warms up.
      if (round === 0) continue
      measured.get(name)?.callsMs.push(...callsMs)
      measured.get(name)?.delaysMs.push(delay)
      measured.get(name)?.collectedMs.push(collected)
    }
  }
  return measured
}

/** Returns the durations of honest calls in milliseconds. @throws if a call fails */
async function callAtConstantRate({ port, headers, body }: Pick<Noise, 'port' | 'headers' | 'body'>) {
  const agent = new Agent({ keepAlive: true })
  const call = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const startedMs = performance.now()
      const sent = request(
        { port, host: '127.0.0.1', path: '/mcp', method: 'POST', agent, headers },
        (response) => {
          if (response.statusCode !== 200) reject(new Error(`an honest call got ${response.statusCode}`))
          response.resume().on('end', () => resolve(performance.now() - startedMs))
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
  const calls: Promise<number>[] = []
  const endsAt = performance.now() + SECONDS * 1_000
  while (performance.now() < endsAt) {
    calls.push(call())
    await setTimeout(INTERVAL_MS)
  }
  const callsMs = await Promise.all(calls)
  agent.destroy()
  return callsMs
}

function print(server: string, measured: ReadonlyMap<string, Measured>): void {
  const title = '(m) honest calls under load, 99th percentile'
  console.log(`\n### ${title}: ${server}\n`)
  console.log(
    '| meanwhile | median, ms | 99th percentile, ms | × quiet | event loop delay, 99th percentile, ms | garbage collection, ms per second |',
  )
  console.log('|---|---|---|---|---|---|')
  let quiet: number | undefined
  for (const [name, { callsMs, delaysMs, collectedMs }] of measured) {
    callsMs.sort((one, other) => one - other)
    const p99 = callsMs[Math.floor(callsMs.length * 0.99)] as number
    quiet ??= p99
    if (server === SERVER && name !== 'quiet') recordRatio(title, name, quiet / p99)
    const cells = [median(callsMs), p99, p99 / quiet, median(delaysMs), median(collectedMs) / SECONDS]
    console.log(`| ${[name, ...cells.map((value) => value.toFixed(2))].join(' | ')} |`)
  }
}
