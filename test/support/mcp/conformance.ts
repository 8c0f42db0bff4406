import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type McpTaskOptions, mcpAuth, mcpHandler, type NodeMiddleware } from '../../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../../src/mcp/adapter.ts'
import { everything } from '../../conformance/everything.ts'
import { tokenProxy } from '../../conformance/token-proxy.ts'
import { type Listening, listen } from './wire.ts'

const SUITE = '@modelcontextprotocol/conformance@0.2.0-alpha.12'
/** The suite needs a newer Node.js than the server. */
const NODE = 'node@24'

/** One run of the conformance suite of the protocol. */
interface ConformanceRun {
  readonly revision: string
  readonly sessions: boolean
  /** The line with the expected total. */
  readonly total: string
  /** The list of failures that are expected, in `test/conformance`. */
  readonly expectedFailures?: string
}

/** The runs of the suite, with their expected results. Only 2025-11-25 without sessions may fail. */
export const CONFORMANCE_RUNS: readonly ConformanceRun[] = [
  { revision: '2026-07-28', sessions: false, total: 'Total: 196 passed, 0 failed' },
  { revision: '2026-07-28', sessions: true, total: 'Total: 196 passed, 0 failed' },
  {
    revision: '2025-11-25',
    sessions: false,
    total: 'Total: 63 passed, 4 failed',
    expectedFailures: 'expected-failures-2025-11-25.yaml',
  },
  { revision: '2025-11-25', sessions: true, total: 'Total: 84 passed, 0 failed' },
]

/** Runs the suite against a server, in a temporary folder, because the suite writes its results there. */
export async function runConformanceSuite(
  url: string,
  options: readonly string[],
): Promise<{ code: number | null; output: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-'))
  try {
    const args = ['-y', '-p', NODE, '-p', SUITE, '--', 'conformance', 'server', '--url', url, ...options]
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

/** A server that the suite examines. */
export interface ConformanceServer {
  readonly url: string
  close(): Promise<void>
}

interface ConformanceServerOptions {
  readonly sessions: boolean
  readonly tasks?: McpTaskOptions
}

/** Serves the server of the suite without a gate. */
async function withoutGate({ sessions, tasks }: ConformanceServerOptions): Promise<ConformanceServer> {
  const adapter: McpAdapter = createMcpAdapter({
    router: everything(() => adapter.notify),
    sessions,
    ...(tasks !== undefined && { tasks }),
  })
  return serverOf(await listen(mcpHandler(adapter)))
}

/** Serves the same server with a gate, behind a proxy that adds the token. */
async function behindGate({ sessions, tasks }: ConformanceServerOptions): Promise<ConformanceServer> {
  const adapter: McpAdapter = createMcpAdapter({
    router: everything(() => adapter.notify),
    sessions,
    ...(tasks !== undefined && { tasks }),
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
  return serverOf(await listen(tokenProxy(server.port, 'good')), server)
}

function serverOf(front: Listening, ...behind: readonly Listening[]): ConformanceServer {
  return {
    url: `${front.origin}/mcp`,
    async close() {
      for (const one of [front, ...behind]) await one.close()
    },
  }
}

/** The servers of the suite, by their names in titles. */
export const CONFORMANCE_SERVERS: readonly (readonly [
  name: string,
  serve: (options: ConformanceServerOptions) => Promise<ConformanceServer>,
])[] = [
  ['a server without a gate', withoutGate],
  ['a server behind the gate', behindGate],
]
