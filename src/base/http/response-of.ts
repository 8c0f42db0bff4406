import type { ClientRequest, IncomingMessage } from 'node:http'

/**
 * Returns the response of a request of `node:http`. Rejects if the request ends without one. After `101 Switching Protocols`,
 * Node.js closes the connection without an error and without a response.
 */
export function responseOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    request.on('error', reject)
    request.once('close', () =>
      reject(
        Object.assign(new Error('The connection was closed without a response'), { code: 'ECONNRESET' }),
      ),
    )
  })
}
