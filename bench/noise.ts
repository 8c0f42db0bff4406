import { createServer, request as httpRequest } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { listen } from './contestants.ts'

/** How long the JWKS endpoint takes to respond while it is slow. */
const SLOW_MS = 2_000
/** How often requests are sent, so that they do not arrive in bursts. */
const TICK_MS = 1

/** The next requests of the process. */
export interface Noise {
  readonly port: number
  /** The requests that are sent each second. */
  readonly perSecond: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The JWKS endpoint responds late. */
  readonly isSlow: boolean
}

/**
 * A process that sends requests at a constant rate, whatever the responses are, and serves a JWKS. It sends its parent
 * the port of the JWKS, and takes `Noise` from it.
 */
let noise: Noise | undefined
const jwks = createServer(async (_req, res) => {
  if (noise?.isSlow) await setTimeout(SLOW_MS)
  res.writeHead(200, { 'Content-Type': 'application/json' })
  res.end(process.argv[2])
})
process.on('message', (next: Noise) => {
  noise = next
})
process.on('disconnect', () => process.exit())
process.send?.(await listen(jwks))

let due = 0
let lastMs = performance.now()
setInterval(() => {
  const nowMs = performance.now()
  const elapsedMs = nowMs - lastMs
  lastMs = nowMs
  if (noise === undefined) return
  const { port, perSecond, headers, body } = noise
  for (due += (perSecond * elapsedMs) / 1_000; due >= 1; due--) {
    const options = { port, host: '127.0.0.1', path: '/mcp', method: 'POST', headers }
    const sent = httpRequest(options, (response) => response.resume())
    sent.on('error', () => undefined)
    sent.end(body)
  }
}, TICK_MS)
