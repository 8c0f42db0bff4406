import { type Attributes, attributeText } from './console-event.ts'
import type { EventKind } from './event-kind.ts'
import type { Stage } from './stages.ts'

/** Returns the meaning of an HTTP request that `mcp-gatekit dev` has observed. */
export function requestKind(attributes: Attributes): EventKind {
  const { origin, host, challenge, covered, server } = attributes
  const status = Number(attributeText(attributes['http.response.status_code']))
  const path = attributeText(attributes['url.path'])
  const outcome = `→ ${status === 499 ? 'the client disconnected' : status}`
  const group = covered === true ? 'hidden' : 'request'
  const forbidden = {
    group,
    tone: 'bad',
    hint:
      origin === undefined
        ? `Add the host name of ${attributeText(host)} to allowedHosts, or send the request to localhost.`
        : `Add '${attributeText(origin)}' to allowedOrigins. A loopback server permits only loopback origins by default.`,
    stage: 'forbidden',
  } as const
  if (attributes.preflight === true) {
    const word = 'preflight'
    const title = `${path}${origin === undefined ? '' : ` from ${attributeText(origin)}`} ${outcome}`
    return status >= 400 ? { ...forbidden, word, title } : { group, tone: 'plain', word, title }
  }
  if (path.startsWith('/.well-known/')) {
    const isFound = status === 200
    const stage = metadataStage(path, isFound, server)
    const title = `${path} ${outcome}`
    return { group, tone: isFound ? 'good' : 'plain', word: 'metadata', title, stage }
  }
  // A request that is refused for `Origin` or `Host` has no challenge.
  if (attributes['http.response.status_code'] === 403 && challenge === undefined && covered !== true) {
    const names = origin === undefined ? `Host ${attributeText(host)}` : `Origin ${attributeText(origin)}`
    return { ...forbidden, word: 'forbidden', title: `${names} is not allowed ${outcome}` }
  }
  const operation = [attributes['mcp.method.name'], attributes['gen_ai.tool.name']]
    .filter((part) => part !== undefined)
    .map(attributeText)
    .join(' ')
  const what = operation || `${attributeText(attributes['http.request.method'])} ${path}`
  const stage = callStage(status, attributes)
  return {
    group,
    tone: status >= 400 ? 'warn' : 'plain',
    word: 'request',
    title: `${what} ${outcome}`,
    stage,
  }
}

function metadataStage(path: string, isFound: boolean, server: unknown): Stage | undefined {
  if (server === 'authorization') return isFound ? 'issuer-metadata' : undefined
  if (!path.startsWith('/.well-known/oauth-protected-resource')) return undefined
  return isFound ? 'metadata' : 'no-metadata'
}

function callStage(status: number, { token, challenge }: Attributes): Stage | undefined {
  if (status === 401) return token === undefined ? 'challenged' : 'refused'
  if (status === 403 && attributeText(challenge).includes('insufficient_scope')) return 'scopes'
  return status < 400 && token !== undefined ? 'called' : undefined
}
