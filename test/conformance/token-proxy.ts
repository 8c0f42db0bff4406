import { request as httpRequest, type RequestListener } from 'node:http'

/**
 * Adds a bearer token to requests and passes them on to a local port. The conformance suite does not send tokens.
 * All other headers are unchanged, including `Host` and `Origin`.
 */
export function tokenProxy(port: number, token: string): RequestListener {
  return (req, res) => {
    const headers = [...req.rawHeaders, 'Authorization', `Bearer ${token}`]
    const outgoing = httpRequest({ host: '127.0.0.1', port, method: req.method, path: req.url, headers })
    outgoing.on('response', (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      res.flushHeaders()
      answer.pipe(res)
      answer.on('error', () => res.destroy())
    })
    outgoing.on('error', () => res.destroy())
    res.on('close', () => outgoing.destroy())
    req.pipe(outgoing)
  }
}
