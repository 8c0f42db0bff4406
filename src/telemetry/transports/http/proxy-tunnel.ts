import type { Agent, ClientRequest, ClientRequestArgs, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { ConnectionOptions } from 'node:tls'
import { requiredModule } from '../../../runtime.ts'
import type { HttpProxy } from './env-proxy.ts'

/**
 * Makes an `https.Agent` connect through a proxy, with `CONNECT`.
 * @param onConnect receives each request for a tunnel before it is sent.
 */
export function tunnelThrough(
  agent: Agent,
  { url, authorization }: HttpProxy,
  onConnect: (request: ClientRequest) => void,
): void {
  const { connect } = requiredModule('node:tls')
  const { request } = requiredModule(url.protocol === 'https:' ? 'node:https' : 'node:http')
  agent.createConnection = (options: ClientRequestArgs, callback) => {
    const host = String(options.host)
    const authority = `${host.includes(':') ? `[${host}]` : host}:${options.port}`
    const fail = (error: Error): void => callback?.(error, undefined as never)
    const tunnel = request(url, {
      method: 'CONNECT',
      path: authority,
      agent: false,
      headers: {
        host: authority,
        ...(authorization !== undefined && { 'proxy-authorization': authorization }),
      },
    })
    tunnel.once('error', fail)
    tunnel.once('connect', ({ statusCode = 0 }: IncomingMessage, socket: Duplex) => {
      if (statusCode >= 200 && statusCode < 300) {
        callback?.(null, connect({ ...(options as ConnectionOptions), socket }))
        return
      }
      socket.destroy()
      fail(
        Object.assign(new Error('The proxy rejected the tunnel'), { code: `PROXY_ANSWERED_${statusCode}` }),
      )
    })
    onConnect(tunnel)
    tunnel.end()
    return undefined
  }
}
