import { once } from 'node:events'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readBounded } from '../src/base/http/bounded-fetch.ts'
import { isLoopbackHostname } from '../src/base/options/option-checks.ts'
import { UsageError } from './command.ts'

/** A port to listen on. */
export interface Port {
  readonly number: number
  /** Uses a free port if this one is in use. */
  readonly orAnother: boolean
}

/**
 * Listens on 127.0.0.1. Resolves with the port.
 * @param option the option that sets the port, for the error message
 * @throws {UsageError} if the port is in use and no other port may be used
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

/** Closes a server and all its connections. */
export async function stopServer(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}

/** Returns the body of a request, or `undefined` if it is too large or was cut off. */
export async function bodyOf(req: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  // The request stays open for a response.
  const body = readBounded(req.iterator({ destroyOnReturn: false }), maxBytes)
  return (await body.catch(() => undefined))?.toString('utf8')
}

/**
 * Responds with 403 to requests whose `Host` is not this machine, such as those of a DNS rebinding attack. Passes other
 * requests to the listener.
 */
export function forLoopbackHosts(listener: RequestListener): RequestListener {
  return (req, res) => {
    if (namesLoopback(req.headers.host ?? '')) listener(req, res)
    else refuse(res, 403, 'This server accepts only the hosts 127.0.0.1 and localhost')
  }
}

/** Returns `true` for a `Host` that names this machine. Others are sent by DNS rebinding, for example. */
export function namesLoopback(host: string): boolean {
  return URL.canParse(`http://${host}`) && isLoopbackHostname(new URL(`http://${host}`).hostname)
}

/** Responds with an error status and one line of text. */
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
