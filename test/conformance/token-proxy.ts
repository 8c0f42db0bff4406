import { request as httpRequest, type RequestListener } from 'node:http'

/**
 * Passes requests on to a port of this machine with a bearer token added, as the conformance suite sends none. All other
 * headers, `Host` and `Origin` among them, stay as they came.
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
