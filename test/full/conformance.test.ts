import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { mcpAuth } from '../../src/express/mcp-auth.ts'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import type { NodeMiddleware } from '../../src/http/node-middleware.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { everything } from '../conformance/everything.ts'
import { tokenProxy } from '../conformance/token-proxy.ts'
import { type Listening, listen } from '../support/mcp/wire.ts'

const SUITE = '@modelcontextprotocol/conformance@0.2.0-alpha.12'
/** The suite needs a newer Node.js than the server. */
const NODE = 'node@24'

/** The expected result of each run of the suite. */
const RUNS = [
  { revision: '2026-07-28', sessions: false, total: 'Total: 196 passed, 0 failed' },
  { revision: '2026-07-28', sessions: true, total: 'Total: 196 passed, 0 failed' },
  { revision: '2025-11-25', sessions: false, total: 'Total: 63 passed, 4 failed' },
  { revision: '2025-11-25', sessions: true, total: 'Total: 84 passed, 0 failed' },
] as const

/** Returns the path of a list of failures. This file runs from the build folder; the lists are next to the sources. */
const expectedFailures = (revision: string): string =>
  fileURLToPath(new URL(`../../../test/conformance/expected-failures-${revision}.yaml`, import.meta.url))

/** Runs the suite against a server, in a temporary folder, because the suite writes its results there. */
async function runSuite(url: string, revision: string, expected: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-'))
  try {
    const suiteArgs = ['server', '--url', url, '--requirements', revision, ...expected]
    const args = ['-y', '-p', NODE, '-p', SUITE, '--', 'conformance', ...suiteArgs]
    const suite = spawn('npx', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [suite.stdout, suite.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    const [code] = await once(suite, 'close')
    return { code, output }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Serves the server of the suite without a gate. */
async function ungated(sessions: boolean): Promise<Listening[]> {
  const adapter: McpAdapter = createMcpAdapter({ router: everything(() => adapter.notify), sessions })
  return [await listen(mcpHandler(adapter))]
}

/** Serves the same server with a gate, behind a proxy that adds the token. */
async function gated(sessions: boolean): Promise<Listening[]> {
  const adapter: McpAdapter = createMcpAdapter({
    router: everything(() => adapter.notify),
    sessions,
    oauth: {
      issuer: 'https://auth.example.com',
      scopes: ['mcp:read'],
      verifyToken: ({ bearerToken }) =>
        bearerToken === 'good' ? { valid: true, user: { id: 'u1' }, scopes: ['mcp:read'] } : undefined,
    },
  })
  const auth: NodeMiddleware = mcpAuth(adapter)
  const handler = mcpHandler(adapter)
  const server = await listen((req, res) => auth(req, res, () => handler(req, res)))
  return [await listen(tokenProxy(server.port, 'good')), server]
}

describe('conformance: the suite of the protocol', () => {
  for (const [what, serve] of [
    ['a server without a gate', ungated],
    ['a server behind the gate', gated],
  ] as const) {
    for (const { revision, sessions, total } of RUNS) {
      it(`${what} ${sessions ? 'with' : 'without'} sessions passes the suite for ${revision}`, async () => {
        const [front, ...behind] = await serve(sessions)
        // Only 2025-11-25 without sessions may fail.
        const mayFail = revision === '2025-11-25' && !sessions
        const expected = mayFail ? ['--expected-failures', expectedFailures(revision)] : []
        try {
          const { code, output } = await runSuite(`${front?.origin}/mcp`, revision, expected)
          expect(output).to.contain(total)
          expect(code, output.slice(-4000)).to.equal(0)
        } finally {
          for (const one of [front, ...behind]) await one?.close()
        }
      })
    }
  }
})
