import type { Check } from './check.ts'
import { type Observation, observation } from './examination.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { type HttpExchange, NoResponseError, type NoResponseKind } from './http-exchange.ts'
import { initialize, NEWEST_LEGACY } from './messages.ts'
import { quote } from './quote.ts'

/** A certificate with fewer days left is worth a word. */
const MIN_CERTIFICATE_DAYS = 14

/** The first thing asked: the handshake, without a token. */
export const firstAnswer: Observation<HttpExchange> = observation((examination) =>
  examination.post(initialize(NEWEST_LEGACY)),
)

const NO_ANSWER: Readonly<Record<NoResponseKind, string>> = {
  name: 'check the host name, and that it is in the DNS',
  refused:
    'start the server, and check the port and that it listens on an address that is reachable from here',
  closed:
    'the connection was closed without an answer: look into the log of the server and of the proxy in front',
  timeout:
    'every request must be answered: look for what the server waits for, or give the doctor a longer --timeout',
  certificate: 'hint the certificate',
  tls: 'what listens there speaks no TLS, or none that is still in use: check the port and https against http',
  'not-http': 'what listens there speaks no HTTP: check the port, and http against https',
  network: 'check the network between here and the server',
}

/** An answer that did not come, as a finding. */
export function noResponse({ kind, detail }: NoResponseError): Finding {
  return fail(`no answer (${detail})`, NO_ANSWER[kind])
}

export const REACHABILITY: readonly Check[] = [
  {
    id: 'server.reachable',
    title: 'The server answers',
    async run(examination) {
      try {
        const { summary, durationMs } = await firstAnswer(examination)
        return ok(`${summary} within ${durationMs} ms`)
      } catch (error) {
        // Whether its certificate is good is the next question.
        if (error instanceof NoResponseError && error.kind === 'certificate') return ok('it answers over TLS')
        throw error
      }
    },
  },
  {
    id: 'server.tls',
    title: 'The connection is encrypted',
    needs: ['server.reachable'],
    async run(examination) {
      if (examination.url.protocol === 'http:') {
        if (examination.isLocal) return ok('http, which is fine on this machine')
        return fail(
          'http: tokens travel in the clear',
          'serve it over https, and let http answer nothing but a redirect',
        )
      }
      try {
        const { tls } = await firstAnswer(examination)
        const end = tls?.validTo
        const seen = `${tls?.protocol}${end === undefined ? '' : `, certificate until ${end.toISOString().slice(0, 10)}`}`
        const days = end === undefined ? Number.POSITIVE_INFINITY : (end.getTime() - Date.now()) / 86_400_000
        return days < MIN_CERTIFICATE_DAYS
          ? warn(seen, 'renew the certificate, and have that done by itself')
          : ok(seen)
      } catch (error) {
        if (!(error instanceof NoResponseError) || error.kind !== 'certificate') throw error
        return fail(
          `the certificate is not to be trusted (${error.detail})`,
          'use a certificate of a known authority, with the intermediate ones; for an authority of your own set NODE_EXTRA_CA_CERTS',
        )
      }
    },
  },
  {
    id: 'server.endpoint',
    title: 'The URL is that of an MCP endpoint',
    needs: ['server.reachable'],
    async run(examination) {
      const answer = await firstAnswer(examination)
      const { status, summary } = answer
      if (status === 401 || status === 403) return ok(`${status}: it is guarded`)
      if (answer.message !== undefined) return ok(`${summary}, a JSON-RPC response`)
      if (status >= 300 && status < 400) {
        return fail(
          `${status}, a redirect to ${quote(answer.header('location') ?? 'nowhere')}`,
          'give clients the address it leads to: many follow no redirect of a POST, or lose the token on the way',
        )
      }
      if (status === 404 || status === 405) {
        return fail(
          `${status} to a POST`,
          'give the URL of the MCP endpoint itself, with its path (such as /mcp), and let it take POST (Streamable HTTP)',
        )
      }
      if (status === 429) {
        return fail('429: this address has asked too often', 'wait, and run the doctor again')
      }
      if (status >= 500)
        return fail(summary, 'look into the log of the server, and of the proxy in front of it')
      return fail(
        `${summary}, which is no JSON-RPC response`,
        'give the URL of the MCP endpoint itself; it must answer a POST with application/json or text/event-stream',
      )
    },
  },
]
