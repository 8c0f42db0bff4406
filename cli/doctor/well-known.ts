import type { Check } from './check.ts'
import { clientProblem } from './client-problem.ts'
import { requestEndpoint } from './client-requests.ts'
import type { Examination } from './examination.ts'
import { type Finding, ok, worst } from './finding.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'
import { metadataUrls } from './metadata-documents.ts'
import { quote } from './quote.ts'

/** Returns the well-known URLs on the host of the server that clients fetch. */
function urlsOf({ url }: Examination): readonly URL[] {
  const { path, root } = metadataUrls(url)
  const suffix = url.pathname.replace(/\/$/, '')
  const names = [`oauth-authorization-server${suffix}`, 'oauth-authorization-server', 'openid-configuration']
  const urls = [path, root, ...names.map((name) => new URL(`/.well-known/${name}`, url.origin))]
  return urls.filter((one, index) => urls.findIndex(({ href }) => href === one.href) === index)
}

export const WELL_KNOWN: readonly Check[] = [
  {
    id: 'wellknown.format',
    title: 'Well-known URLs respond with JSON or 404',
    needs: ['server.endpoint'],
    async run(examination) {
      const findings: Finding[] = []
      const urls = urlsOf(examination)
      for (const url of urls) {
        const problem = await problemAt(examination, url)
        if (problem !== undefined)
          findings.push(clientProblem(examination, 'well-known-html', `${quote(url.pathname)}: ${problem}`))
      }
      const page = await pageAt(examination)
      if (page?.status === 200 && page.mediaType !== 'text/event-stream' && page.json === undefined) {
        const seen = `GET ${quote(examination.url.pathname)} without a token: ${page.summary}, which is not JSON`
        findings.push(clientProblem(examination, 'body-at-endpoint', seen))
      }
      return findings.length === 0 ? ok(`${urls.length} URLs`) : worst(findings)
    },
  },
]

/** Returns the response to a GET of the endpoint. A stream that sends no headers is not a problem of this check. */
async function pageAt(examination: Examination): Promise<HttpExchange | undefined> {
  try {
    return await requestEndpoint(examination, {
      method: 'GET',
      userAgent: 'mcp-gatekit-doctor',
      // Not `text/event-stream`, which would open a stream.
      accept: 'application/json',
    })
  } catch (error) {
    if (!(error instanceof NoResponseError)) throw error
    return undefined
  }
}

async function problemAt(examination: Examination, url: URL): Promise<string | undefined> {
  try {
    return problemOf(await examination.fetch('GET', url, { headers: { accept: 'application/json' } }))
  } catch (error) {
    if (!(error instanceof NoResponseError)) throw error
    return `no response (${error.detail})`
  }
}

/** Returns the reason why clients do not continue with the next URL, or `undefined`. */
function problemOf(response: HttpExchange): string | undefined {
  const { status, summary } = response
  if (status === 401 || status === 403) return `${status}, which requires a token or a sign-in`
  if (status >= 500) return summary
  if (status >= 300 && status < 400)
    return `${status}, a redirect to ${quote(response.header('location') ?? 'no location')}`
  const { json } = response
  const isObject = typeof json === 'object' && json !== null && !Array.isArray(json)
  return status >= 200 && status < 300 && !isObject ? `${summary}, which is not a JSON object` : undefined
}
