import { once } from 'node:events'
import { request } from 'node:http'
import { isMainThread } from 'node:worker_threads'
import { observeRequests } from './observe-requests.ts'

/** The maximum time that a process waits for the console. */
const TIMEOUT_MS = 1000

/**
 * Opens a request to the console that ends with this process, so that the console notices a crash and a restart. Its body is the
 * exit code, which is missing if a signal ends the process. Resolves when the console has received the request. Never rejects.
 */
async function announceProcess(feedUrl: string): Promise<void> {
  if (!isMainThread) return
  const headers = { 'x-pid': String(process.pid) }
  const req = request(`${feedUrl}/process`, { method: 'POST', agent: false, headers })
  req.on('error', () => undefined)
  req.on('response', (res) => void res.resume())
  req.flushHeaders()
  await once(req, 'response', { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(() => undefined)
  req.socket?.unref()
  process.once('exit', (code) => req.end(String(code)))
}

// `mcp-gatekit dev` loads this file into the user's server, before the server itself.
const feedUrl = process.env.MCP_GATEKIT_DEV_URL
if (feedUrl !== undefined) {
  await announceProcess(feedUrl)
  observeRequests(feedUrl)
}
