import { namesLoopback } from '../loopback.ts'
import { type Attributes, attributeText } from './console-event.ts'
import type { EventKind } from './event-kind.ts'
import { forbiddenText } from './refusals.ts'
import type { Stage } from './stages.ts'

/** Returns the meaning of an HTTP request that `mcp-gatekit dev` has observed. */
export function requestKind(attributes: Attributes): EventKind {
  const { origin, host, challenge, covered, server } = attributes
  const status = Number(attributeText(attributes['http.response.status_code']))
  const path = attributeText(attributes['url.path'])
  const outcome = `→ ${status === 499 ? 'the client disconnected' : status}`
  const group = covered === true ? 'hidden' : 'request'
  const { says, hint } = forbiddenText(origin, host)
  const forbidden = { group, tone: 'bad', hint, stage: 'forbidden' } as const
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
  const isForeign = origin !== undefined || (host !== undefined && !namesLoopback(attributeText(host)))
  if (status === 403 && challenge === undefined && isForeign)
    return { ...forbidden, word: 'forbidden', title: `${says} ${outcome}` }
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
