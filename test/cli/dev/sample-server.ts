import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startSampleServer } from '../../support/cli/sample.ts'

// Runs the sample server as a process. It prints its origin, and the URL to which a test posts an exit code.

const issuer = process.env.MCP_GATEKIT_ISSUER
const { origin, close } = await startSampleServer(issuer ?? 'https://auth.example.com')

async function end(code: number): Promise<void> {
  await close()
  process.exit(code)
}

const control = createServer((req, res) => {
  const code = /^\/(\d)$/.exec(req.url ?? '')?.[1]
  res.end(() => void (code === undefined || end(Number(code))))
}).listen(0, '127.0.0.1', () => {
  const ending = `http://127.0.0.1:${(control.address() as AddressInfo).port}/`
  console.log(JSON.stringify({ origin, ending, issuer }))
})
process.on('SIGTERM', () => {
  console.log('asked to stop')
  void end(0)
})
