import type { CheckFunctions } from './check.ts'
import { type Observation, observation } from './examination.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { answerOf, type HttpExchange, NoResponseError, type NoResponseKind } from './http-exchange.ts'
import { fixFor } from './known-fixes.ts'
import { legacySse } from './legacy-sse.ts'
import { initialize, NEWEST_LEGACY } from './messages.ts'

/** A certificate that expires earlier gets a warning. */
const MIN_CERTIFICATE_DAYS = 14

/** The response to the first request, which is a handshake without a token. */
export const firstResponse: Observation<HttpExchange> = observation((examination) =>
  examination.post(initialize(NEWEST_LEGACY)),
)

const NO_RESPONSE_HINTS: Readonly<Record<NoResponseKind, string>> = {
  name: 'check the host name and its DNS record',
  refused:
    'start the server; check the port, and that the server listens on an address that is reachable from this machine',
  closed:
    'check the logs of the server and of the proxy in front of it: the connection was closed without a response',
  timeout: 'find out what the server waits for, or use a longer --timeout',
  certificate: 'use a certificate of a known authority; for a private authority, set NODE_EXTRA_CA_CERTS',
  tls: 'check the port, and https against http: the server does not support TLS, or only versions that are obsolete',
  'not-http': 'check the port, and http against https: the response is not HTTP',
  network: 'check the network between this machine and the server',
}

/** Converts a missing response to a finding. */
export function noResponse({ kind, detail }: NoResponseError): Finding {
  return fail(`no response (${detail})`, NO_RESPONSE_HINTS[kind])
}

export const REACHABILITY: CheckFunctions = {
  async 'server.reachable'(examination) {
    const response = await answerOf(firstResponse(examination))
    if (!(response instanceof NoResponseError))
      return ok(`${response.summary} within ${response.durationMs} ms`)
    // The next check covers the certificate.
    return response.kind === 'certificate' ? ok('it responds over TLS') : noResponse(response)
  },
  async 'server.tls'(examination) {
    if (examination.url.protocol === 'http:')
      return examination.isLocal
        ? ok('http, which is safe on this machine')
        : fail('http: tokens are sent unencrypted', 'serve it over https, and redirect every http request')
    const response = await answerOf(firstResponse(examination))
    if (response instanceof NoResponseError)
      // The first check reports any other reason.
      return fail(
        `the certificate is not trusted (${response.detail})`,
        'use a certificate of a known authority and send the intermediate certificates; for a private authority, set NODE_EXTRA_CA_CERTS',
      )
    const { protocol, validTo } = response.tls ?? {}
    if (validTo === undefined) return ok(`${protocol}`)
    const seen = `${protocol}, certificate valid until ${validTo.toISOString().slice(0, 10)}`
    const days = (validTo.getTime() - Date.now()) / 86_400_000
    return days < MIN_CERTIFICATE_DAYS
      ? warn(seen, 'renew the certificate, and automate the renewal')
      : ok(seen)
  },
  async 'server.endpoint'(examination) {
    const response = await firstResponse(examination)
    const { status, summary, redirect } = response
    if (status === 401) return ok('401: it is protected')
    const fix = fixFor(summary)
    if (fix !== undefined) return fail(`${summary} for a correct initialize request`, fix)
    if (status === 403) return ok(`${summary}: it is protected`)
    if (response.message !== undefined && status < 500) return ok(`${summary}, a JSON-RPC response`)
    if (redirect !== undefined)
      return fail(
        `${status}, ${redirect}`,
        'give clients the target URL: many clients do not follow a redirect of a POST, or drop the token',
      )
    const legacy = await legacySse(examination, status)
    if (legacy !== undefined) return legacy
    if (status === 404 || status === 405)
      return fail(
        `${summary} for a POST`,
        'use the URL of the MCP endpoint with its path (such as /mcp), and make it accept POST (Streamable HTTP)',
      )
    if (status === 429) return fail('429: too many requests from this address', 'wait, and run doctor again')
    if (status >= 500) return fail(summary, 'check the logs of the server and of the proxy in front of it')
    return fail(
      `${summary}, which is not a JSON-RPC response`,
      'use the URL of the MCP endpoint; it must respond to a POST with application/json or text/event-stream',
    )
  },
}
