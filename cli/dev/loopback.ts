import { once } from 'node:events'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isLoopbackHostname } from '../../src/options/option-checks.ts'
import { UsageError } from '../usage-error.ts'

/** A port that is asked for, or one that would be good to have. */
export interface Port {
  readonly number: number
  /** Whether another one does as well, where this one is taken. */
  readonly orAnother: boolean
}

/**
 * Listens on 127.0.0.1. Resolves with the port.
 * @param option what asked for the port, for the error
 * @throws {UsageError} where the port is taken and no other one does
 */
export async function listenOnLoopback(server: Server, port: Port, option: string): Promise<number> {
  try {
    server.listen(port.number, '127.0.0.1')
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as { code?: string }
    if (code !== 'EADDRINUSE' && code !== 'EACCES') throw error
    if (port.orAnother) return await listenOnLoopback(server, { number: 0, orAnother: false }, option)
    throw new UsageError(`--${option}: port ${port.number} on 127.0.0.1 is not available (${code})`)
  }
  return (server.address() as AddressInfo).port
}

/** Ends a server with every connection it has. */
export async function stopServer(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}

/**
 * Answers 403 to who names another host than this machine, as a page does whose name was made to point here (DNS
 * rebinding), and hands on everything else.
 */
export function forLoopbackHosts(listener: RequestListener): RequestListener {
  return (req, res) => {
    if (namesLoopback(req)) listener(req, res)
    else refuse(res, 403, 'This server answers to 127.0.0.1 and localhost only')
  }
}

function namesLoopback({ headers: { host = '' } }: IncomingMessage): boolean {
  return URL.canParse(`http://${host}`) && isLoopbackHostname(new URL(`http://${host}`).hostname)
}

/** Answers with one line of text. */
export function refuse(
  res: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  res.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Cache-Control': 'no-store',
    ...headers,
  })
  res.end(`${text}\n`)
}
