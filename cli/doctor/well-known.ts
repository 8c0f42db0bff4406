import type { CheckFunctions } from './check.ts'
import { clientProblem } from './client-problem.ts'
import { type Finding, ok, worst } from './finding.ts'
import { answerOf, type HttpExchange, NoResponseError } from './http-exchange.ts'
import { distinctUrls, metadataUrls } from './metadata-documents.ts'
import { withoutSlash } from './near-miss.ts'
import { quote } from './quote.ts'
import { requestEndpoint } from './request-endpoint.ts'

/** Returns the well-known URLs on the host of the server that clients fetch. */
function urlsOf(url: URL): readonly URL[] {
  const { path, root } = metadataUrls(url)
  const suffix = withoutSlash(url.pathname)
  const names = [`oauth-authorization-server${suffix}`, 'oauth-authorization-server', 'openid-configuration']
  return distinctUrls([path, root, ...names.map((name) => new URL(`/.well-known/${name}`, url.origin))])
}

export const WELL_KNOWN: CheckFunctions = {
  async 'wellknown.format'(examination) {
    const { url } = examination
    const findings: Finding[] = []
    const urls = urlsOf(url)
    for (const one of urls) {
      const request = examination.fetch('GET', one, { headers: { accept: 'application/json' } })
      const problem = problemOf(await answerOf(request))
      if (problem !== undefined)
        findings.push(clientProblem(examination, 'well-known-html', `${quote(one.pathname)}: ${problem}`))
    }
    const userAgent = 'mcp-gatekit-doctor'
    // Not `text/event-stream`, which would open a stream. A stream that sends no headers is not a problem of this check.
    const request = { method: 'GET', userAgent, accept: 'application/json' } as const
    const page = await answerOf(requestEndpoint(examination, request))
    if (
      !(page instanceof NoResponseError) &&
      page.status === 200 &&
      page.mediaType !== 'text/event-stream' &&
      page.json === undefined
    ) {
      const seen = `GET ${quote(url.pathname)} without a token: ${page.summary}, which is not JSON`
      findings.push(clientProblem(examination, 'body-at-endpoint', seen))
    }
    return findings.length === 0 ? ok(`${urls.length} URLs`) : worst(findings)
  },
}

/** Returns the reason why clients do not continue with the next URL, or `undefined`. */
function problemOf(response: HttpExchange | NoResponseError): string | undefined {
  if (response instanceof NoResponseError) return `no response (${response.detail})`
  const { status, summary, redirect, succeeded, object } = response
  if (status === 401 || status === 403) return `${summary}, which requires a token or a sign-in`
  if (status >= 500) return summary
  if (redirect !== undefined) return `${status}, ${redirect}`
  return succeeded && object === undefined ? `${summary}, which is not a JSON object` : undefined
}
