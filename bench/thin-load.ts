import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'

export interface ThinLoadOptions {
  readonly port: number
  readonly connections: number
  readonly durationMs: number
  /** The expected status. Defaults to 200. */
  readonly expectStatus?: number
  readonly request: { readonly method?: string; readonly headers?: object; readonly body?: unknown }
}

export interface ThinLoadResult {
  readonly requests: number
  readonly requestsPerSecond: number
  /** The CPU time of this process for all requests. */
  readonly cpuMicros: number
}

/**
 * Repeats one request on several connections. Each connection sends the next request after a complete response. Of a
 * response, only the status and the length are read, so that the measured processes get most of the CPU time.
 * @throws if the status of a response is not the expected one.
 */
export async function thinLoad(options: ThinLoadOptions): Promise<ThinLoadResult> {
  const { port, connections, durationMs, expectStatus = 200, request } = options
  const body = String(request.body ?? '')
  const headers = { ...request.headers, host: `127.0.0.1:${port}`, 'content-length': Buffer.byteLength(body) }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const bytes = Buffer.from(`${request.method ?? 'GET'} /mcp HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
  let requests = 0
  let running = true
  let failed: Error | undefined

  /** Sends requests until the time is up, and replaces connections that the server closes. */
  const one = async (): Promise<void> => {
    while (running && failed === undefined) await untilClosed()
  }
  const untilClosed = (): Promise<void> =>
    new Promise((resolve) => {
      let read = ''
      const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => socket.write(bytes))
      socket.setEncoding('latin1')
      socket.on('data', (chunk) => {
        read += chunk
        const length = lengthOf(read)
        if (length === undefined || read.length < length) return
        if (!read.startsWith(`HTTP/1.1 ${expectStatus} `)) failed ??= new Error(read.slice(0, 200))
        requests++
        const last = /^connection: close\r$/im.test(read)
        read = ''
        if (!running || failed !== undefined || last) socket.destroy()
        else socket.write(bytes)
      })
      socket.on('error', (error) => {
        failed ??= error
      })
      socket.on('close', () => resolve())
    })

  const before = process.cpuUsage()
  const startedAt = performance.now()
  const work = Array.from({ length: connections }, one)
  await setTimeout(durationMs)
  running = false
  await Promise.all(work)
  if (failed !== undefined) throw failed
  const { user, system } = process.cpuUsage(before)
  const seconds = (performance.now() - startedAt) / 1_000
  return { requests, requestsPerSecond: requests / seconds, cpuMicros: user + system }
}

/** Returns the length of the whole response, or undefined if the received part does not contain it yet. */
function lengthOf(read: string): number | undefined {
  const head = read.indexOf('\r\n\r\n')
  if (head < 0) return undefined
  const [, given] = /^content-length: (\d+)\r$/im.exec(read.slice(0, head + 1)) ?? []
  if (given !== undefined) return head + 4 + Number(given)
  return read.endsWith('\r\n0\r\n\r\n') ? read.length : undefined
}
